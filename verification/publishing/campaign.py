"""One campaign: writers, maintenance, a slow reader and publishers, the last of which are killed and frozen."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from spark_eos import Admin, TopicPartition
from spark_eos.errors import EosLogError
from spark_eos.extensions.tables.tables import Tables
from spark_eos.log.log import Log
from verification.chaos.maintenance import last_pass
from verification.processes import ROOT, Process, send
from verification.publishing.checks import Checks
from verification.publishing.slow import SlowReader
from verification.publishing.writer import BRIEF, EVENTS, NEWEST, ORDERS, make_topics

__all__ = ["Campaign", "Options", "Outcome"]

RETENTION_S = 6.0
"""How long the files of a version stay."""
_START_S = 300.0
_REASONS = {
    "another publisher has taken over": "a successor has taken over",
    "has epoch": "a successor has taken over",
    "the staging floor": "vacuum was faster (--min-age 0)",
    "ProducerFenced": "fenced",
}
"""What a process may end with here, by what it says."""
_KINDS = ("publisher", "copier", "maintainer", "writer")


@dataclass(frozen=True)
class Options:
    """How often to strike; which of the processes; whether Delta's own VACUUM runs, too."""

    seed: int
    kills: int
    vacuum: bool = True
    shared: tuple[str, ...] = (EVENTS, ORDERS, BRIEF)
    copied: tuple[str, ...] = (NEWEST, EVENTS)


@dataclass
class Outcome:
    """What was done, and what was wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Campaign:
    """All that it starts is in ``folder``, and ends with `run`."""

    def __init__(self, options: Options, folder: Path, say: Callable[[str], None]) -> None:
        self._options = options
        self._folder = folder
        self._say = say
        self._chance = random.Random(options.seed)
        self._url = str(folder / "log")
        self._stop = folder / "stop"
        self._log = Log.open_or_create(self._url)
        self._processes: dict[str, Process] = {}
        self._started = 0
        self._counts: Counter[str] = Counter()
        self._problems: list[str] = []
        self._publications = {"shared": options.shared, "copied": options.copied}

    def run(self) -> Outcome:
        """Start all, strike, come to rest, compare."""
        admin = Admin(self._log)
        make_topics(admin)
        tables = Tables(self._log)
        ms = int(RETENTION_S * 1000)
        tables.create("shared", self._options.shared, retention_ms=ms)
        copies = str(self._folder / "copies")
        tables.create("copied", self._options.copied, mode="copied", location=copies, retention_ms=ms)
        slow = SlowReader(self._log, self._options.seed, RETENTION_S, vacuum=self._options.vacuum)
        checks = Checks(self._log, self._publications, RETENTION_S, slow.vacuumed)
        with ExitStack() as stack:
            stack.callback(self._end)
            for kind in _KINDS:
                self._start(kind)
            slow.start()
            for number in range(self._options.kills):
                self._strike()
                if self._chance.random() < 0.5:
                    self._delete(admin)
                checks.look()
                self._counts.update(self._refused())
                self._say(f"{number + 1} of {self._options.kills}: {dict(checks.counts)}")
            self._stop.touch()
            slow.finish()
        outcome = Outcome(self._counts, [*slow.problems, *self._problems])
        outcome.problems += self._publish(tables)  # What the last one has left behind, the next one finishes.
        checks.look()
        outcome.problems += [f"last pass: {one}" for one in last_pass(self._url)]
        outcome.problems += self._publish(tables)
        checks.look()
        outcome.problems += checks.problems
        outcome.counts.update(checks.counts)
        outcome.counts.update(slow.counts)
        return outcome

    def _publish(self, tables: Tables) -> list[str]:
        problems = []
        for name in self._publications:
            try:
                tables.publish(name)
            except EosLogError as error:
                problems.append(f"publication {name!r} cannot be published: {error}")
        return problems

    # -- Processes --------------------------------------------------------------------------------------

    def _start(self, kind: str) -> None:
        eoslog = [sys.executable, "-m", "spark_eos"]
        publish = [*eoslog, "tables", "publish", self._url, "--every", "0.1", "--name"]
        command = {
            "publisher": [*publish, "shared"],
            "copier": [*publish, "copied"],
            "maintainer": [*eoslog, "maintain", self._url, "--watch", "0.5", "--min-age", "0"],
            "writer": [
                sys.executable,
                "-m",
                "verification.publishing.writer",
                self._url,
                "writer",
                str(self._stop),
            ],
        }[kind]
        self._started += 1
        output = self._folder / f"{kind}-{self._started}.out"
        self._processes[kind] = Process(command, output, PYTHONPATH=str(ROOT))
        self._counts[f"{kind}s started"] += 1

    def _strike(self) -> None:
        """Kill one of them at a random moment after it has begun its work, or freeze a publisher for a successor."""
        kind = self._chance.choice(["publisher", "publisher", "publisher", "copier", "maintainer", "writer"])
        process = self._processes[kind]
        if kind == "writer":
            before = self._end_of_events()
            self._wait(lambda: self._end_of_events() > before or not process.running)
        else:
            said = len(process.lines)
            self._wait(lambda: len(process.lines) > said or not process.running)
        time.sleep(self._chance.random())
        if kind in ("publisher", "copier") and self._chance.random() < 0.3 and process.running:
            send([process.pid], signal.SIGSTOP)
            self._start(kind)
            successor = self._processes[kind]
            self._wait(lambda: bool(successor.lines) or not successor.running)
            send([process.pid], signal.SIGCONT)
            time.sleep(self._chance.random())
            self._counts["freezes with a successor"] += 1
            process.kill()
            return
        process.kill()
        self._counts[f"{kind}s killed"] += 1
        self._start(kind)

    def _refused(self) -> Counter[str]:
        """Processes that ended by themselves: a publisher that was fenced does, and is started again."""
        found: Counter[str] = Counter()
        for kind, process in [*self._processes.items()]:
            if not process.running:
                said = process.text[-400:]
                reason = next((name for text, name in _REASONS.items() if text in said), None)
                if reason is None:
                    self._problems.append(f"{kind} has ended: {said}")
                else:
                    found[f"{kind}s ended: {reason}"] += 1
                self._start(kind)
        return found

    def _end_of_events(self) -> int:
        state = self._log.follow()
        return state.partitions[state.topics[EVENTS].topic_id, 0].end

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Until it holds. The bound is only there to end a campaign that is stuck."""
        end = time.monotonic() + _START_S
        while not condition():
            self._counts.update(self._refused())  # A publisher says nothing while no writer writes.
            if time.monotonic() > end:
                raise AssertionError(f"nothing has happened for {_START_S} s: see {self._folder}")
            time.sleep(0.02)

    def _delete(self, admin: Admin) -> None:
        """Delete the older half of partition 1 of a topic, under readers and publishers."""
        topic = self._chance.choice([EVENTS, ORDERS])
        state = self._log.follow()
        at = state.partitions[state.topics[topic].topic_id, 1]
        try:
            admin.delete_records({TopicPartition(topic, 1): (at.start + at.last_stable_offset) // 2})
        except EosLogError as error:
            self._say(f"records were not deleted: {error}")
            return
        self._counts["deletions of records"] += 1

    def _end(self) -> None:
        for process in self._processes.values():
            process.kill()
