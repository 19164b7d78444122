"""A slice of the campaign of `scripts/mutants`: the list is not stale, and mutants are really seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.harness import AREA_S, ROOT, Copy, StaleError, mutated
from tests.mutants.mutants import MUTANTS
from tests.mutants.page import read_page

CHEAP = (
    "fence-forgotten",
    "abort-not-recorded",
    "continuity-not-compared",
    "unknown-is-no",
    "entry-crc-unchecked",
    "generation-not-compared",
)
"""Mutants whose area's tests take a second or two."""

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def test_names_are_unique():
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_list_is_not_stale(mutant):
    broken = mutated((ROOT / mutant.file).read_text(encoding="utf-8"), mutant)
    if mutant.file.endswith(".py"):
        compile(broken, mutant.file, "exec")
    tests = [argument for argument in mutant.area if argument.startswith("tests/")]
    assert tests
    assert all((ROOT / name).exists() for name in tests)


@pytest.mark.parametrize("text", ["", "a\na\n"])
def test_a_stale_mutant_is_named(text):
    with pytest.raises(StaleError, match=r"here: its old text is [02] times in x"):
        mutated(text, BY_NAME[CHEAP[0]]._replace(name="here", file="x", old="a"))


def test_the_page_says_that_every_mutant_was_seen():
    rows = {row.mutant.name: row for row in read_page(MUTANTS)}
    assert sorted(BY_NAME.keys() - rows.keys()) == [], "run scripts/mutants --only NAME for these"
    assert [name for name, row in rows.items() if row.seen is None] == []


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Copy.of_tree(Path(tmp_path_factory.mktemp("copy")))


@pytest.mark.deep(*CHEAP[:-1])
@pytest.mark.parametrize("name", CHEAP)
def test_a_mutant_is_seen_by_the_tests_of_its_area(copy, name):
    mutant = BY_NAME[name]
    with copy.broken(mutant):
        sight = copy.tests(mutant.area, AREA_S)
    assert sight.seen is not None, sight.output
    assert sight.seen.startswith(mutant.area[0])
    assert (copy.folder / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1


@pytest.mark.deep
def test_without_a_mutant_they_see_nothing(copy):
    areas = {argument for name in CHEAP for argument in BY_NAME[name].area}
    assert copy.tests(sorted(areas), AREA_S).seen is None
