"""The table of `tests/mutants/results.md`: written, and read back so that part of it can be made again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutants import Mutant

__all__ = ["PAGE", "Row", "read_page", "write_page"]

PAGE = Path(__file__).resolve().parents[2] / "tests" / "mutants" / "results.md"

_SURVIVES = "**nothing**"
_HEAD = """\
# Mutants

<!-- Written by scripts/mutants from tests/mutants. Do not edit. -->

Each row is a small break of the product. `scripts/mutants` applies one at a time to a copy of the tree and runs,
until something fails: the test that saw it the last time, the quick tests of the mutant's own area, all quick tests
that need no Spark, the deep tests of its area, runs of the simulator. "Seen by" is what failed first, "tier" whether
`scripts/test` runs it or only `scripts/test --all`, "seconds" the time until then, the start of Python included, on
two cores that did other work as well. "Simulator alone" says which seed of the simulator sees the mutant if
no test is asked (`scripts/mutants --simulator-only`); empty: not asked yet.

{counts}

| mutant | in | what it breaks | seen by | tier | seconds | simulator alone |
|---|---|---|---|---|--:|---|
"""


class Row(NamedTuple):
    """A mutant, what saw it (None: nothing), after how many seconds, in which tier, and what the simulator says."""

    mutant: Mutant
    seen: str | None
    seconds: float
    tier: str = "quick"
    simulator: str = ""


def write_page(rows: Sequence[Row]) -> None:
    """Replace the page."""
    seen = sum(row.seen is not None for row in rows)
    quick = sum(row.seen is not None and row.tier == "quick" for row in rows)
    counts = f"{len(rows)} mutants, {seen} of them seen, {quick} by the quick tier."
    asked = [row.simulator for row in rows if row.simulator]
    if asked:
        found = sum(not what.startswith("not ") for what in asked)
        counts += f" The simulator alone was asked about {len(asked)} and sees {found}."
    lines = [
        " | ".join(
            [
                f"| {row.mutant.name}",
                f"`{row.mutant.file.removeprefix('spark_eos/')}`",
                row.mutant.breaks,
                _SURVIVES if row.seen is None else f"`{row.seen}`",
                row.tier,
                f"{row.seconds:.1f}",
                f"{row.simulator} |",
            ]
        )
        for row in rows
    ]
    PAGE.write_text(_HEAD.format(counts=counts) + "\n".join(lines) + "\n", encoding="utf-8")


def read_page(mutants: Iterable[Mutant]) -> list[Row]:
    """The rows of the page, of those mutants that are still there; none without the page."""
    known = {mutant.name: mutant for mutant in mutants}
    rows = []
    for line in PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else ():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 7 and cells[0] in known:
            seen = None if cells[3] == _SURVIVES else cells[3].strip("`")
            rows.append(Row(known[cells[0]], seen, float(cells[5]), cells[4], cells[6]))
    return rows
