"""Command lines of eoslog in the pages: whether the command exists, and has the options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import typer

from spark_eos.cli.command import app
from tests.pages.blocks import Block

EOSLOG = typer.main.get_command(app)
ENDS = {"|", "||", "&&", "&", ";", ">", ">>", "<"}


def commands(block: Block) -> Iterator[list[str]]:
    """The words after ``eoslog`` in a block for the shell, or in the lines after ``$`` of one that is shown."""
    text = block.text.replace("\\\n", " ")
    if block.language == "text":
        text = "\n".join(re.findall(r"^ *\$ (.*)$", text, re.MULTILINE))
    elif block.language != "bash":
        return
    for line in text.splitlines():
        if "eoslog " not in line:
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.commenters, lexer.whitespace_split = "#", True
        words = [*lexer]
        while "eoslog" in words:
            words = words[words.index("eoslog") + 1 :]
            ends = [words.index(end) for end in ENDS if end in words]
            yield words[: min(ends, default=len(words))]


def unknown(words: list[str]) -> str | None:
    """What eoslog does not know of a command line."""
    command = EOSLOG
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]  # type: ignore[attr-defined]
    if words and not words[0].startswith("-") and rest == words:
        return f"no command {words[0]!r}"
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    given = {word.partition("=")[0] for word in rest if word.startswith("--") and word != "--"}
    return f"no option {', '.join(sorted(given - options))}" if given - options else None
