"""The commands and options of eoslog in docs/reference/cli.md; scripts/generate writes them.

They come from the typer app itself. What stands outside of the two marks of the page is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from spark_eos.cli.command import app
from spark_eos.cli.usage.columns import tables_of
from spark_eos.cli.usage.examples import examples_of

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/cli.md"
BEGIN = "<!-- Written by scripts/cli_page.py from spark_eos/cli. Do not edit. -->"
END = "<!-- End of what is written by scripts/cli_page.py. -->"

COMMON = ("url", "command_config", "as_json")
"""Parameters that all commands have."""


def page(text: str) -> str:
    """The page with the part between the marks as it should be."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return "\n".join([before + BEGIN, *_commands(), END + after])


def _commands() -> Iterator[str]:
    found = list(_leaves(typer.main.get_command(app), "eoslog"))
    common = [param for param in found[0][1].params if param.name in COMMON]
    yield from ("", "All commands take these, and `--help`:", "", *_table(common), "")
    for name, command in found:
        own = [param for param in command.params if param.name not in COMMON]
        needed = "".join(f" {_written(param)}" for param in own if param.required)
        log = " URL" if any(param.name == "url" for param in command.params) else ""
        yield from (f"### {name}", "", f"`{name}{log}{needed}`", "", *command.help.splitlines(), "")
        if own:
            yield from (*_table(own), "")
        for table in tables_of(name):
            head = f"column of `{table.of}`" if table.of else "column"
            yield from (f"| {head} | meaning |", "|---|---|")
            yield from (f"| `{column}` | {meaning} |" for column, meaning in table.meanings.items())
            yield ""
        examples = examples_of(name)
        if examples:
            yield from ("```text", *(f"$ {example}" for example in examples), "```", "")


def _leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for child_name, child in getattr(command, "commands", {}).items():
        yield from _leaves(child, f"{name} {child_name}")
    if not hasattr(command, "commands"):
        yield name, command


def _table(params: list[Any]) -> Iterator[str]:
    yield from ("| argument or option | meaning |", "|---|---|")
    for param in params:
        needed = " Required." if param.required and param.name not in COMMON else ""
        default = f" Default: {param.default}." if type(param.default) is int and not needed else ""
        yield f"| `{_written(param)}` | {param.help}{needed}{default} |".replace("ENTRY|TIME", r"ENTRY\|TIME")


def _written(param: Any) -> str:
    """``URL``, ``--json`` or ``--from SEQ``."""
    if param.param_type_name == "argument":
        return str(param.metavar)
    return str(param.opts[0]) if param.is_flag else f"{param.opts[0]} {param.metavar}"
