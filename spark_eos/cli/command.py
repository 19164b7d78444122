"""``eoslog``: the commands, and how one ends."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Any, Literal

import typer

from spark_eos.cli import audit, configs, groups, history, maintain, transactions, verify
from spark_eos.cli.archive import copy, data
from spark_eos.cli.console import consume, produce
from spark_eos.cli.operate import lag, status
from spark_eos.cli.output import PAGES
from spark_eos.cli.parsing import Commands
from spark_eos.cli.topics import change, describe, offsets
from spark_eos.cli.usage.version import show_version
from spark_eos.errors import ConfigError, EosLogError
from spark_eos.errors.hidden import safe_text
from spark_eos.extending import all_added

_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

_BEGIN = f"""Something is wrong? Begin with: eoslog status LOG
What an error means, by its code: {PAGES}reference/error-codes.md"""


class _PassedOnError(BaseException):
    """Carries an exception through typer, which would end the process with an exit code of its own."""


@contextmanager
def _passing_on() -> Iterator[None]:
    """Ctrl-C and errors of the output reach `main`; also those of what is still to be printed at the end.

    Usage errors show no password.
    """
    try:
        try:
            yield
        except typer.Exit:
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except (BrokenPipeError, KeyboardInterrupt) as error:
        raise _PassedOnError from error
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS or error.filename is not None:
            raise
        raise _PassedOnError from error  # Stores name the file: this is the output.
    except Exception as error:
        message = getattr(error, "message", None)
        if isinstance(message, str):  # A usage error, which repeats what was typed: also the log's URL.
            vars(error)["message"] = safe_text(message)
        raise


class _AllCommands(Commands):
    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        if sys.stdout is None:
            raise ConfigError("standard output is closed: there is nowhere to print to. Use > /dev/null")
        with _passing_on():  # --version and --help print here.
            return super().make_context(*arguments, **extra)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        formatter.write(f"\n{_BEGIN}\n")  # It is not wrapped, so that the address stays whole.

    def invoke(self, ctx: Any) -> Any:
        with _passing_on():
            super().invoke(ctx)


app = typer.Typer(
    cls=_AllCommands,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=show_version,
            is_eager=True,
            help="Print the versions of eoslog, Python and pyarrow, and the formats written.",
        ),
    ] = False,
) -> None:
    """Inspect, use and maintain a log: its topics, records, groups, transactions, settings and files."""


app.add_typer(change.topics_app)
for noun in (
    describe,
    produce,
    consume,
    offsets,
    transactions,
    groups,
    status,
    lag,
    configs,
    maintain,
    verify,
    copy,
    data,
    audit,
    history,
):
    app.add_typer(noun.app)
for _, added in all_added("commands"):
    app.add_typer(added.app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code: 0 after success, 1 after an error.

    An error is printed in one line, with its code at the end (docs/reference/error-codes.md). Raises ``SystemExit``
    with 2 after wrong arguments, and with 128 plus its number after a signal.
    """
    # Help and usage errors are drawn for terminals, and plain text for all else.
    if "_EOSLOG_COMPLETE" in os.environ:
        # Typer wraps descriptions to the width of a terminal; fish takes each line for an offer.
        os.environ["COLUMNS"] = "1000"
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # Names of groups and paths may have characters that the output's encoding has not.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        _built("rich" if _is_terminal() else None).main(arguments, prog_name="eoslog")
    except EosLogError as error:
        print(f"eoslog: {error} [{error.code}]", file=sys.stderr)
        return 1
    except _PassedOnError as passed:
        # Nothing is to be flushed any more: the reader of the pipe has ended (`eoslog dump ... | head`), or the disk is
        # full.
        sys.stdout = None
        if isinstance(passed.__cause__, KeyboardInterrupt):
            raise SystemExit(128 + signal.SIGINT) from None
        if not isinstance(passed.__cause__, BrokenPipeError):
            print(f"eoslog: the output cannot be written: {passed.__cause__}", file=sys.stderr)
            return 1
    except KeyboardInterrupt:  # Before the command had begun.
        raise SystemExit(128 + signal.SIGINT) from None
    except SystemExit as ended:
        if ended.code == 1:
            return 1
        if ended.code:
            raise
    return 0


@lru_cache
def _built(markup: Literal["rich"] | None) -> Any:
    """The commands as typer makes them, which takes longer than to run most of them; a run changes nothing in them."""
    app.rich_markup_mode = markup
    return typer.main.get_command(app)


def _is_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))
