"""The part of ``spark_eos/protocol/actions/__init__.py`` that names all actions; ``scripts/generate`` writes it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import spark_eos.protocol

FOLDER = Path(spark_eos.protocol.__file__).parent / "actions"
PAGE = FOLDER / "__init__.py"
_OTHERS = {
    "DECLARED": "spark_eos.protocol.actions.declaration",
    "TO_THE_END": "spark_eos.protocol.actions.log_start",
}
"""What else the module imports from beside it."""


def declared() -> dict[int, tuple[str, str]]:
    """Each action by its number: its module and its name, as its call of `declare` has them. No module is loaded."""
    found = {}
    for path in FOLDER.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            call = node.value if isinstance(node, ast.Expr) else None
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "declare":
                module = ".".join(
                    ("spark_eos.protocol.actions", *path.relative_to(FOLDER).with_suffix("").parts)
                )
                (number,) = (one.value.value for one in call.keywords if one.arg == "number")
                found[number] = module, call.args[0].id
    return dict(sorted(found.items()))


def page(text: str) -> str:
    """The module with the imports of today's actions, their names in ``__all__``, and `Action`, by their numbers."""
    known = declared().values()
    names = [name for _, name in known]
    imports = re.compile(r"(from spark_eos\.protocol\.actions\.\S+ import (?:\([^)]*\)|.*)\n)+")
    before = {*re.findall(r"\b[A-Z]\w+", imports.search(text)[0])} - _OTHERS.keys()
    public = re.compile(r"__all__ = (\[.*?\])", re.DOTALL)
    listed = {*ast.literal_eval(public.search(text)[1])} - before | {*names}
    needed = [*known, *((module, name) for name, module in _OTHERS.items())]
    text = imports.sub("".join(f"from {module} import {name}\n" for module, name in needed), text, count=1)
    text = public.sub(f"__all__ = {sorted(listed)}", text)
    text = re.sub(r"\nAction = \(.*?\n\)", f"\nAction = (\n{' | '.join(names)}\n)", text, flags=re.DOTALL)
    for command in (["check", "--quiet", "--fix", "--select=I,RUF022"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, f"--stdin-filename={PAGE}", "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text
