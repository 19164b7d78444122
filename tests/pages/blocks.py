"""The fenced blocks of the pages, and what comes of each.

Blocks in ``python`` and ``bash`` are typed, in order, as they stand. All other languages are shown: ``text`` has
output and outlines. One comment may stand in the line before a block:

- ``<!-- output -->``, before ``text``: the end of what the block before it prints. ``...`` stands for any text.
- ``<!-- program -->``: the block is a file that ``python`` runs, as it starts processes.
- ``<!-- in a terminal of its own -->``: the command goes on until the page ends.
- ``<!-- not run: reason -->``, ``<!-- run by tests/… -->``: it is not typed here, or typed by a test with a world of
  its own. As ``<!-- blocks not run: … -->`` and ``<!-- blocks run by tests/… -->`` it holds for the whole page.

``<!-- blocks after docs/… -->`` names a page whose blocks are typed before, in the same folder.

A block below a line that ends with a file's name (`` `job.py`: ``), or with the name in its first line
(``# job.py``), is that file.
"""

from __future__ import annotations

import codeop
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
TYPED = {"python", "bash"}
SHOWN = {"text", "sql", "yaml", "toml", "json", "properties", "promql", "mermaid"}

_BLOCK = re.compile(
    r"^(?:[^\n]*`(?P<file>[\w.]+)`:\n)?"
    r"(?P<indent> *)(?:<!-- (?P<comment>[^\n]*?) -->\n *)?```(?P<language>[^\n]*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_OF_THE_PAGE = re.compile(r"^<!-- blocks ([^\n]*) -->$", re.MULTILINE)


class Block(NamedTuple):
    """``fate``: what its comment, or that of its page, says."""

    page: str
    line: int
    language: str
    text: str
    fate: str
    file: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_typed(self) -> bool:
        """Whether the pages' test types it, or saves it."""
        return self.language in TYPED and not self.fate.startswith(("not run: ", "run by "))


def blocks(page: str, text: str | None = None) -> list[Block]:
    """All blocks of a page, in order."""
    text = (ROOT / page).read_text("utf-8") if text is None else text
    of_the_page = next((one for one in _OF_THE_PAGE.findall(text) if not one.startswith("after ")), "")
    found = []
    for one in _BLOCK.finditer(text):
        language, body = one["language"], textwrap.dedent(one["text"])
        is_session = language == "text" and re.search(r"^\$ ", body, re.MULTILINE)
        named = re.match(r"# (\w+\.py)\n", body) if language == "python" else None
        found.append(
            Block(
                page,
                text[: one.start("language")].count("\n") + 1,
                language,
                body,
                one["comment"] or (of_the_page if language in TYPED or is_session else ""),
                named[1] if named else one["file"],
            )
        )
    return found


def before(page: str) -> list[str]:
    """The pages whose blocks are typed before those of a page."""
    told = _OF_THE_PAGE.findall((ROOT / page).read_text("utf-8"))
    return [one.removeprefix("after ") for one in told if one.startswith("after ")]


def faults(page: str, text: str | None = None) -> list[str]:
    """What is wrong with a page's blocks before any of them is run."""
    text = (ROOT / page).read_text("utf-8") if text is None else text
    found = blocks(page, text)
    fences = len(re.findall(r"^ *```", text, re.MULTILINE))
    wrong = [] if fences == 2 * len(found) else [f"{page}: {fences} fences, {len(found)} blocks"]
    last = None
    for block in found:
        told = _fault(block, last)
        wrong += [f"{block}: {told}"] if told else []
        last = block if block.language in TYPED else None
    return wrong


def _fault(block: Block, last: Block | None) -> str | None:
    if block.language not in TYPED | SHOWN:
        return f"language {block.language!r}: python and bash are run, {', '.join(sorted(SHOWN))} are shown"
    kind, _, rest = block.fate.partition(": ")
    if kind == "not run":
        return None if len(rest) > 20 else "no reason is given"
    if block.fate.startswith("run by "):
        return _not_run_by(block)
    if kind == "output":
        runs = last is not None and (last.is_typed or last.fate.startswith("run by "))
        return None if runs else "an output of a block that does not run"
    if block.language == "text" and re.search(r"^\$ ", block.text, re.MULTILINE):
        return "commands with their output are bash, and below it text with <!-- output -->"
    if kind in {"", "program", "in a terminal of its own"}:
        return python_fault(block) if block.language == "python" else None
    return f"nobody knows the comment {block.fate!r}"


def _not_run_by(block: Block) -> str | None:
    test = ROOT / block.fate.removeprefix("run by ")
    if not test.is_file():
        return f"{test} is not there"
    read = {test, *(path for path in test.parent.glob("*.py") if path.stem in test.read_text("utf-8"))}
    page = Path(block.page)
    texts = [path.read_text("utf-8") for path in read]
    if not any(page.name in text or f'"{page.parent}"' in text for text in texts):
        return f"{test.relative_to(ROOT)} does not read it"
    return None


def python_fault(block: Block) -> str | None:
    """Why Python does not take the block: as a file, or typed at its prompt."""
    try:
        if block.file or block.fate == "program":
            compile(block.text, str(block), "exec")
        else:
            statements(block.text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    return None


def statements(text: str) -> list[str]:
    """The statements of a text as Python's prompt takes them, line by line: compound ones end at an empty line."""
    ready = codeop.CommandCompiler()
    found: list[str] = []
    lines: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        lines.append(line)
        try:
            is_whole = ready("\n".join(lines), "<stdin>", "single") is not None
        except SyntaxError as error:
            raise SyntaxError(f"{error.msg}: {line!r}", ("<stdin>", number, None, line)) from None
        if is_whole:
            found.append("\n".join(lines))
            lines = []
    if lines:
        raise SyntaxError("the block ends within a statement", ("<stdin>", number, None, None))
    return [one for one in found if one.strip()]
