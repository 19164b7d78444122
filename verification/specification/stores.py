"""Stores and group channels whose steps are recorded (`verification.specification.recording`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

from spark_eos.errors import (
    CorruptRecordError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from spark_eos.log import paths
from spark_eos.log.commit.outcomes import read_newest
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.storage.group_channel import GroupChannel
from spark_eos.storage.store import Data
from verification.simulator.group_channel import Place, SimulatedGroupChannel
from verification.simulator.store import SimulatedObjectStore, SimulatedStore
from verification.simulator.world import Process
from verification.specification.recording import Create, Recorder, Watch

__all__ = ["RecordedObjectStore", "RecordedStore", "ids_of", "reported_in", "slot_of"]

T = TypeVar("T")

_OLD = 0.5
"""How often a leader over a network finds what is old."""

_ENTRY = re.compile(rf"{paths.LOG}(?:\d{{12}}/)?(\d{{20}})\.avro")


def slot_of(name: str) -> int:
    """The slot that an entry's name says; 0 for any other name."""
    found = _ENTRY.fullmatch(name)
    return int(found.group(1)) if found else 0


def ids_of(data: Data, slot: int, name: str) -> list[bytes]:
    """The ids of the requests in an entry that is sent to a slot; by a planted bug, to a later one than its own."""
    for seq in range(slot, 0, -1):
        with suppress(CorruptRecordError):
            return [one.request_id for one in decode_entry(data, seq, name).requests]
    raise CorruptRecordError(f"{name}: no entry of this slot, or of an earlier one")


def reported_in(data: bytes) -> tuple[int, list[bytes]]:
    """The newest entry of a report (`spark_eos.log.commit.outcomes`), and the ids of the requests in it."""
    number, _, _, results = data.rpartition(b"\n")[2].split(b" ", 3)
    return int(number), [*map(bytes.fromhex, json.loads(results))]


class RecordedStore(SimulatedStore):
    """A simulated store that tells what took effect in it, and when."""

    recorder: Recorder
    watched: dict[Process, Watch]
    reach: int = 0
    """Over a network: in so many slots a submission may be. 0: the channel of a folder."""
    copies: list[tuple[int, bytes]]
    """All that was submitted there, with the number of its process."""

    def _watch(self) -> Watch | None:
        return self.watched.get(self._world.current())

    def create(self, name: str, data: Data) -> None:
        slot, watch = slot_of(name), self._watch()
        if not slot or watch is None:
            super().create(name, data)
            return
        create = watch.creates(slot, ids_of(data, slot, name))
        try:
            super().create(name, data)
        except ObjectExistsError:
            watch.hears(create, "taken", is_filled=name in self.written)
            raise
        except OutcomeUnknownError:
            watch.hears(create, "unknown", is_filled=False)
            raise
        except StoreUnavailableError:
            watch.hears(create, "busy", is_filled=False)
            raise
        watch.hears(create, "created", is_filled=True)

    def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        if slot := slot_of(name):
            watch = self._watch()
            effect = self._watched(operation, slot, effect, watch)
        return super()._call(operation, name, effect)

    def _watched(
        self, operation: str, slot: int, effect: Callable[[], T], watch: Watch | None
    ) -> Callable[[], T]:
        create: Create | None = watch.creating if watch is not None and operation == "create" else None

        def watched() -> T:
            try:
                done = effect()
            except ObjectNotFoundError:
                if operation == "read" and watch is not None:
                    watch.reads_free(slot)
                raise
            if create is not None:
                self.recorder.landed(create)
            if operation in {"retire", "delete"}:
                self.recorder.changed(operation.capitalize(), slot)
            return done

        return watched

    def group_channel(self, name: str) -> GroupChannel:
        watch = self._watch()
        assert watch is not None
        kind = _NetworkChannel if self.reach else _Channel
        return kind(self, self._places.setdefault(name, Place()), watch)


class RecordedObjectStore(RecordedStore, SimulatedObjectStore):
    """The same of the store behind a library that tries again."""


class _Channel(SimulatedGroupChannel):
    def __init__(self, store: RecordedStore, place: Place, watch: Watch) -> None:
        super().__init__(store._world, place)  # noqa: SLF001
        self._watch = watch

    def submit(self, data: bytes) -> bool:
        works = super().submit(data)
        self._watch.submits(is_there=self._place.requests.get(self) is data, works=works)
        return works

    def withdraw(self) -> bool:
        works = super().withdraw()
        self._watch.withdraws(is_gone=self not in self._place.requests, works=works)
        return works

    def report_outcomes(self, data: bytes) -> None:
        self._watch.reports(*reported_in(data))
        super().report_outcomes(data)

    def outcomes(self) -> bytes | None:
        told = super().outcomes()
        if told is not None:
            self._watch.reported, _ = read_newest(told)
        return told

    def submissions(self) -> Iterator[bytes]:
        self._watch.leads()
        return super().submissions()


class _NetworkChannel(_Channel):
    """Leaders are on other machines: each of them may find what was ever submitted, also what was withdrawn."""

    def __init__(self, store: RecordedStore, place: Place, watch: Watch) -> None:
        super().__init__(store, place, watch)
        self.reach = store.reach
        self._copies = store.copies

    def submit(self, data: bytes) -> bool:
        works = super().submit(data)
        if self._place.requests.get(self) is data:
            self._copies.append((self._watch.number, data))
        return works

    def submissions(self) -> Iterator[bytes]:
        now = [*super().submissions()]
        old = [data for number, data in self._copies if number != self._watch.number and data not in now]
        if not self._world.random.random() < _OLD:
            return iter(now)
        self._world.random.shuffle(old)
        return iter([*old, *now])
