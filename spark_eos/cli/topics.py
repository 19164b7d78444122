"""``eoslog topics`` and ``eoslog describe``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, admin
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command

__all__ = ["app"]

app = typer.Typer()


@app.command("topics", cls=Command)
def topics(url: Url, command_config: ConfigFile = None, as_json: Json = False) -> None:
    """List the topics."""
    client = admin(url, command_config)
    described = [client.describe_topic(name) for name in client.list_topics()]
    if as_json:
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


@app.command("describe", cls=Command)
def describe(
    url: Url,
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show partitions, settings and columns of a topic."""
    topic = admin(url, command_config).describe_topic(name)
    columns = [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in topic.schema or ()
    ]
    if as_json:
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
    for setting, value in topic.config.items():
        print(f"  {setting}={value}")
    if topic.schema_error:
        print(f"  error: {topic.schema_error}")
    for column in columns:
        print(f"  {column['name']}: {column['type']}{'' if column['nullable'] else ' not null'}")
    print_table(
        ("PARTITION", "START", "END", "LSO"),
        [(part.partition, part.start, part.end, part.lso) for part in topic.partitions],
    )
