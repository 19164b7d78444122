"""The page in docs/ is what the tests say, and what rests on Spark is there."""

from __future__ import annotations

from tests.generate import stale
from tests.spark_facts.page import ROOT, facts, files


def test_the_page_is_what_the_tests_say():
    assert stale("tests.spark_facts.page") == [], "scripts/generate writes it"


def test_what_rests_on_it_is_there():
    for path in files():
        for name, statement, _, modules in facts(path):
            assert statement, name
            assert modules, name
            assert all((ROOT / module).exists() for module in modules), f"{name}: {modules}"
