"""One run of several operating-system processes that write to one log in a folder: `real_processes` makes many.

Store, group channel, threads, clocks and timings are those of production. A process is killed or stopped when so many
steps were recorded, and not at a time: on a slow machine as much happens.
"""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from spark_eos.errors import CommitOutcomeUnknownError, EosLogError
from spark_eos.log.clock import Retry
from spark_eos.log.environment import PROCESS, Environment, Lag
from spark_eos.log.log import Log
from spark_eos.maintenance.name_deletion import RetiredNames
from spark_eos.storage.posix.store import PosixStore
from verification.retiring import RETIRED_AT_ONCE
from verification.specification.events import Event
from verification.specification.real_recording import RealRecorder, merged, request_id
from verification.specification.real_stores import RecordedFolder, Trouble
from verification.specification.stores import slot_of
from verification.specification.worlds import append, proposal

__all__ = ["Plan", "run"]

_AWAY_S, _KEPT_S = 0.3, 1.2
"""Where names of retired entries are deleted: processes that sleep longer notice that they were away."""

_LAG = Lag(after=1, requests=0.0, skips=2, most_s=0.05, each_s=0.0)

_MOST_STEPS, _LONGEST_S = 3000, 60.0
"""Code with a planted mistake may come to no end; then its processes are killed."""

_TICK_S = 0.001


class Strike(NamedTuple):
    """One process is struck when so many steps were recorded; ``stopped_s``: for how long, 0 if it is killed."""

    at: int
    process: int
    stopped_s: float


class Plan(NamedTuple):
    """What is done in the run of one seed. What comes of it depends on the machine."""

    writers: int
    requests: int
    interval: int
    exact: bool
    """Whether "the name is taken" is never said of the object that this very request made."""
    is_lossy: bool
    maintains: bool
    forgets: bool
    """Names of retired entries are deleted."""
    lags: bool
    """Processes lag after a few entries: their requests are appends, whose results leaders report."""
    dies: tuple[int, str, int]
    """The process that kills itself after an effect and before its record, which effect, and at which of them."""
    strikes: list[Strike]

    @classmethod
    def of(cls, seed: int) -> Plan:
        """That of a seed."""
        chance = random.Random(f"real {seed}")
        lossy, dying, killed, stopped, maintains = (chance.random() < 0.4 for _ in range(5))
        lags = random.Random(f"lags {seed}").random() < 0.5
        writers = chance.choice([3, 3, 4]) + lags
        forgets = maintains and chance.random() < 0.4
        strikes = []
        if killed:
            strikes.append(Strike(chance.randint(20, 250), chance.randint(1, writers), 0.0))
        for _ in range(chance.randint(1, 3) if stopped else 0):
            length_s = 2 * _KEPT_S if forgets else chance.choice([0.02, 0.2, 1.3])
            strikes.append(Strike(chance.randint(20, 200), chance.randint(1, writers), length_s))
        return cls(
            writers=writers,
            requests=chance.randint(3, 5) + 3 * lags,
            interval=chance.choice([2, 3] if maintains else [2, 3, 1000]),
            exact=chance.random() < 0.5,
            is_lossy=lossy,
            maintains=maintains,
            forgets=forgets,
            lags=lags,
            dies=(
                chance.randint(1, writers) if dying else 0,
                chance.choice(["link", "submit", "lead"]),
                chance.randint(1, 3),
            ),
            strikes=sorted(strikes),
        )

    @property
    def environment(self) -> Environment:
        """That of production; where names are deleted or processes lag, with limits that a short run reaches."""
        forgets = replace(PROCESS, away_s=_AWAY_S, names_kept_s=_KEPT_S) if self.forgets else PROCESS
        return replace(forgets, lag=_LAG) if self.lags else forgets


def run(seed: int, folder: Path) -> tuple[Plan, list[Event], bool]:
    """Start the processes of a seed, strike them, and put their steps in order; whether they have come to an end.

    ``folder`` is empty.

    Raises
    ------
    RuntimeError
        A process has ended with an error that is none of a commit.
    """
    crew = _Crew(seed, folder)
    try:
        crew.play()
    finally:
        crew.end()
    if (errors := folder / "errors").exists():
        raise RuntimeError(f"seed {seed}: {errors.read_text(encoding='utf-8')}")
    files = {slot_of(path.relative_to(crew.log).as_posix()): path for path in crew.log.rglob("*.avro")}
    reach = Event("Reach", 0)  # That of the channel of a folder.
    return crew.plan, [reach, *merged(folder, files)], crew.has_ended


