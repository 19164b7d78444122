"""The programs of docs/extensions/distributed.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[3] / "docs/extensions/distributed.md"

_PROGRAM = re.compile(
    r"^## ([^\n]*)\n(?:(?!^## ).)*?^```python\n(.*?)^```\n<!-- output -->\n```text\n(.*?)^```",
    re.DOTALL | re.MULTILINE,
)


class Program(NamedTuple):
    text: str
    output: str


def programs(folder):
    """By the headings before them, with a folder in place of /tmp."""
    text = PAGE.read_text(encoding="utf-8")
    return {
        name: Program(code.replace("/tmp/", f"{folder}/"), output)
        for name, code, output in _PROGRAM.findall(text)
    }
