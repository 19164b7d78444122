"""``eoslog``: look into a log from the command line, and put right what hangs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from spark_eos.cli import configs, copy, entries, groups, history, maintain, topics, transactions, verify
from spark_eos.errors import EosLogError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 if it went well, 1 after an error that is told to the user, 2 for wrong arguments."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    try:
        chosen.run(chosen)
        sys.stdout.flush()
    except EosLogError as error:
        print(f"eoslog: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of the pipe has ended (`eoslog dump … | head`): nothing is to be flushed any more.
        sys.stdout = None
        return 0
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="eoslog", description="Look into a log, and put right what hangs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for noun in (topics, entries, transactions, groups, configs, maintain, verify, copy, history):
        noun.add_commands(commands)
    return parser
