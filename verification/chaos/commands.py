"""The command lines of all programs: producers, copiers, drivers, and `eoslog maintain`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from verification.chaos import programs
from verification.chaos.actors import FENCED, Actor
from verification.chaos.checkpoints import REFUSED, LostCheckpoints
from verification.chaos.cluster import Cluster
from verification.chaos.journal import CONCURRENT
from verification.chaos.maintenance import MIN_AGE_S
from verification.chaos.workloads import DRIVERS, INPUTS, Query, Workload

__all__ = ["MAINTAINER", "Commands"]

MAINTAINER = "maintainer"
PROGRAMS = Path(programs.__file__).parent
SLICE = 2_000

Command = tuple[list[str], Path]
"""The command of a run, and the file of its notes."""


class Commands:
    """Of one campaign, in whose ``folder`` there is one for notes."""

    def __init__(self, folder: Path, workloads: tuple[Workload, ...], seed: int) -> None:
        self.stop = folder / "stop"
        """Producers end when this file is there."""
        self.histories: dict[str, list[Path]] = {}
        """What the producers of each log write down."""
        self.cluster: Cluster | None = None
        self.checkpoints: LostCheckpoints | None = None
        self._folder = folder
        self._notes = folder / "notes"
        self._workloads = workloads
        self._seed = seed
        self._urls: dict[str, str] = {}

    def open(self, log: str, url: str) -> None:
        """There is such a log."""
        self._urls[log] = url
        self.histories[log] = []

    def producer(self, actor: Actor, number: int) -> Command:
        """Of ``<log>-plain`` or ``<log>-tx``."""
        log, _, how = actor.name.rpartition("-")
        history = self._notes / f"{actor.name}-{number}.history.jsonl"
        self.histories[log].append(history)
        told = self._told(actor, number)
        arguments = (
            self._urls[log], how, how, INPUTS[how], f"{log}.{how}.{number}", history, told, self.stop,
            f"{self._seed}-{actor.name}-{number}",
        )  # fmt: skip
        return _python("producer", *arguments), told

    def copier(self, actor: Actor, number: int) -> Command:
        """Of a member of the group."""
        workload = next(one for one in self._workloads if one.driver is None)
        (query,) = workload.queries
        told = self._told(actor, number)
        arguments = (
            self._urls[workload.log], query.name, actor.name, ",".join(INPUTS), query.target, query.prefix, told,
            f"{self._seed}-{actor.name}-{number}",
        )  # fmt: skip
        return _python("copier", *arguments), told

    def maintainer(self, actor: Actor, number: int) -> Command:
        """Of ``maintainer-<log>``."""
        told = self._told(actor, number)
        url = self._urls[actor.name.removeprefix(f"{MAINTAINER}-")]
        return _python("maintainer", told, url, "--watch", 1, "--min-age", MIN_AGE_S, "--json"), told

    def driver(self, actor: Actor, number: int) -> Command:
        """Of a Spark driver with all queries that it hosts."""
        queries = [
            self._query(query, self._urls[workload.log])
            for workload in self._workloads
            if workload.driver == actor.name
            for query in workload.queries
        ]
        ends = {"zombies": [FENCED, CONCURRENT], "lost": [REFUSED]}.get(actor.name, [])
        job, told = self._notes / f"{actor.name}-{number}.job.json", self._told(actor, number)
        job.write_text(json.dumps({"name": actor.name, "queries": queries, "ends": ends}), encoding="utf-8")
        assert self.cluster is not None
        command = self.cluster.submit(PROGRAMS / "driver.py", job, told, cores=DRIVERS[actor.name])
        return command, told

    def _query(self, query: Query, url: str) -> dict[str, object]:
        checkpoint, starting = self._folder / "checkpoints" / query.name, "earliest"
        if self.checkpoints is not None and query.name == "lost":
            checkpoint, starting = self.checkpoints.path, self.checkpoints.starting
        return {
            "name": query.name,
            "kind": query.kind,
            "url": url,
            "sources": [*INPUTS],
            "target": query.target,
            "slow": query.slow,
            "slice": SLICE,
            "checkpoint": str(checkpoint),
            "starting": starting,
        }

    def _told(self, actor: Actor, number: int) -> Path:
        return self._notes / f"{actor.name}-{number}.jsonl"


def _python(program: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"verification.chaos.programs.{program}", *map(str, arguments)]
