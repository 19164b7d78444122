"""``eoslog verify``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TextIO

from spark_eos.cli.arguments import Commands, add_command
from spark_eos.cli.tables import print_json
from spark_eos.errors import CorruptRecordError
from spark_eos.maintenance.verify.verify import Finding, Summary, Verdict, verify

__all__ = ["Progress", "add_commands"]

_LINE_S = 10.0
"""How often a line of progress is written where the output is no terminal."""

_SCREEN_S = 0.2


def add_commands(commands: Commands) -> None:
    """Add the command that looks through a whole log."""
    command = add_command(
        commands, "verify", _verify, "look through a whole log: entries, snapshots, indexes and data"
    )
    command.add_argument(
        "--quick", action="store_true", help="read no data and no retired entries: only what refers to what"
    )
    command.add_argument(
        "--repair",
        action="store_true",
        help="write snapshots and indexes anew that are damaged or missing; never entries or data",
    )


def _verify(chosen: argparse.Namespace) -> None:
    progress = Progress(sys.stderr)

    def show(finding: Finding) -> None:
        progress.clear()
        if chosen.json:
            print_json({**asdict(finding), "verdict": finding.verdict.value})
        else:
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            print(f"{finding.verdict.value}: {finding.name}: {finding.text}{remedy}")

    summary = verify(
        chosen.url,
        show,
        repair=chosen.repair,
        quick=chosen.quick,
        progress=progress,
        settings=chosen.settings,
    )
    progress.clear()
    if chosen.json:
        found = {verdict.value: count for verdict, count in summary.found.items()}
        print_json({**asdict(summary), "found": found, "quick": chosen.quick})
    else:
        _print_summary(summary, quick=chosen.quick)
    sys.stdout.flush()
    if not summary.is_sound:
        wrong = summary.found[Verdict.WRONG]
        raise CorruptRecordError(
            f"{chosen.url}: {wrong} thing{'s are' if wrong > 1 else ' is'} wrong, see above"
        )


def _print_summary(summary: Summary, *, quick: bool) -> None:
    read = "present" if quick else "read"
    print(
        f"entries: {summary.entries} read, {summary.retired} retired, up to entry {summary.last_entry}; "
        f"{summary.refused_requests} refused requests in them"
    )
    print(f"snapshots: {summary.snapshots}; pieces of indexes: {summary.pieces}")
    print(
        f"data: {summary.batches} batches of {summary.partitions} partitions, {summary.records} records in "
        f"{summary.files} files of {summary.bytes} bytes, {read}"
    )
    print(
        f"not referred to: {summary.unreferenced_files} data files of {summary.unreferenced_bytes} bytes, "
        f"{summary.unreferenced_pieces} pieces"
    )
    print(", ".join(f"{verdict.value}: {count}" for verdict, count in summary.found.items()))


class Progress:
    """Tells how far something has come: in place on a terminal, else a line now and then."""

    def __init__(self, out: TextIO, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._now = monotonic
        self._every = _SCREEN_S if out.isatty() else _LINE_S
        self._shown_at = monotonic()
        self._width = 0

    def __call__(self, what: str, done: int, of: int) -> None:
        """So far it is."""
        now = self._now()
        if now - self._shown_at < self._every:
            return
        self._shown_at = now
        text = f"{what}: {done} of {of}" if of > done else f"{what}: {done}"
        if self._out.isatty():
            self._out.write(f"\r{text:<{self._width}}")
            self._width = len(text)
        else:
            self._out.write(f"{text}\n")
        self._out.flush()

    def clear(self) -> None:
        """Make room on a terminal for a line of another kind."""
        if self._width:
            self._out.write(f"\r{'':<{self._width}}\r")
            self._out.flush()
            self._width = 0
