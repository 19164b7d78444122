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
    from spark_eos.monitoring import Activity
    from spark_eos.monitoring.status import Status
    from spark_eos.monitoring.troubles.trouble import Trouble

app = typer.Typer()

_MOST_ELSEWHERE = 20


@app.command("status", cls=Command)
def status(urls: Urls, command_config: ConfigFile = None, as_json: Json = False) -> None:
    """Show what is wrong with logs, the worst first: each with what to look at, what to do, and its page.

    It looks once and never writes to the log. It ends with 1 if anything is critical or a warning; notes are neither.
    Data is not read: eoslog verify does that.
    """
    from spark_eos.monitoring.status import status_of

    settings = settings_of_each(urls, store_settings(command_config))
    statuses = [status_of(url, of) for url, of in zip(urls, settings, strict=True)]
    refuse_twice([log_status.log for log_status in statuses])
    for at, log_status in enumerate(statuses):
        if as_json:
            print_json(_as_json(log_status, command_config))
        else:
            if at:
                print()
            _print(log_status, command_config)
    if any(trouble.level != "note" for log_status in statuses for trouble in log_status.troubles):
        raise typer.Exit(1)


def _print(log_status: Status, config_file: str | None) -> None:
    from spark_eos.monitoring.troubles.trouble import LEVELS, LOG

    if log_status.activity is None:
        print(printable(log_status.log))
    else:
        from spark_eos.cli.operate.text import head_lines

        name, written, readers = head_lines(log_status.activity)
        print(name, written.partition(": ")[0], readers, sep="\n")
    for trouble in log_status.troubles:
        print(f"\n{trouble.level.upper()}: {trouble.name}")
        print(f"  {printable(trouble.text)}")
        for command in trouble.look:
            print(f"  look:  {_command(command, log_status, config_file)}")
        if trouble.advice:
            print(f"  do:    {trouble.advice}")
        for command in trouble.cure:
            print(f"  cure:  {_command(command, log_status, config_file)}")
        print(f"  page:  {PAGES}{trouble.page}")
    counts = Counter(trouble.level for trouble in log_status.troubles)
    print(f"\n{', '.join(f'{level}: {counts[level]}' for level in LEVELS)}")
    if log_status.activity is None:
        return
    for subject, command in {"rows": ("verify", LOG), "garbage": ("vacuum", LOG, "--dry-run")}.items():
        print(f"not looked at: {subject}, by {_command(command, log_status, config_file)}")
    if log_status.activity.elsewhere:
        print(
            f"not known: whether these run, which read elsewhere: {printable(_elsewhere(log_status.activity))}"
        )


def _elsewhere(activity: Activity) -> str:
    """When each of them has committed last, which is all that the log knows."""
    from spark_eos.monitoring.troubles.trouble import age, in_one_line

    return in_one_line(
        (
            f"{query.name} (how far it is stands in Kafka)"
            if query.timestamp_ms is None
            else f"{query.name} (has committed {age(activity.now_ms - query.timestamp_ms)} ago)"
            for query in activity.elsewhere
        ),
        most=_MOST_ELSEWHERE,
    )


def _command(words: tuple[str, ...], log_status: Status, config_file: str | None) -> str:
    """As it is typed into a shell, for this log."""
    from spark_eos.monitoring.troubles.trouble import LOG

    config = () if config_file is None else ("--command-config", config_file)
    return printable(
        shlex.join(["eoslog", *(log_status.log if word == LOG else word for word in words), *config])
    )


def _as_json(log_status: Status, config_file: str | None) -> dict[str, Any]:
    activity = log_status.activity
    return {
        "log": log_status.log,
        "entry": None if activity is None else activity.seq,
        "troubles": [_trouble_as_json(trouble, log_status, config_file) for trouble in log_status.troubles],
        "elsewhere": [
            {"query": query.name, "last_commit_ms": query.timestamp_ms}
            for query in ([] if activity is None else activity.elsewhere)
        ],
    }


def _trouble_as_json(trouble: Trouble, log_status: Status, config_file: str | None) -> dict[str, Any]:
    return {
        **trouble._asdict(),
        "page": f"{PAGES}{trouble.page}",
        "look": [_command(command, log_status, config_file) for command in trouble.look],
        "cure": [_command(command, log_status, config_file) for command in trouble.cure],
    }
