"""Modules and packages stay small enough to be read at one go, and programs of tests are files, not texts."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

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


# -- Programs that tests start: in folders `programs`, where ruff reads them (tests/starting.py) --------------

MOST_LINES_OF_A_TEXT = 3
DATA = {
    "conformance/test_plugin.py": "files of pytest, for `pytester`",
    "spark/test_specified.py": "the same",
    "test_scheduling.py": "the same",
    "test_tiers.py": "the same",
}
"""Files of tests with longer texts that are programs."""


_THREE_MARKS = re.compile(r"\"{3}|'{3}")
_ON_A_LINE = re.compile(r"[\"'].*import ")


def programs(source):
    """The lines at which literals begin that are programs of many lines, and import something."""
    found, inner = [], set()
    # To parse all takes seconds. Of two texts between three quotation marks one is code, with imports of its own.
    if not _ON_A_LINE.search(source) and not any(
        "import " in text for text in _THREE_MARKS.split(source)[1::2]
    ):
        return found
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inner |= {*node.values}
            text = "".join(part.value if isinstance(part, ast.Constant) else "hole" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner:
            text = node.value
        else:
            continue
        if "import " in text and "\n" in text and _imports(text):
            found.append(node.lineno)
    return found


def _imports(text):
    """Whether it is a program of too many lines that imports something."""
    try:
        nodes = [*ast.walk(ast.parse(textwrap.dedent(text)))]
    except SyntaxError:
        return False
    lines = {node.lineno for node in nodes if isinstance(node, ast.stmt)}
    return len(lines) > MOST_LINES_OF_A_TEXT and any(
        isinstance(node, ast.Import | ast.ImportFrom) for node in nodes
    )


def test_no_text_is_a_program():
    folder = ROOT / "tests"
    found = {
        name: lines
        for path in folder.rglob("*.py")
        if (lines := programs(path.read_text(encoding="utf-8")))
        and not (name := path.relative_to(folder).as_posix()).startswith("mutants/")
    }
    assert {name: found[name] for name in found.keys() - DATA.keys()} == {}, "make it a file in `programs`"
    assert DATA.keys() <= found.keys(), "take it from the list"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("X = 'import os\\nos.getpid()\\nos.getpid()'", []),
        ("X = 'import os\\na = 1\\nb = 2\\nc = 3'", [1]),
        ("X = f'import os\\na = {1}\\nb = 2\\nc = {3}'", [1]),
        ("X = (\n 'import os\\n'\n 'a = 1\\nb = 2\\nc = 3'\n)", [2]),
        ("X = '    if a:\\n        import b\\n    c\\n    d'", [1]),
        ('X[\'a\'] = """\nimport os\na = 1\nb = 2\nc = 3\n"""', [1]),
        ("X = 'one\\ntwo\\nthree\\nfour'", []),
        ("X = 'To import\\na word\\nis no\\nprogram'", []),
    ],
)
def test_what_is_a_program(source, found):
    assert programs(source) == found


def test_each_program_is_started_by_a_test():
    folder = ROOT / "tests"
    texts = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    names = [
        path.relative_to(folder).as_posix().replace("programs/", "") for path in folder.rglob("programs/*.py")
    ]
    assert [name for name in names if f'"{name.removesuffix(".py")}"' not in texts] == []
