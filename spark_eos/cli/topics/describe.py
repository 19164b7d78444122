"""``eoslog topics list`` and ``eoslog topics describe``, which is also ``eoslog describe``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, admin
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command
from spark_eos.cli.topics.selection import matching, selected, topics_app
from spark_eos.cli.usage.columns import PARTITIONS, TOPICS
from spark_eos.cli.usage.completion import topic_names
from spark_eos.errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from spark_eos.clients.admin import TopicDescription

app = typer.Typer()


@topics_app.command("list", cls=Command)
def list_topics(
    url: Url,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Only topics whose whole name matches.", autocompletion=topic_names
        ),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the topics. The word `list` can be left out."""
    client = admin(url, command_config)
    all_names = client.list_topics()
    names = all_names if topic is None else matching(all_names, topic)
    described = [client.describe_topic(name) for name in names]
    if as_json:
        for description in described:
            fields = {
                "topic": description.name,
                "topic_id": description.topic_id,
                "partitions": len(description.partitions),
                "offsets": _offsets(description),
            }
            print_json(
                fields | ({"schema_error": description.schema_error} if description.schema_error else {})
            )
        return
    rows = [
        (
            description.name,
            len(description.partitions),
            _offsets(description),
        )
        for description in described
    ]
    print_table(TOPICS, rows)
    for description in described:
        if description.schema_error:
            print(f"error: {description.schema_error}")


def _offsets(topic: TopicDescription) -> int:
    return sum(part.end - part.start for part in topic.partitions)


@app.command("describe", cls=Command)
@topics_app.command("describe", cls=Command)
def describe(
    url: Url,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]...",
            help="Names of topics, or regular expressions for whole names (default: all topics).",
            autocompletion=topic_names,
            show_default=False,
        ),
    ] = None,
    topic_id: Annotated[str | None, typer.Option(metavar="ID", help="Only the topic with this id.")] = None,
    topics_with_overrides: Annotated[
        bool, typer.Option("--topics-with-overrides", help="Only topics with settings of their own.")
    ] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A topic that is not there is no error.")
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show partitions, settings and columns of topics."""
    client = admin(url, command_config)
    descriptions = []
    for name in selected(client, topics):
        try:
            descriptions.append(client.describe_topic(name))
        except UnknownTopicOrPartitionError:
            if not if_exists:
                raise
    if topic_id is not None:
        descriptions = [description for description in descriptions if description.topic_id == topic_id]
        if not descriptions and not if_exists:
            raise UnknownTopicOrPartitionError(
                f"no topic has the id {topic_id}; `eoslog describe URL` shows the ids"
            )
    for description in descriptions:
        if description.config or not topics_with_overrides:
            print_topic(description, as_json=as_json)


def print_topic(topic: TopicDescription, *, as_json: bool) -> None:
    """All about a topic."""
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
        PARTITIONS,
        [(part.partition, part.start, part.end, part.lso) for part in topic.partitions],
    )
