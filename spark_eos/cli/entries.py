"""``eoslog dump``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from spark_eos.cli.arguments import Commands, add_command
from spark_eos.cli.dump import dump
from spark_eos.cli.tables import print_json
from spark_eos.log.log import Log

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add the command about entries."""
    entries = add_command(commands, "dump", _dump, "entries and control batches of the transaction log")
    entries.add_argument(
        "--from", dest="first", type=int, default=0, metavar="SEQ", help="first entry to show"
    )


def _dump(chosen: argparse.Namespace) -> None:
    for line in dump(Log.open(chosen.url, settings=chosen.settings), chosen.first):
        if chosen.json:
            print_json(line)
        else:
            print(_readable(line))


def _readable(line: dict[str, Any]) -> str:
    kind = line["kind"]
    if kind == "control":
        return (
            f"      {line['topic']}-{line['partition']} offset {line['offset']}: {line['type']} batch of producer "
            f"{line['producer_id']} epoch {line['epoch']} transaction {line['number']}"
        )
    if kind == "request":
        verdict = f"REJECTED: {line['error']}" if line["error"] else "accepted"
        return f"entry {line['seq']} at {line['timestamp_ms']} by {line['writer'] or '?'}: {verdict}"
    fields = " ".join(f"{name}={_short(value)}" for name, value in line["fields"].items())
    return f"   {line['action']} {fields}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 200 else f"{text[:197]}..."
