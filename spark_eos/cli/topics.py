"""``eoslog topics`` and ``eoslog describe``."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from spark_eos.cli.arguments import Commands, add_command
from spark_eos.cli.tables import print_json, print_table
from spark_eos.clients.admin import Admin

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add the commands about topics."""
    add_command(commands, "topics", _topics, "list the topics")
    describe = add_command(commands, "describe", _describe, "partitions, settings and columns of a topic")
    describe.add_argument("topic", metavar="TOPIC")


def _topics(chosen: argparse.Namespace) -> None:
    admin = Admin(chosen.url, chosen.settings)
    described = [admin.describe_topic(name) for name in admin.list_topics()]
    if chosen.json:
        for topic in described:
            told = {"topic": topic.name, "topic_id": topic.topic_id, "partitions": len(topic.partitions)}
            print_json(told | ({"schema_error": topic.schema_error} if topic.schema_error else {}))
        return
    rows = [
        (topic.name, len(topic.partitions), sum(part.end - part.start for part in topic.partitions))
        for topic in described
    ]
    print_table(("TOPIC", "PARTITIONS", "OFFSETS"), rows)
    for topic in described:
        if topic.schema_error:
            print(f"error: {topic.schema_error}")


def _describe(chosen: argparse.Namespace) -> None:
    topic = Admin(chosen.url, chosen.settings).describe_topic(chosen.topic)
    columns = [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in topic.schema or ()
    ]
    if chosen.json:
        print_json(
            {
                "topic": topic.name,
                "topic_id": topic.topic_id,
                "config": topic.config,
                "columns": columns or None,
                **({"schema_error": topic.schema_error} if topic.schema_error else {}),
                "partitions": [asdict(partition) for partition in topic.partitions],
            }
        )
        return
    print(f"topic {topic.name} ({topic.topic_id})")
    for name, value in topic.config.items():
        print(f"  {name}={value}")
    if topic.schema_error:
        print(f"  error: {topic.schema_error}")
    for column in columns:
        print(f"  {column['name']}: {column['type']}{'' if column['nullable'] else ' not null'}")
    print_table(
        ("PARTITION", "START", "END", "LSO"),
        [(part.partition, part.start, part.end, part.lso) for part in topic.partitions],
    )
