"""``eoslog``: topics, groups, transactions and maintenance of a log, from a shell.

`main` runs a command of it in this process.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``eoslog`` with these arguments (None: the program's own); the exit code."""
    try:
        from spark_eos.cli.command import main as run
    except KeyboardInterrupt:  # That takes a moment.
        raise SystemExit(130) from None
    return run(arguments)
