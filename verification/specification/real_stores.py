"""The store in a folder, and its group channel, as they are, with their steps recorded (`real_recording`).

Replies are lost on purpose, as they are on the way to a server.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from spark_eos.errors import (
    EosLogError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from spark_eos.log.commit.outcomes import read_newest
from spark_eos.storage.group_channel import FileGroupChannel, GroupChannel
from spark_eos.storage.posix.files import TemporaryFile
from spark_eos.storage.posix.store import PosixStore
from spark_eos.storage.store import Data
from verification.specification.events import Event
from verification.specification.real_recording import RealRecorder
from verification.specification.recording import Create, Watch
from verification.specification.stores import ids_of, reported_in, slot_of

__all__ = ["RecordedFolder", "Trouble"]

T = TypeVar("T")


@dataclass
class Trouble:
    """What goes wrong with the creates of one process: how often, from 0 to 1."""

    chance: random.Random
    reply_lost: float = 0.0
    lost: float = 0.0
    late: float = 0.0
    """Done a little later, by a thread, or never if the process ends before."""
    busy: float = 0.0
    taken_by_itself: float = 0.0
    """The reply is that the name is taken: by this very create."""
    dies: str = ""
    """SIGKILL after an effect, and before it is recorded: ``link``, ``submit`` or ``lead``."""
    dies_at: int = 0
    """At which of them, from 1."""

    def strikes(self, rate: float) -> bool:
        """Whether it happens now."""
        return self.chance.random() < rate

    def reached(self, what: str) -> None:
        """The process dies here, if it is to."""
        if self.dies == what:
            self.dies_at -= 1
            if self.dies_at == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class RecordedFolder(PosixStore):
    """A folder that records what takes effect in it, by this process."""

    def __init__(self, root: str, recorder: RealRecorder, trouble: Trouble, *, exact: bool) -> None:
        super().__init__(root)
        self.recorder = recorder
        self.trouble = trouble
        self.has_exact_conflicts = exact
        self.watch: Watch | None = None
        self._of_thread = threading.local()

    # -- Creates --------------------------------------------------------------------------------------------

    def create(self, name: str, data: Data) -> None:
        slot, watch = slot_of(name), self.watch
        if not slot or watch is None:
            super().create(name, data)
            return
        create = watch.creates(slot, ids_of(data, slot, name))
        reply, late = "busy", False
        try:
            late = self._create(create, name, data)
            reply = "unknown" if late else "created"
        except ObjectExistsError:
            reply = "taken"
            raise
        except OutcomeUnknownError:
            reply = "unknown"
            raise
        finally:
            with self.recorder.order:
                watch.hears(create, reply, is_filled=True)
                self.recorder.flush()
            if late:
                threading.Thread(target=self._create_late, args=(create, name, data), daemon=True).start()
        if late:
            raise OutcomeUnknownError(f"create {name}: no answer")

    def _create(self, create: Create, name: str, data: Data) -> bool:
        """Create it, with trouble; whether it is to be done later."""
        trouble = self.trouble
        if trouble.strikes(trouble.busy):
            raise StoreUnavailableError(f"create {name}: busy")
        if trouble.strikes(trouble.lost):
            raise OutcomeUnknownError(f"create {name}: no answer")
        if trouble.strikes(trouble.late):
            return True
        self._of_thread.create = create
        try:
            super().create(name, data)
        finally:
            self._of_thread.create = None
        if trouble.strikes(trouble.reply_lost):
            raise OutcomeUnknownError(f"create {name}: the reply was lost")
        if not self.has_exact_conflicts and trouble.strikes(trouble.taken_by_itself):
            raise ObjectExistsError(f"create {name}: it exists already")
        return False

    def _create_late(self, create: Create, name: str, data: Data) -> None:
        time.sleep(self.trouble.chance.choice([0.0, 0.005, 0.05]))
        self._of_thread.create = create
        with suppress(EosLogError):
            super().create(name, data)

    def _link(self, temp: TemporaryFile, path: str, folder: int) -> None:
        create: Create | None = getattr(self._of_thread, "create", None)
        if create is None:
            super()._link(temp, path, folder)
            return
        with self.recorder.order:
            self.recorder.intends(create, Path(temp.path).stat().st_ino)
            try:
                super()._link(temp, path, folder)
            except BaseException:
                self.recorder.has_not_landed()
                raise
            self.trouble.reached("link")
            self.recorder.landed(create)

    # -- The look whether a slot is free --------------------------------------------------------------------

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        return self._looked(name, lambda: super(RecordedFolder, self).read(name, offset, length))

    def identity(self, name: str) -> tuple[int, ...]:
        return self._looked(name, lambda: super(RecordedFolder, self).identity(name))

    def _looked(self, name: str, look: Callable[[], T]) -> T:
        slot, watch = slot_of(name), self.watch
        if not slot or watch is None or slot != watch.tail.state.seq + 1:
            return look()
        with self.recorder.order:
            try:
                return look()
            except ObjectNotFoundError:
                watch.reads_free(slot)
                self.recorder.flush()
                raise

    # -- Maintenance: recorded first. If it is not done, as the process was killed, the next one does it ------

    def retire(self, name: str) -> None:
        self._changed("Retire", name, super().retire)

    def delete(self, name: str) -> None:
        self._changed("Delete", name, super().delete)

    def _changed(self, kind: str, name: str, change: Callable[[str], None]) -> None:
        if not (slot := slot_of(name)):
            change(name)
            return
        with self.recorder.order:
            inode = 0
            with suppress(FileNotFoundError):
                inode = Path(self._path(name)).stat().st_ino
            self.recorder.add_now(Event(kind, 0, slot), inode)
            change(name)

    def group_channel(self, name: str) -> GroupChannel:
        assert self.watch is not None
        folder = f"{self._temp_folder}/group-channel-{name}"
        return _RecordedChannel(folder, self.watch, self.recorder, self.trouble)


class _RecordedChannel(FileGroupChannel):
    def __init__(self, folder: str, watch: Watch, recorder: RealRecorder, trouble: Trouble) -> None:
        super().__init__(folder, reports_outcomes=RecordedFolder.reports_outcomes)
        self._watch = watch
        self._recorder = recorder
        self._trouble = trouble

    def submit(self, data: bytes) -> bool:
        with self._recorder.order:
            self._recorder.intends_submission(self._path(self._own), data)
            works = super().submit(data)
            self._trouble.reached("submit")
            self._watch.submits(is_there=works, works=works)
            self._recorder.flush()
        return works

    def withdraw(self) -> bool:
        with self._recorder.order:
            works = super().withdraw()
            self._watch.withdraws(is_gone=works, works=works)
            self._recorder.flush()
        return works

    def submissions(self) -> Iterator[bytes]:
        with self._recorder.order:
            self._watch.leads()
            found = [*super().submissions()]
            self._recorder.flush()
        self._trouble.reached("lead")
        return iter(found)

    def report_outcomes(self, data: bytes) -> None:
        with self._recorder.order:
            self._watch.reports(*reported_in(data))
            self._recorder.flush()
        super().report_outcomes(data)

    def outcomes(self) -> bytes | None:
        told = super().outcomes()
        if told is not None:
            self._watch.reported, _ = read_newest(told)
        return told
