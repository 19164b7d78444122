"""Whether the committed operations fit one order: which wrote before which, which read what another wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from spark_eos.testing.history.cycles import Edge, Graph
from spark_eos.testing.history.events import Kind
from spark_eos.testing.history.operations import Facts, Fate, Operation
from spark_eos.testing.history.reads import fate
from spark_eos.testing.history.report import Anomaly

Order = Literal["none", "process", "realtime"]
"""What counts besides writes and reads: nothing (none); the order of calls within each process (process); or
also that a call which was acknowledged before another one began came before it (realtime)."""


class _Edges:
    """The edges between committed operations.

    An edge means that its source was committed first, with two exceptions, which are *weak*; a cycle with a
    weak edge is allowed. What a streamed transaction appended lies before what others append and commit before
    its end: write-write edges that leave it. And a plain call with several sends is as many commits, between
    which others may come: write-write and write-read edges that leave it.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        committed = (op for op in facts.operations if facts.outcome(op) is Fate.COMMITTED)
        self.operations: dict[int, Operation] = {op.invoke.index: op for op in committed}

    def writes(self) -> Iterator[Edge]:
        """From each writer in a partition to the next one, and to all up to the next one that is not weak.

        So the strong edges alone still order all strong writers.
        """
        facts = self._facts
        for partition in facts.written:
            last: tuple[int, Operation] | None = None
            strong: tuple[int, Operation] | None = None
            for offset, values in sorted(facts.values[partition].items()):
                value = next(iter(values))
                writer = facts.writers.get((partition, value))
                if writer is None or facts.fate((partition, value)) is not Fate.COMMITTED:
                    continue
                for before in {id(b): b for b in (last, strong) if b is not None}.values():
                    if before[1] is not writer:
                        yield Edge(
                            before[1].invoke.index,
                            writer.invoke.index,
                            "ww",
                            f"{partition}@{before[0]} before @{offset}",
                            weak=not before[1].atomic,
                        )
                last = (offset, writer)
                if writer.atomic:
                    strong = last

    def reads(self) -> Iterator[Edge]:
        """From each writer to the committed operations that read what it wrote, committed."""
        facts = self._facts
        for number, reader in self.operations.items():
            writer_indexes: set[int] = set()  # a second edge between the same two says nothing new
            for poll in reader.polls:
                for offset, value in poll.records:
                    key = (poll.partition, value)
                    writer = facts.writers.get(key)
                    if writer is None or writer is reader or writer.invoke.index in writer_indexes:
                        continue
                    if facts.fate(key) is not Fate.COMMITTED:
                        continue
                    plain = writer.transaction is None and not writer.atomic
                    if reader.is_committed_read or not writer.streamed:
                        writer_indexes.add(writer.invoke.index)
                        yield Edge(
                            writer.invoke.index, number, "wr", f"{poll.partition}@{offset}", weak=plain
                        )

    def process(self) -> Iterator[Edge]:
        """From each acknowledged operation of a process to its next."""
        last: dict[str, int] = {}
        for number, operation in self.operations.items():
            if operation.process in last:
                yield Edge(last[operation.process], number, "process", operation.process)
            if operation.kind is Kind.OK:
                last[operation.process] = number

    def realtime(self) -> Iterator[Edge]:
        """From acknowledged operations to those that began later, without what follows from other edges.

        The frontier holds what was acknowledged and not yet followed by something that began afterwards and
        is acknowledged, too; it is never larger than the number of processes.
        """
        points: list[tuple[int, bool, int]] = []
        for number, operation in self.operations.items():
            points.append((number, False, number))
            if operation.completion is not None and operation.kind is Kind.OK:
                points.append((operation.completion.index, True, number))
        frontier: set[int] = set()
        before: dict[int, set[int]] = {}
        for _, is_end, number in sorted(points):
            if is_end:
                frontier = (frontier - before.pop(number)) | {number}
            else:
                before[number] = set(frontier)
                for earlier in sorted(frontier):
                    yield Edge(earlier, number, "realtime")


def serial_order(facts: Facts, order: Order) -> list[Anomaly]:
    """G0 and G1c, with the edges that ``order`` names: one anomaly per set of operations in one tangle."""
    edges = _Edges(facts)
    writes, reads = [*edges.writes()], [*edges.reads()]
    times = [*edges.process()] if order == "process" else [*edges.realtime()] if order == "realtime" else []
    strong = [edge for edge in writes if not edge.weak]
    strong_reads = [edge for edge in reads if not edge.weak]
    anomalies: list[Anomaly] = []
    anomalies += _cycles(edges, "G0", [strong, [*strong, *times]], _any)
    both = [*strong, *strong_reads]
    anomalies += _cycles(edges, "G1c", [both, [*both, *times]], _is_read)
    if len(both) < len(writes) + len(reads):
        anomalies += _cycles(edges, "G0", [writes], _is_weak, allowed=True)
        everything = [*writes, *reads, *times]
        anomalies += _cycles(edges, "G1c", [everything], _is_read, _has_weak, allowed=True)
    return anomalies


def _any(_: Edge) -> bool:
    return True


def _is_read(edge: Edge) -> bool:
    return edge.kind == "wr"


def _is_weak(edge: Edge) -> bool:
    return edge.weak


def _has_weak(cycle: list[Edge]) -> bool:
    return any(edge.weak for edge in cycle)


def _cycles(
    edges: _Edges,
    name: str,
    steps: list[list[Edge]],
    through: Callable[[Edge], bool],
    holds: Callable[[list[Edge]], bool] = bool,
    *,
    allowed: bool = False,
) -> Iterator[Anomaly]:
    """A cycle of each component; of later, larger sets of edges only where no earlier one had any."""
    tangled: set[int] = set()
    for step in steps:
        graph = Graph(step)
        for component in graph.components():
            if component & tangled:
                continue
            cycle = graph.shortest_cycle(component, through, holds)
            if cycle is None:
                continue
            tangled |= component
            yield _anomaly(edges, name, cycle, len(component), allowed=allowed)


def _anomaly(edges: _Edges, name: str, cycle: list[Edge], size: int, *, allowed: bool) -> Anomaly:
    operations = [edges.operations[edge.source] for edge in cycle]
    text = " -> ".join(
        f"{operation} -{edge.kind}{' ' + edge.why if edge.why else ''}"
        for operation, edge in zip(operations, cycle, strict=True)
    )
    more = f" (one cycle of a tangle of {size} operations)" if size > len(cycle) else ""
    where = ", ".join(f"#{operation.invoke.index}" for operation in operations)
    return Anomaly(name, where, fate(*operations), f"{text} -> {operations[0]}{more}", allowed)
