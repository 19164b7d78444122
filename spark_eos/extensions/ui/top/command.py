"""``eoslog top``: what goes on in a log, on a screen that is brought up to date."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, open_log
from spark_eos.cli.output import print_json
from spark_eos.cli.parsing import Command
from spark_eos.cli.usage.added import Added
from spark_eos.errors import ConfigError
from spark_eos.errors.loading import Loading
from spark_eos.extensions.ui.top.usage import ACTIVE_TOPICS, EXAMPLES, OPEN_TRANSACTIONS, READERS

if TYPE_CHECKING:
    from spark_eos.monitoring import Activity, Watch

app = typer.Typer()

_LEAST_S = 0.1

_INTERRUPTED = 130
"""The exit code after Ctrl-C, as a shell has it."""


@app.command("top", cls=Command)
def top(
    url: Url,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", help="How often to look at the log; once a second by default.")
    ] = 1.0,
    count: Annotated[
        int | None, typer.Option(metavar="N", help="With --json: end after so many looks.")
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show what goes on in a log, full-screen: rates, topics, readers with their lag, open transactions.

    It looks at the log once for each refresh, and never writes. With --json it prints an object for each look instead.
    """
    if not interval >= _LEAST_S:
        raise ConfigError(f"--interval must be at least {_LEAST_S} seconds, not {interval}")
    if count is not None and (not as_json or count < 1):
        raise ConfigError("--count is a number of looks, from 1 on, and belongs to --json")
    if not as_json and not _is_terminal():
        raise ConfigError(
            "eoslog top needs a terminal. Use eoslog lag for lag as a table, or --json for an object for each look"
        )
    from spark_eos.monitoring import Watch

    if as_json:
        try:
            _print_looks(Watch(open_log(url, command_config)), interval, count)
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None
        return
    with Loading("eoslog top", "ui", "textual"):
        from spark_eos.extensions.ui.top.view import Top

    watch = Watch(open_log(url, command_config))
    Top(watch, watch.look(), interval).run()


def _print_looks(watch: Watch, interval_s: float, count: int | None) -> None:
    looks = 0
    while True:
        print_json(_as_json(watch.look()))
        sys.stdout.flush()
        looks += 1
        if looks == count:
            return
        time.sleep(interval_s)


def _is_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def _as_json(look: Activity) -> dict[str, Any]:
    return {
        **look._asdict(),
        "topics": [topic._asdict() for topic in look.topics],
        "lags": [{**lag._asdict(), "held_back": lag.held_back} for lag in look.lags],
        "transactions": [
            {
                **transaction._asdict(),
                "partitions": [held._asdict() for held in transaction.partitions],
                "is_overdue": transaction.is_overdue,
                "held_back": transaction.held_back,
            }
            for transaction in look.transactions
        ],
        "elsewhere": [
            {"query": query.name, "last_commit_ms": query.timestamp_ms} for query in look.elsewhere
        ],
    }


ADDED = Added(app, EXAMPLES, (READERS, ACTIVE_TOPICS, OPEN_TRANSACTIONS))
