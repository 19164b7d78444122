"""What users copy from uses what is public."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PUBLIC = {"spark_eos", "spark_eos.cli", "spark_eos.errors", "spark_eos.spark.datasource", "spark_eos.storage"}
PUBLIC |= {"spark_eos.monitoring", "spark_eos.extensions.tables", "spark_eos.testing"}
PUBLIC |= {"spark_eos.testing.store_contract"}
PUBLIC |= {"spark_eos.kafka", "spark_eos.kafka.admin", "spark_eos.kafka.errors", "spark_eos.kafka.structs"}
"""Modules from which examples may import; from the package itself what it exports."""

INTERNAL = {"docs/quality/testing.md"}
"""Pages for developers of this project."""

PAGES = [
    path
    for path in (
        ROOT / "README.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("jobs/**/*.py"),
        *ROOT.glob("notebooks/*.py"),
    )
    if str(path.relative_to(ROOT)) not in INTERNAL
]

_IMPORT = re.compile(
    r"^\s*(?:from (spark_eos[\w.]*) import ([\w, ]+)|import (spark_eos[\w.]*))", re.MULTILINE
)


def internals(text: str) -> list[str]:
    """What a page imports from modules that are not public, or what a public module does not export."""
    found = []
    for module, names, plain in _IMPORT.findall(text):
        if (module or plain) not in PUBLIC:
            found.append(module or plain)
        elif module:
            known = importlib.import_module(module)
            exported = {*getattr(known, "__all__", vars(known)), "errors"}
            wanted = [part.split()[0] for part in names.split(",") if part.strip()]
            found += [f"{module}.{name}" for name in wanted if name not in exported or name.startswith("_")]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_import_what_is_public(page):
    assert internals(page.read_text(encoding="utf-8")) == []


def test_internals_are_seen():
    assert internals("from spark_eos.log.log import Log\n  import spark_eos.spark.start\n") == [
        "spark_eos.log.log",
        "spark_eos.spark.start",
    ]
    assert internals("from spark_eos import Log, Tail") == ["spark_eos.Tail"]


def test_every_example_parses():
    for page in PAGES:
        if page.suffix == ".py":
            ast.parse(page.read_text(encoding="utf-8"))
