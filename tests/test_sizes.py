"""Modules and packages stay small enough to be read at one go."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_LINES, MOST_MODULES = 400, 15

LONG = {}
"""Still too long. The list may only get shorter, and its numbers smaller."""

WIDE: dict[str, int] = {}
"""Still too wide, in the same way."""


def test_modules_are_short():
    lines = {
        str(path.relative_to(ROOT / "spark_eos")): len(path.read_text(encoding="utf-8").splitlines())
        for path in ROOT.glob("spark_eos/**/*.py")
    }
    assert {name: count for name, count in lines.items() if count > LONG.get(name, MOST_LINES)} == {}
    assert [name for name in LONG if lines.get(name, 0) <= MOST_LINES] == [], "take it from the list"


def test_packages_are_narrow():
    modules = {
        str(folder.relative_to(ROOT / "spark_eos")): len([*folder.glob("[!_]*.py")])
        for folder in (ROOT / "spark_eos").rglob("*")
        if (folder / "__init__.py").exists()
    }
    assert {name: count for name, count in modules.items() if count > WIDE.get(name, MOST_MODULES)} == {}
    assert [name for name in WIDE if modules.get(name, 0) <= MOST_MODULES] == [], "take it from the list"
