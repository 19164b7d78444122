"""The group channel of actors: every look at it and every change is a step, between which others get their turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from spark_eos.errors import EosLogError, ObjectExistsError
from spark_eos.storage.group_channel import GroupChannel
from verification.explorer.store import GROUP_CHANNEL, ExploredStore

__all__ = ["ExploredGroupChannel", "ReportingGroupChannel"]


class ExploredGroupChannel(GroupChannel):
    """An actor's place in it: objects of the store that are no objects of the log.

    All actors are under contention from the start. The lead of an actor that died is not free again, as if the actor
    slept.
    """

    def __init__(self, store: ExploredStore, who: str) -> None:
        self._store = store
        self._own = f"{GROUP_CHANNEL}request-{who}"
        self._leads = False

    def try_lead(self) -> bool:
        if not self._leads:
            try:
                self._store.create(f"{GROUP_CHANNEL}lead", b"")
            except ObjectExistsError:
                return False
            except EosLogError:
                return True
        self._leads = True
        return True

    def release_lead(self) -> None:
        if self._leads:
            self._leads = False
            self._done(lambda: self._store.delete(f"{GROUP_CHANNEL}lead"))

    def leader_token(self) -> int:
        return 1

    def submit(self, data: bytes) -> bool:
        return self._done(lambda: self._store.overwrite(self._own, data))

    def withdraw(self) -> bool:
        return self._done(lambda: self._store.delete(self._own))

    def submissions(self) -> Iterator[bytes]:
        with suppress(EosLogError):
            for info in self._store.list(f"{GROUP_CHANNEL}request-"):
                if info.name != self._own:
                    with suppress(EosLogError):
                        yield bytes(self._store.read(info.name))

    def publish(self, seq: int, data: bytes) -> None:
        self._done(lambda: self._store.overwrite(f"{GROUP_CHANNEL}entry-{seq}", data))

    def published(self, seq: int) -> bytes | None:
        try:
            return bytes(self._store.read(f"{GROUP_CHANNEL}entry-{seq}"))
        except EosLogError:
            return None

    def report_outcomes(self, data: bytes) -> None:
        self._done(lambda: self._store.overwrite(f"{GROUP_CHANNEL}outcomes", data))

    def outcomes(self) -> bytes | None:
        try:
            return bytes(self._store.read(f"{GROUP_CHANNEL}outcomes"))
        except EosLogError:
            return None

    @staticmethod
    def _done(call: Callable[[], None]) -> bool:
        try:
            call()
        except EosLogError:
            return False
        return True


class ReportingGroupChannel(ExploredGroupChannel):
    """The same where leaders report outcomes: actors lag."""

    reports_outcomes = True
