"""The bounds of `pyproject.toml` are those that docs/quality/versions.md says were tried."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
AGAIN = "run scripts/test-matrix lowest and newest"

spec = importlib.util.spec_from_file_location("versions_page", ROOT / "scripts/versions_page.py")
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)


def bounds():
    """What the package and its extras allow of each dependency."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lines = re.sub(r"#.*", "", text.partition("\ndependencies = ")[2].partition("[project.urls]")[0])
    found = re.findall(r'"([a-z][a-z0-9-]*)(?:\[[^]]*\])?([<>=][^"]*)"', lines)
    assert len(found) > 20
    return {name: SpecifierSet(bound) for name, bound in found}


def tried():
    return page.read(page.PAGE.read_text(encoding="utf-8"))


def test_each_lower_bound_was_tried():
    columns = [cells for name, cells in tried().items() if name.startswith("lowest")]
    for name, bound in bounds().items():
        (lowest,) = (one.version for one in bound if one.operator in {">=", "=="})
        versions = {Version(cells[name]) for cells in columns if name in cells}
        assert Version(lowest) in versions, f"{name}>={lowest}: {AGAIN}"


def test_the_newest_that_were_tried_are_allowed():
    columns = {name: cells for name, cells in tried().items() if name.startswith("newest")}
    assert columns
    for column, cells in columns.items():
        for name, bound in bounds().items():
            assert cells[name].split()[0] in bound, f"{column}: {name}: {AGAIN}"


def test_the_page_is_read_as_it_is_written():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text, page.read(text)) == text


def test_areas_that_pass_are_added_while_the_versions_are_the_same():
    one = page.noted({}, "lowest, Python 3.10", {"numpy": "1.26.0"}, {"log"}, "2026-01-01")
    two = page.noted(one, "lowest, Python 3.10", {"numpy": "1.26.0"}, {"ui"}, "2026-01-02")
    assert two["lowest, Python 3.10"] == {
        "tried on": "2026-01-02",
        "areas": "log, ui",
        "numpy": "1.26.0",
    }
    other = page.noted(two, "lowest, Python 3.10", {"numpy": "1.26.1"}, {"cli"}, "2026-01-03")
    assert other["lowest, Python 3.10"]["areas"] == "cli"
