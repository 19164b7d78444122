"""One campaign: everything is started, struck for a while, left to come to rest, and compared."""

from __future__ import annotations

import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from spark_eos.log.log import Log
from spark_eos.testing.history import merge, read_history
from verification.chaos.actors import Actor
from verification.chaos.checker import NO_ROWS
from verification.chaos.checkpoints import LostCheckpoints
from verification.chaos.cluster import Cluster
from verification.chaos.commands import MAINTAINER, Commands
from verification.chaos.disk import SmallDisk
from verification.chaos.final_read import Comparison, struck
from verification.chaos.maintenance import DELETE_DELAY_MS, INTERVAL, done_by, last_pass
from verification.chaos.nemesis import Nemesis, Scene
from verification.chaos.readers import Visible, Watcher, consumed, partition, places
from verification.chaos.table import Line
from verification.chaos.workloads import DRIVERS, INPUTS, LOGS, Query, Workload
from verification.processes import RUN, marked, send
from verification.retiring import RETIRED_AT_ONCE

__all__ = ["Campaign", "Options", "Outcome"]

STUCK_S = 900.0
"""Nothing moved for so long, though no process is struck any more: it will not come to rest."""
_TICK_S = 0.1
_TELL_S = 15.0


@dataclass(frozen=True)
class Options:
    """What to do, and for how long."""

    seed: int
    workloads: tuple[Workload, ...]
    seconds: float | None = None
    """Faults ends after so long; None: not before ``kills`` and ``freezes`` are reached."""
    kills: int | None = None
    freezes: int | None = None
    pause_s: float = 4.0
    """Between two faults, on average."""
    faults: tuple[str, ...] = ()
    """Only these of `verification.chaos.nemesis.FAULTS`."""


@dataclass
class Outcome:
    """The end of a campaign."""

    lines: list[Line] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    """What else there is to say, one sentence each."""

    @property
    def exact(self) -> bool:
        """Nothing lost, nothing doubled, nothing seen that must not be, and all came to rest."""
        return not self.problems and all(line.rows.exact for line in self.lines)


