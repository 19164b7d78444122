"""Write docs/quality/conformance.md from the rows and the tests that carry them; or see that it is up to date."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "quality" / "conformance.md"
sys.path.insert(0, str(ROOT))

from tests.conformance.rows import TABLES, Row, Table  # noqa: E402  (the folder has to be found first)

HEAD = """\
# Conformance

<!-- Written by scripts/conformance from tests/conformance/rows.py and the markers of the tests. Do not edit. -->

Each row is carried by the tests named beside it. `scripts/test --all` fails if a row has no test that passes, or if one
of its tests fails, `scripts/test` if this page is not what `scripts/conformance` would write. {counts}
"""


def collect(root: Path) -> dict[str, list[str]]:
    """The tests of each row, found by pytest without running any."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "rows.json"
        command = [
            *(
                sys.executable,
                "-m",
                "pytest",
                "--all",
                "--collect-only",
                "-q",
                "-q",
                "-p",
                "no:cacheprovider",
            ),
            *("-p", "no:xdist", f"--conformance={found}"),
        ]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603  (our own pytest)
        if done.returncode or not found.exists():
            sys.exit(f"pytest could not collect the tests:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        rows = json.loads(found.read_text("utf-8"))["rows"]
    return {row: list(known["tests"]) for row, known in rows.items()}


def render(tables: Sequence[Table], tests: Mapping[str, Sequence[str]]) -> str:
    """The page."""
    rows = [row for table in tables for section in table.sections for row in section.rows]
    left_out = sum(row.cannot_apply is not None for row in rows)
    counts = f"{len(rows)} rows, {left_out} of which cannot apply."
    lines = [HEAD.format(counts=counts)]
    for table in tables:
        lines += [f"## {table.title}", "", table.intro, ""]
        for section in table.sections:
            lines += [f"### {section.title}", "", "| row | what it shows | tests |", "| --- | --- | --- |"]
            lines += [line(row, section.title, tests.get(row.id, ())) for row in section.rows]
            lines.append("")
    return "\n".join(lines)


def line(row: Row, title: str, tests: Sequence[str]) -> str:
    """One row; its id without what the heading says already."""
    if row.cannot_apply is not None:
        proof = f"cannot apply: {row.cannot_apply}"
    else:
        proof = "<br>".join(dict.fromkeys(map(link, tests))) or "**none**"
    name = row.id.removeprefix(f"{title}.").partition("/")[2] or row.id.removeprefix(f"{title}.")
    return f"| {name} | {row.shows} | {proof} |"


def link(test: str) -> str:
    """A test by name, with a link to its file; its parameters do not matter."""
    path, _, name = test.partition("::")
    return f"[{name.partition('[')[0]}](../../{path})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(prog="scripts/conformance", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="fail if the page is not up to date; write nothing"
    )
    options = parser.parse_args(arguments)
    tests = collect(ROOT)
    page = render(TABLES, tests)
    if options.check:
        old = PAGE.read_text("utf-8") if PAGE.exists() else ""
        if page != old:
            sys.exit(f"{PAGE.relative_to(ROOT)} is not up to date: run scripts/conformance")
        return
    PAGE.write_text(page, encoding="utf-8")
    bare = [row for row, carried in tests.items() if not carried and not _excused(row)]
    print(f"{PAGE.relative_to(ROOT)}: {len(tests)} rows, {len(bare)} without a test")
    for row in bare:
        print(f"  {row}")


def _excused(name: str) -> bool:
    known = (row for table in TABLES for section in table.sections for row in section.rows if row.id == name)
    return any(row.cannot_apply is not None for row in known)


if __name__ == "__main__":
    main()
