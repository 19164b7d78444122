"""docs/quality/survives.md names a test in each line of its tables, and each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/quality/survives.md").read_text("utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| what happens")]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def names_in(path):
    """The names of the tests in a file; those of classes, too."""
    return {*re.findall(r"^ *def (test_\w+)\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)}


def test_each_line_names_its_tests():
    assert len(ROWS) > 30
    for row in ROWS:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 3, row
        assert re.fullmatch(rf"{NAMED.pattern}(, {NAMED.pattern})*", cells[2].strip("| ")), row


def test_the_tests_are_there():
    named = NAMED.findall(PAGE)
    known = {path: names_in(path) for path in {path for path, _ in named}}
    missing = [f"{path}::{name}" for path, name in named if name not in known[path]]
    assert not missing
