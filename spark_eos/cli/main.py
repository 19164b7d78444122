"""``eoslog``: look into a log from the command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from spark_eos.cli.dump import dump
from spark_eos.clients.admin import Admin
from spark_eos.errors import EosLogError
from spark_eos.log.log import Log

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
        # Somebody has seen enough (`eoslog dump … | head`): nothing is to be flushed any more.
        sys.stdout = None
        return 0
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="eoslog", description="Look into a log.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    topics = commands.add_parser("topics", help="list the topics")
    describe = commands.add_parser("describe", help="partitions, settings and columns of a topic")
    entries = commands.add_parser("dump", help="entries and control batches of the transaction log")
    for command, run in ((topics, _topics), (describe, _describe), (entries, _dump)):
        command.add_argument("url", metavar="URL", help="the log: a folder or URL")
        command.add_argument("--json", action="store_true", help="one JSON object per line")
        command.set_defaults(run=run)
    describe.add_argument("topic", metavar="TOPIC")
    entries.add_argument(
        "--from", dest="first", type=int, default=0, metavar="SEQ", help="first entry to show"
    )
    return parser


def _topics(chosen: argparse.Namespace) -> None:
    admin = Admin(chosen.url)
    described = [admin.describe_topic(name) for name in admin.list_topics()]
    if chosen.json:
        for topic in described:
            _print_json(
                {"topic": topic.name, "topic_id": topic.topic_id, "partitions": len(topic.partitions)}
            )
        return
    rows = [
        (topic.name, len(topic.partitions), sum(p.end - p.start for p in topic.partitions))
        for topic in described
    ]
    _table(("TOPIC", "PARTITIONS", "OFFSETS"), rows)


def _describe(chosen: argparse.Namespace) -> None:
    topic = Admin(chosen.url).describe_topic(chosen.topic)
    columns = [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in topic.schema or ()
    ]
    if chosen.json:
        partitions = [asdict(partition) for partition in topic.partitions]
        _print_json(
            {
                "topic": topic.name,
                "topic_id": topic.topic_id,
                "config": topic.config,
                "columns": columns or None,
                "partitions": partitions,
            }
        )
        return
    print(f"topic {topic.name} ({topic.topic_id})")
    for name, value in topic.config.items():
        print(f"  {name}={value}")
    for column in columns:
        print(f"  {column['name']}: {column['type']}{'' if column['nullable'] else ' not null'}")
    _table(
        ("PARTITION", "START", "END", "LSO"),
        [(part.partition, part.start, part.end, part.lso) for part in topic.partitions],
    )


def _dump(chosen: argparse.Namespace) -> None:
    for line in dump(Log.open(chosen.url), chosen.first):
        if chosen.json:
            _print_json(line)
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


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, default=str))


def _table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> None:
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
