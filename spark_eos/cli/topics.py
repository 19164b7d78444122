"""``eoslog topics`` and ``eoslog describe``: topics are listed, described and altered."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, admin
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command, ListedCommands

if TYPE_CHECKING:
    from spark_eos.clients.admin import TopicDescription

__all__ = ["app", "named"]

app = typer.Typer()
named = typer.Typer(name="topics", cls=ListedCommands, help="List the topics, or alter one.")

_COLUMN = re.compile(r"((?:`(?:[^`]|``)+`|[^`\s])+)\s+(\S.*)", re.DOTALL)


@named.command("list", cls=Command)
def list_topics(url: Url, command_config: ConfigFile = None, as_json: Json = False) -> None:
    """List the topics. The word `list` can be left out."""
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
    _print(admin(url, command_config).describe_topic(name), as_json=as_json)


@named.command("alter", cls=Command)
def alter(
    url: Url,
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    partitions: Annotated[
        int | None, typer.Option(metavar="COUNT", help="The new number of partitions, not less than now.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE...",
            help="Change settings. NAME= takes one back to its default. Repeatable.",
        ),
    ] = None,
    add_column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME TYPE'", help="Add a column, such as 'note string' or 'shop.zip int'. Repeatable."
        ),
    ] = None,
    rename_column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NEW", help="Give a column another name. Repeatable."),
    ] = None,
    drop_column: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Drop a column. Repeatable.")
    ] = None,
    widen_column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME TYPE'", help="Give a column a wider type, such as 'id bigint'. Repeatable."
        ),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Change partitions, settings and columns of a topic, all at once, and show it.

    All names of columns are those before the change.
    """
    client = admin(url, command_config)
    settings = dict(_pair(text, "--config") for text in config or ())
    client.alter_topic(
        name,
        partitions,
        {key: value or None for key, value in settings.items()} if settings else None,
        add_columns=dict(_column(text, "--add-column") for text in add_column or ()),
        rename_columns=dict(_pair(text, "--rename-column") for text in rename_column or ()),
        drop_columns=drop_column or (),
        widen_columns=dict(_column(text, "--widen-column") for text in widen_column or ()),
    )
    _print(client.describe_topic(name), as_json=as_json)


def _pair(text: str, option: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=f"'{option}'")
    return name, value


def _column(text: str, option: str) -> tuple[str, str]:
    found = _COLUMN.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is not NAME TYPE, such as 'note string'", param_hint=f"'{option}'"
        )
    return found[1], found[2]


def _print(topic: TopicDescription, *, as_json: bool) -> None:
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
