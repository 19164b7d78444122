"""What is run under chaos: logs, producers, queries and copiers, and what each has to make of its input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["DRIVERS", "GROUP", "INPUTS", "LOGS", "WORKLOADS", "Query", "Workload", "chosen"]

INPUTS = {"plain": 2, "tx": 2}
"""Topics of each log that its producers write, and their partitions."""


@dataclass(frozen=True)
class Query:
    """A reader of both inputs that writes ``target``: a Spark query, or a group of copiers.

    Its name is its ``transactional.id`` and its group.
    """

    name: str
    kind: str
    target: str
    slow: bool = False

    @property
    def prefix(self) -> str:
        """What a copy puts before each value, so that several may write one topic."""
        return f"{self.name}:"

    def expected(self, values: Iterable[tuple[str, str]]) -> Counter[str]:
        """What its target must hold of it, given keys and values of the input."""
        return _EXPECTED[self.kind](self, values)


def _copies(query: Query, values: Iterable[tuple[str, str]]) -> Counter[str]:
    return Counter(query.prefix + value for _, value in values)


def _distinct(_: Query, values: Iterable[tuple[str, str]]) -> Counter[str]:
    return Counter({value[:-1] for _, value in values})


def _counts(_: Query, values: Iterable[tuple[str, str]]) -> Counter[str]:
    return Counter(key for key, _ in values)


_EXPECTED: dict[str, Callable[[Query, Iterable[tuple[str, str]]], Counter[str]]] = {
    "copy": _copies,
    "distinct": _distinct,
    "counts": _counts,
}


@dataclass(frozen=True)
class Workload:
    """A line of the table: one thing that must hold."""

    name: str
    log: str
    queries: tuple[Query, ...]
    driver: str | None
    """The driver that hosts its queries; None: two clients of a consumer group."""


GROUP = "group"
WORKLOADS = (
    Workload("copier", "main", (Query("copier", "copy", "copied"),), "queries"),
    Workload(
        "aggregation",
        "main",
        (Query("counts", "counts", "counts"), Query("distinct", "distinct", "distinct")),
        "queries",
    ),
    Workload("sinks", "main", (Query("sink-a", "copy", "both"), Query("sink-b", "copy", "both")), "queries"),
    Workload("zombies", "fenced", (Query("zombies", "copy", "zombies", slow=True),), "zombies"),
    Workload("lost", "fenced", (Query("lost", "copy", "restored"),), "lost"),
    Workload(GROUP, "clients", (Query("pair", "copy", "grouped"),), None),
    Workload("full", "small", (Query("full", "copy", "squeezed"),), "full"),
)
DRIVERS = {"queries": 2, "zombies": 1, "lost": 1, "full": 1}
"""Drivers and the executors that each has."""
LOGS = ("main", "fenced", "clients", "small")


def chosen(names: Iterable[str]) -> tuple[Workload, ...]:
    """The workloads of these names; all, if there are none. Raises `KeyError`."""
    known = {workload.name: workload for workload in WORKLOADS}
    return tuple(known[name] for name in names) or WORKLOADS
