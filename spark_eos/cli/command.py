"""``eoslog``: the commands, and how one ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer

from spark_eos.cli import (
    configs,
    groups,
    history,
    maintain,
    tables,
    topics,
    transactions,
    verify,
)
from spark_eos.cli.archive import backup, copy
from spark_eos.cli.parsing import Commands
from spark_eos.errors import EosLogError

__all__ = ["app", "main"]


class _PassedOnError(BaseException):
    """Carries an exception through typer, which would end the process with an exit code of its own."""


class _AllCommands(Commands):
    def invoke(self, ctx: Any) -> Any:
        try:
            super().invoke(ctx)
            sys.stdout.flush()
        except (BrokenPipeError, KeyboardInterrupt) as error:
            raise _PassedOnError from error


app = typer.Typer(
    cls=_AllCommands,
    help="Inspect and maintain a log: its topics, groups, transactions, settings and files.",
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)
app.add_typer(topics.named)
for noun in (topics, transactions, groups, configs, maintain, tables, verify, copy, backup, history):
    app.add_typer(noun.app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code: 0 after success, 1 after an error, which is printed in one line.

    Raises ``SystemExit`` with 2 after wrong arguments, and with 128 plus its number after a signal that stopped
    maintenance.
    """
    # Help and usage errors are drawn for terminals, and plain text for all else.
    app.rich_markup_mode = "rich" if _is_terminal() else None
    try:
        typer.main.get_command(app).main(arguments, prog_name="eoslog")
    except EosLogError as error:
        print(f"eoslog: {error}", file=sys.stderr)
        return 1
    except _PassedOnError as passed:
        if isinstance(passed.__cause__, KeyboardInterrupt):
            raise passed.__cause__ from None
        # The reader of the pipe has ended (`eoslog dump ... | head`): nothing is to be flushed any more.
        sys.stdout = None
    except SystemExit as ended:
        if ended.code:
            raise
    return 0


def _is_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))
