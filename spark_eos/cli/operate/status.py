"""``eoslog status``: what is wrong with logs, and the command that shows more or cures it."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

import typer

from spark_eos.cli.options import ConfigFile, Json, Urls, refuse_twice, settings_of_each, store_settings
from spark_eos.cli.output import PAGES, print_json, printable
from spark_eos.cli.parsing import Command

if TYPE_CHECKING:
    from spark_eos.monitoring.status import Status
    from spark_eos.monitoring.troubles.trouble import Trouble

__all__ = ["app"]

app = typer.Typer()


@app.command("status", cls=Command)
def status(urls: Urls, command_config: ConfigFile = None, as_json: Json = False) -> None:
    """Show what is wrong with logs, the worst first: each with what to look at, what to do, and its page.

    It looks once and never writes to the log. It ends with 1 if anything is critical or a warning; notes are neither.
    Data is not read: eoslog verify does that.
    """
    from spark_eos.monitoring.status import status_of

    settings = settings_of_each(urls, store_settings(command_config))
    found = [status_of(url, of) for url, of in zip(urls, settings, strict=True)]
    refuse_twice([one.log for one in found])
    for at, one in enumerate(found):
        if as_json:
            print_json(_as_json(one, command_config))
        else:
            if at:
                print()
            _print(one, command_config)
    if any(trouble.level != "note" for one in found for trouble in one.troubles):
        raise typer.Exit(1)


def _print(found: Status, config_file: str | None) -> None:
    from spark_eos.monitoring.troubles.trouble import LEVELS, LOG

    if found.activity is None:
        print(printable(found.log))
    else:
        from spark_eos.cli.operate.text import head_lines

        name, written, readers = head_lines(found.activity)
        print(name, written.partition(": ")[0], readers, sep="\n")
    for one in found.troubles:
        print(f"\n{one.level.upper()}: {one.name}")
        print(f"  {printable(one.text)}")
        for command in one.look:
            print(f"  look:  {_command(command, found, config_file)}")
        if one.advice:
            print(f"  do:    {one.advice}")
        for command in one.cure:
            print(f"  cure:  {_command(command, found, config_file)}")
        print(f"  page:  {PAGES}{one.page}")
    counts = Counter(one.level for one in found.troubles)
    print(f"\n{', '.join(f'{level}: {counts[level]}' for level in LEVELS)}")
    for what, command in {"rows": ("verify", LOG), "garbage": ("vacuum", LOG, "--dry-run")}.items():
        print(f"not looked at: {what}, by {_command(command, found, config_file)}")


def _command(words: tuple[str, ...], found: Status, config_file: str | None) -> str:
    """As it is typed into a shell, for this log."""
    from spark_eos.monitoring.troubles.trouble import LOG

    config = () if config_file is None else ("--command-config", config_file)
    return printable(shlex.join(["eoslog", *(found.log if word == LOG else word for word in words), *config]))


def _as_json(found: Status, config_file: str | None) -> dict[str, Any]:
    return {
        "log": found.log,
        "entry": None if found.activity is None else found.activity.seq,
        "troubles": [_trouble_as_json(one, found, config_file) for one in found.troubles],
    }


def _trouble_as_json(one: Trouble, found: Status, config_file: str | None) -> dict[str, Any]:
    return {
        **one._asdict(),
        "page": f"{PAGES}{one.page}",
        "look": [_command(command, found, config_file) for command in one.look],
        "cure": [_command(command, found, config_file) for command in one.cure],
    }
