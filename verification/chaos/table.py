"""The table that a campaign prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from verification.chaos.checker import NO_ROWS, Rows

__all__ = ["Line", "Struck", "by_kind", "total", "workload_table"]

KINDS = ("driver", "executor", "python worker", "client", "maintainer")


@dataclass
class Struck:
    """What was done to the processes of a line."""

    kills: Counter[str] = field(default_factory=Counter)
    freezes: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    fenced: int = 0

    def add(self, other: Struck) -> None:
        """Theirs too."""
        self.kills += other.kills
        self.freezes += other.freezes
        self.restarts += other.restarts
        self.fenced += other.fenced


@dataclass
class Line:
    """One workload. ``struck`` is None where its processes are counted in another line: ``shared``."""

    name: str
    struck: Struck | None
    rows: Rows
    shared: str = ""
    note: str = ""


def total(lines: Sequence[Line]) -> Line:
    """All lines together."""
    struck, rows = Struck(), NO_ROWS
    for line in lines:
        rows += line.rows
        if line.struck is not None:
            struck.add(line.struck)
    return Line("total", struck, rows)


def workload_table(lines: Sequence[Line]) -> str:
    """A line for each workload, and one for all of them."""
    head = (
        "workload", "kills", "freezes", "restarts", "fenced zombies", "rows", "expected", "lost", "doubled",
        "must not be there", "",
    )  # fmt: skip
    return _aligned([head, *map(_cells, lines), _cells(total(lines))])


def by_kind(lines: Sequence[Line]) -> str:
    """Kills and freezes by kind of process."""
    struck = total(lines).struck
    assert struck is not None
    rows: list[tuple[str, ...]] = [("", *KINDS, "total")]
    for name, counts in (("kills", struck.kills), ("freezes", struck.freezes)):
        rows.append((name, *(str(counts[kind]) for kind in KINDS), str(counts.total())))
    return _aligned(rows)


def _cells(line: Line) -> tuple[str, ...]:
    struck, rows = line.struck, line.rows
    if struck is None:
        hit = (f"with {line.shared}", "", "", "")
    else:
        numbers = (struck.kills.total(), struck.freezes.total(), struck.restarts, struck.fenced)
        hit = tuple(map(str, numbers))  # type: ignore[assignment]  # four of them
    compared = tuple(
        f"{number:,}" for number in (rows.found, rows.wanted, rows.lost, rows.doubled, rows.strange)
    )
    return (line.name, *hit, *compared, line.note)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        first, *rest = (
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *rest]).rstrip())
    return "\n".join(lines)