class Campaign:
    """Everything that `run` starts is in ``folder`` and ends with it."""

    def __init__(self, options: Options, folder: Path, say: Callable[[str], None]) -> None:
        self._options = options
        self._folder = folder
        self._say = say
        self._run_id = uuid.uuid4().hex
        self._began = time.monotonic()
        self._told = 0.0
        self._urls: dict[str, str] = {}
        self._logs: dict[str, Log] = {}
        self._watchers: dict[str, Watcher] = {}
        self._actors: list[Actor] = []
        self._disk: SmallDisk | None = None
        self._cluster: Cluster | None = None
        self._checkpoints: LostCheckpoints | None = None
        self._commands = Commands(folder, options.workloads, options.seed)
        self._settling: dict[str, Visible] = {}

    # -- the course of things -----------------------------------------------------------------------

    def run(self) -> Outcome:
        """Start, strike, settle, compare."""
        with ExitStack() as stack:
            stack.callback(self._clean)
            self._set_up()
            self._settled(lambda: all(self._begun(one) for one in self._options.workloads), "the first rows")
            nemesis = self._nemesis()
            self._strike(nemesis)
            nemesis.end()
            self._say(f"{self._clock()} nemesis is over: all comes to rest")
            self._commands.stop.touch()
            for actor in self._actors:
                if "-plain" in actor.name or "-tx" in actor.name:
                    actor.wanted = False
            drained = self._settled(self._at_rest, "the end of all input")
            return self._compare(nemesis, drained=drained)

    def _set_up(self) -> None:
        for name in ("notes", "checkpoints"):
            (self._folder / name).mkdir()
        wanted = {workload.log for workload in self._options.workloads}
        for name in LOGS:
            if name in wanted:
                self._open(name)
        drivers = [name for name in DRIVERS if any(one.driver == name for one in self._options.workloads)]
        if drivers:
            self._cluster = self._commands.cluster = Cluster(self._folder, self._run_id)
            self._cluster.start()
        for name, url in self._urls.items():
            self._watchers[name] = Watcher(url, self._queries(name))
            self._watchers[name].start()
        self._set_up_programs(drivers)
        self._say(
            f"{self._clock()} started: logs {', '.join(self._urls)}; {len(self._actors)} programs; in {self._folder}"
        )

    def _open(self, name: str) -> None:
        """A new log with its topics."""
        self._urls[name] = str(self._folder / name)
        if name == "small":
            self._disk = SmallDisk(self._folder / "disk")
            self._urls[name] = str(self._disk.folder / name)
        self._commands.open(name, self._urls[name])
        log = self._logs[name] = Log.create(
            self._urls[name], snapshot_interval=INTERVAL, config=RETIRED_AT_ONCE
        )
        config = {"file.delete.delay.ms": DELETE_DELAY_MS}
        for topic, partitions in INPUTS.items():
            log.ensure_topic(topic, partitions, config)
        for query in self._queries(name):
            log.ensure_topic(query.target, 2, config)

    def _set_up_programs(self, drivers: Sequence[str]) -> None:
        for name in self._urls:
            for how in INPUTS:
                self._add(f"{name}-{how}", "client", self._commands.producer)
            self._add(f"{MAINTAINER}-{name}", MAINTAINER, self._commands.maintainer)
        for workload in self._options.workloads:
            if workload.driver is None:
                for number in (1, 2):
                    self._add(f"{workload.name}-{number}", "client", self._commands.copier)
        for name in drivers:
            actor = self._add(name, "driver", self._commands.driver)
            if name == "lost":
                self._checkpoints = self._commands.checkpoints = LostCheckpoints(
                    self._folder / "checkpoints", "lost", self._logs["fenced"]
                )
                actor.heard = self._checkpoints.heard

    def _strike(self, nemesis: Nemesis) -> None:
        options = self._options
        began = time.monotonic()
        next_at = began
        while True:
            enough = options.kills is not None or options.freezes is not None
            if options.kills is not None and nemesis.kills < options.kills:
                enough = False
            if options.freezes is not None and nemesis.freezes < options.freezes:
                enough = False
            late = options.seconds is not None and time.monotonic() - began >= options.seconds
            if (enough or late) and not nemesis.under_way:
                return
            if not (enough or late) and time.monotonic() >= next_at:
                only = None
                if options.kills is not None and nemesis.kills >= options.kills:
                    only = "freeze"
                done = nemesis.strike(only)
                if done:
                    self._say(f"{self._clock()} {done}")
                    next_at = time.monotonic() + options.pause_s * nemesis.wait()
            nemesis.tick()
            self._tick(f"{nemesis.kills} kills, {nemesis.freezes} freezes")

    def _settled(self, condition: Callable[[], bool], what: str) -> bool:
        """Wait for it as long as anything moves; False if nothing did for too long."""
        seen: object = None
        since = time.monotonic()
        while not condition():
            now = self._positions()
            if now != seen:
                seen, since = now, time.monotonic()
            if time.monotonic() - since > STUCK_S:
                self._say(f"{self._clock()} nothing moved for {STUCK_S:.0f} s: {what} does not come")
                return False
            self._tick(f"waiting for {what}")
        return True

    def _tick(self, about: str) -> None:
        for actor in self._actors:
            actor.tick()
        if self._checkpoints is not None:
            self._checkpoints.tick()
        if time.monotonic() - self._told >= _TELL_S:
            self._told = time.monotonic()
            read = sum(watcher.read for watcher in self._watchers.values())
            problems = self._found()
            self._say(
                f"{self._clock()} {about}; {read:,} rows read so far"
                + (f"; {len(problems)} PROBLEMS, the first: {problems[0]}" if problems else "")
            )
        time.sleep(_TICK_S)

    def _clean(self) -> None:
        for actor in self._actors:
            actor.end()
        while left := marked(RUN, self._run_id):
            send(left, signal.SIGKILL)
            time.sleep(0.05)
        for watcher in self._watchers.values():
            if watcher.is_alive():
                watcher.finish()
        if self._disk is not None:
            self._disk.remove()

    # -- programs -----------------------------------------------------------------------------------

    def _add(self, name: str, kind: str, start: Callable[[Actor, int], tuple[list[str], Path]]) -> Actor:
        actor = Actor(name, kind, start, self._folder / "notes", self._run_id)
        self._actors.append(actor)
        return actor

    def _nemesis(self) -> Nemesis:
        lost = next((actor for actor in self._actors if actor.name == "lost"), None)
        scene = Scene(
            self._actors, self._cluster, self._checkpoints, lost, self._disk, self._logs.get("fenced")
        )
        return Nemesis(scene, self._options.seed, self._options.faults)

    # -- how far it is ------------------------------------------------------------------------------

    def _queries(self, log: str) -> list[Query]:
        return [query for one in self._options.workloads if one.log == log for query in one.queries]

    def _begun(self, workload: Workload) -> bool:
        state = self._logs[workload.log].follow()
        return all(state.offsets.get(query.name) for query in workload.queries)

    def _positions(self) -> object:
        """Whatever changes when anything moves."""
        return [(actor.tally.starts, actor.heard_notes) for actor in self._actors], [
            (name, group, sorted((at, known.offset) for at, known in offsets.items()))
            for name, log in self._logs.items()
            for group, offsets in sorted(log.follow().offsets.items())
        ]

    def _at_rest(self) -> bool:
        """Producers have ended, no transaction is open, and all that there is has been read by all."""
        for actor in self._actors:
            if not actor.wanted and actor.runs:
                return False
        return all(
            self._is_read(log, query) for name, log in self._logs.items() for query in self._queries(name)
        )

    def _is_read(self, log: Log, query: Query) -> bool:
        state = log.follow()
        for topic in (*INPUTS, query.target):
            if any(partition(state, at).open for at in places(state, topic)):
                return False
        there = sum(Visible(log).topic(state, topic) for topic in INPUTS)
        return consumed(state, query.name, self._settling.setdefault(query.name, Visible(log))) == there

    def _found(self) -> list[str]:
        found = [problem for watcher in self._watchers.values() for problem in watcher.problems]
        return found + ([] if self._checkpoints is None else self._checkpoints.problems)

    def _clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes:3}:{seconds:02}"

    # -- verdict ------------------------------------------------------------------------------------

    def _compare(self, nemesis: Nemesis, *, drained: bool) -> Outcome:
        for actor in self._actors:
            actor.end()
        for watcher in self._watchers.values():
            watcher.finish()
        outcome = Outcome(problems=self._found())
        if not drained:
            outcome.problems.append("not everything came to rest: " + "; ".join(self._behind()))
        for name, url in self._urls.items():
            self._say(f"{self._clock()} comparing log {name}")
            self._compare_log(name, Log.open(url), outcome)
            self._say(f"{self._clock()} maintaining log {name}, and comparing again")
            outcome.problems += [f"{name}: {one}" for one in last_pass(url)]
            again = Outcome()
            self._compare_log(name, Log.open(url), again)
            outcome.problems += [f"{name}, maintained: {one}" for one in again.problems]
            if [line.rows for line in again.lines] != [
                line.rows for line in outcome.lines[-len(again.lines) :]
            ]:
                outcome.problems.append(f"{name}: its rows are not what they were before maintenance")
        outcome.facts.append(_counted(nemesis.done))
        outcome.facts += [fact for watcher in self._watchers.values() for fact in watcher.facts()]
        outcome.facts += [fact for actor in self._actors for fact in actor.facts()]
        maintainers = [actor for actor in self._actors if actor.kind == MAINTAINER]
        outputs = [path for one in maintainers for path in one.outputs()]
        outcome.lines.append(Line("maintenance", struck(maintainers), NO_ROWS, note=str(done_by(outputs))))
        return outcome

    def _behind(self) -> list[str]:
        found = []
        for name, log in self._logs.items():
            state = log.follow()
            there = sum(Visible(log).topic(state, topic) for topic in INPUTS)
            for query in self._queries(name):
                read = consumed(state, query.name, Visible(log))
                if read != there:
                    found.append(f"{query.name} has read {read:,} of {there:,} rows")
        return found or ["a producer did not end, or a transaction is open"]

    def _compare_log(self, name: str, log: Log, outcome: Outcome) -> None:
        """A fresh look at everything, from the store."""
        comparison = Comparison(log)
        histories = [read_history(path) for path in self._commands.histories[name] if path.exists()]
        rows, anomalies = comparison.inputs(merge(self._watchers[name].history, *histories))
        outcome.problems += [f"{name}: {anomaly}" for anomaly in anomalies]
        producers = [actor for actor in self._actors if actor.name in {f"{name}-{how}" for how in INPUTS}]
        lines = [Line(f"producers of {name}", struck(producers), rows)]
        first: dict[str, str] = {}
        for workload in self._options.workloads:
            if workload.log == name:
                host = workload.driver or workload.name
                shared = first.setdefault(host, workload.name)
                lines.append(
                    Line(
                        workload.name,
                        struck(self._hosts(workload)) if shared == workload.name else None,
                        comparison.outputs(workload.queries),
                        shared,
                        self._note(workload),
                    )
                )
        outcome.lines += lines
        outcome.problems += [f"{line.name}: {example}" for line in lines for example in line.rows.examples]

    def _hosts(self, workload: Workload) -> list[Actor]:
        """The programs that do its work."""
        if workload.driver is not None:
            return [actor for actor in self._actors if actor.name == workload.driver]
        return [actor for actor in self._actors if actor.name.startswith(f"{workload.name}-")]

    def _note(self, workload: Workload) -> str:
        if workload.name == "full" and self._disk is not None:
            return f"filled {self._disk.fills} times" if self._disk.possible else "not possible here"
        if workload.name == "lost" and self._checkpoints is not None:
            return str(self._checkpoints)
        return ""


def _counted(faults: Counter[str]) -> str:
    return "done: " + ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))
