"""Write into docs/quality/versions.md with which versions whole areas of the tests have passed.

`scripts/test-matrix` calls it with the Python of the set:
python scripts/versions_page.py newest tests/log tests/extensions/ui
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/quality/versions.md"
BEGIN = "<!-- Written by scripts/test-matrix. Do not edit. -->\n"
END = "<!-- End of what is written by scripts/test-matrix. -->\n"
TRIED, AREAS = "tried on", "areas"

Table = dict[str, dict[str, str]]
"""The cells of each column, by the names of their rows."""


def read(text: str) -> Table:
    """The table of the page."""
    lines = text.partition(BEGIN)[2].partition(END)[0].splitlines()
    head, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines] or [[""]]
    return {
        column: {row[0]: row[at] for row in rows[1:] if row[at]} for at, column in enumerate(head) if at > 0
    }


def written(text: str, table: Table) -> str:
    """The page with this table."""
    before, _, rest = text.partition(BEGIN)
    columns = sorted(table)
    rows = sorted({row for column in table.values() for row in column} - {TRIED, AREAS}, key=str.lower)
    lines = [
        ["", *columns],
        ["---"] * (len(columns) + 1),
        *([row, *(table[column].get(row, "") for column in columns)] for row in (TRIED, *rows, AREAS)),
    ]
    return "".join(
        [before, BEGIN, *(f"| {' | '.join(line)} |\n" for line in lines), END, rest.partition(END)[2]]
    )


def newer() -> dict[str, str]:
    """The versions that are newer than the installed ones."""
    command = ["uv", "pip", "list", "--outdated", "--format", "json", "--python", sys.executable]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)  # noqa: S603
    return {one["name"]: one["latest_version"] for one in found}


def noted(table: Table, column: str, versions: dict[str, str], areas: set[str], today: str) -> Table:
    """The table with areas that have passed: beside those before, if they had the same versions."""
    before = table.get(column, {})
    if {name: cell for name, cell in before.items() if name not in {TRIED, AREAS}} == versions:
        areas = areas | set(before[AREAS].split(", "))
    return {**table, column: {TRIED: today, AREAS: ", ".join(sorted(areas)), **versions}}


def main(set_of: str, areas: list[str]) -> None:
    """Note that these areas have passed with what is installed."""
    if not all((ROOT / area).is_dir() for area in areas):
        return
    text = PAGE.read_text(encoding="utf-8")
    later = newer() if set_of == "newest" else {}
    names = {Requirement(one).name for one in metadata.requires("spark-eos") or ()}
    versions = {name: metadata.version(name) for name in names}
    for name in names & set(later):
        versions[name] += f" ({later[name]} is there)"
    column = f"{set_of}, Python {sys.version_info[0]}.{sys.version_info[1]}"
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    passed = {Path(area).name for area in areas}
    PAGE.write_text(written(text, noted(read(text), column, versions, passed, today)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
