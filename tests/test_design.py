"""The design notes: each rule says where it lives and what goes red without it, and both exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutants.mutants import MUTANTS

ROOT = Path(__file__).parent.parent
NOTES = sorted((ROOT / "docs/design").glob("*.md"))
RULES = [
    pytest.param(rule, id=f"{note.stem[:4]}-{rule.splitlines()[0]}")
    for note in NOTES
    for rule in re.split(r"^### ", note.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
]
PLACE = re.compile(r"`([\w/]+\.py)`(?: \(((?:`\w+`(?:, )?)+)\))?")


def line_of(rule, name):
    (line,) = re.findall(rf"^\*\*{name}:\*\* (.*?)(?=\n\n|\n\*\*|\Z)", rule, re.MULTILINE | re.DOTALL)
    return line


def defines(module, name):
    text = module.read_text(encoding="utf-8")
    return re.search(rf"^ *(?:def|class) {name}\b|^{name}\b.* = ", text, re.MULTILINE)


def places_of(name):
    modules = sorted((ROOT / "spark_eos").rglob("*.py"))
    return [str(module.relative_to(ROOT)) for module in modules if defines(module, name)]


def test_the_notes_have_rules():
    assert len(RULES) > 40
    assert len({note.name[:4] for note in NOTES}) == len(NOTES) >= 12


@pytest.mark.parametrize("rule", RULES)
def test_it_begins_with_the_failure(rule):
    assert re.findall(r"^\d\. ", rule.split("**Rule.**")[0], re.MULTILINE)[:2] == ["1. ", "2. "]


@pytest.mark.parametrize("rule", RULES)
def test_where_it_lives(rule):
    places = PLACE.findall(line_of(rule, "Where"))
    assert places
    for path, names in places:
        module = ROOT / "spark_eos" / path
        assert names or module.exists(), f"there is no spark_eos/{path}: the design note needs the new one"
        for name in re.findall(r"\w+", names):
            found = module.exists() and defines(module, name)
            assert found, (
                f"spark_eos/{path} has no {name}: the design note needs its new place, {places_of(name)}"
            )


@pytest.mark.parametrize("rule", RULES)
def test_what_goes_red_without_it(rule):
    named = re.findall(r"`([^`]+)`", line_of(rule, "Red without it"))
    mutants = {mutant.name for mutant in MUTANTS}
    assert named
    for one in named:
        path, _, test = one.partition("::")
        if path.startswith("tests/"):
            assert f"def {test}" in (ROOT / path).read_text(encoding="utf-8"), one
        else:
            assert one in mutants, f"there is no mutant {one}: correct the design note"
