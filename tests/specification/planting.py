"""Mutants of the product, planted into what runs: what is recorded then is to be no behaviour of a specification."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.mutants import MUTANTS
from verification.specification.planted_code import codes

ROOT = Path(__file__).parents[2]


def planted(name):
    """The file of the mutant, and its text with it."""
    mutant = next(one for one in MUTANTS if one.name == name)
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1
    return mutant.file, source.replace(mutant.old, mutant.new)


def plant(name, monkeypatch):
    """Let the functions of the product have the code of the mutant: rules are held by a table, not by name."""
    for function, code in codes(*planted(name)):
        monkeypatch.setattr(function, "__code__", code)
