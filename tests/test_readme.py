"""What the README says is so. Its examples run in spark/test_readme.py."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUARANTEES = (ROOT / "docs/quality/guarantees.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_tests_that_prove_the_guarantees_are_there():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", GUARANTEES)
    assert len(named) > 15
    for path, test in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert test in functions, f"{path} has no {test}"


def test_links_lead_somewhere():
    """All are absolute, as package indexes show the README, too."""
    (repository,) = re.findall(r'^Repository = "(.+)"$', PROJECT, re.MULTILINE)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README)
    assert len(links) > 15
    for link in links:
        path = re.fullmatch(rf"{re.escape(repository)}/(?:blob|tree)/main/(.+)", link)
        assert path, f"{link} is not below {repository}"
        assert (ROOT / path[1]).exists(), link