class _Crew:
    """The processes of one run, as their parent sees them."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.folder = folder
        self.log = folder / "log"
        self.plan = Plan.of(seed)
        self._over = folder / "over"
        self._pids: dict[int, int] = {}
        """Those that run, by their numbers. The maintainer has the last one."""
        self._stopped: dict[int, float] = {}
        """Until when, by their numbers."""
        self._killed: list[int] = []
        """Whose end was not recorded yet."""
        self.has_ended = False

    def play(self) -> None:
        """All of it, until the last writer has ended."""
        os.waitpid(self._fork(self._setup), 0)
        recorder = RealRecorder(self.folder, 0)
        ready, go = os.pipe(), os.pipe()
        for number in range(1, self.plan.writers + 1 + self.plan.maintains):
            self._pids[number] = self._fork(self._member, number, ready, go)
        os.close(ready[1])
        os.close(go[0])
        while os.read(ready[0], 1):  # Until all of them have closed it.
            pass
        os.close(ready[0])
        os.close(go[1])
        strikes, end_s = [*self.plan.strikes], time.monotonic() + _LONGEST_S
        while any(number <= self.plan.writers for number in self._pids):
            while strikes and recorder.order.steps >= strikes[0].at:
                self._strike(strikes.pop(0))
            for number in [one for one, until_s in self._stopped.items() if until_s < time.monotonic()]:
                self._go_on(number)
            if time.monotonic() > end_s or recorder.order.steps > _MOST_STEPS:
                return
            time.sleep(_TICK_S)
            self._reap()
            if not self._stopped:  # Else a process that is stopped may hold the lock.
                while self._killed:
                    recorder.add_now(Event("Crash", self._killed.pop()))
        self._over.touch()
        while self._pids:
            time.sleep(_TICK_S)
            self._reap()
        self.has_ended = True

    def end(self) -> None:
        """No process is left."""
        for pid in self._pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._pids = {}

    def _strike(self, strike: Strike) -> None:
        number = strike.process
        if number not in self._pids:
            return
        self._go_on(number)
        if strike.stopped_s:
            os.kill(self._pids[number], signal.SIGSTOP)
            self._stopped[number] = time.monotonic() + strike.stopped_s
        else:
            os.kill(self._pids[number], signal.SIGKILL)

    def _go_on(self, number: int) -> None:
        if self._stopped.pop(number, None) is not None and number in self._pids:
            os.kill(self._pids[number], signal.SIGCONT)

    def _reap(self) -> None:
        for number, pid in [*self._pids.items()]:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                del self._pids[number]
                self._stopped.pop(number, None)
                if os.WIFSIGNALED(status):
                    self._killed.append(number)

    # -- What each process does -----------------------------------------------------------------------------

    def _fork(self, do: Callable[..., None], *arguments: object) -> int:
        if pid := os.fork():
            return pid
        try:
            do(*arguments)
        except BaseException:  # noqa: BLE001  (the parent reads it)
            with (self.folder / "errors").open("a", encoding="utf-8") as file:
                file.write(traceback.format_exc())
        finally:
            os._exit(0)

    def _setup(self) -> None:
        Log.create(PosixStore(self.log), snapshot_interval=self.plan.interval, config=RETIRED_AT_ONCE)

    def _member(self, number: int, ready: tuple[int, int], go: tuple[int, int]) -> None:
        os.close(ready[0])
        os.close(go[1])

        def barrier() -> None:
            os.close(ready[1])
            os.read(go[0], 1)

        (self._write if number <= self.plan.writers else self._maintain)(number, barrier)

    def _write(self, number: int, barrier: Callable[[], None]) -> None:
        """A few commits, each of them repeated while it is in doubt, or not."""
        plan, chance = self.plan, random.Random(f"writer {self.seed} {number}")
        recorder = RealRecorder(self.folder, number)
        store = RecordedFolder(str(self.log), recorder, self._trouble(number, chance), exact=plan.exact)
        retry = Retry(deadline_s=chance.choice([0.0, 0.05, 1.0]) if plan.is_lossy else 5.0)
        log = Log(store, retry=retry, environment=recorder.environment(plan.environment))
        store.watch = recorder.watches[-1]
        store.watch.number = number
        log.follow()
        barrier()
        pauses = [0.0, 0.3, 0.9] if plan.forgets else [0.0, 0.0, 0.0, 0.01]
        for count in range(1, plan.requests + 1):
            name = f"writer-{number}-{count}"
            propose = append(name) if plan.lags else proposal(chance, name)
            for _ in range(chance.choice([1, 2, 5])):
                try:
                    log.commit(propose, request_id=request_id(number, count))
                except CommitOutcomeUnknownError:
                    time.sleep(chance.choice([0.0, 0.02]))
                    continue
                except EosLogError:
                    pass
                break
            time.sleep(chance.choice(pauses))

    def _trouble(self, number: int, chance: random.Random) -> Trouble:
        who, what, at = self.plan.dies
        trouble = Trouble(chance, dies=what if who == number else "", dies_at=at)
        if not self.plan.is_lossy:
            return trouble
        reply_lost, lost, late, busy, by_itself = (chance.choice([0.0, 0.1, 0.3]) for _ in range(5))
        return replace(
            trouble, reply_lost=reply_lost, lost=lost, late=late, busy=busy, taken_by_itself=by_itself
        )

    def _maintain(self, number: int, barrier: Callable[[], None]) -> None:
        """Snapshots, retired entries, deleted names, as long as the others write."""
        plan, chance = self.plan, random.Random(f"maintainer {self.seed}")
        recorder = RealRecorder(self.folder, number)
        store = RecordedFolder(str(self.log), recorder, Trouble(chance), exact=plan.exact)
        log = Log(store, environment=plan.environment)
        barrier()
        while not self._over.exists():
            with suppress(EosLogError):
                state = log.follow()
                log.maintenance.snapshot()
                log.maintenance.retire(state, 10)
                if plan.forgets:
                    RetiredNames(log, after_s=_KEPT_S).run()
            time.sleep(chance.choice([0.0, 0.005, 0.05]))
