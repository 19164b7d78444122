"""``eoslog topics create``, ``alter`` and ``delete``."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, TopicName, Url, admin, name_value, once
from spark_eos.cli.output import print_json
from spark_eos.cli.parsing import Command
from spark_eos.cli.topics.describe import print_topic
from spark_eos.cli.topics.selection import column, new_column, settings_of, topics_app
from spark_eos.cli.usage.completion import topic_names
from spark_eos.errors import NotALogError, TopicExistsError

__all__ = ["topics_app"]


@topics_app.command("create", cls=Command)
def create(
    url: Url,
    name: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic's name: a-z, A-Z, 0-9, dot, _ and -.")
    ],
    partitions: Annotated[int, typer.Option(metavar="COUNT", min=1, help="The number of partitions.")] = 1,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE...", help="Settings, such as retention.ms=86400000. Repeatable."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="'NAME TYPE'",
            help="A column, such as 'id bigint not null' or 'tags array<string>'; without any, records have key and "
            "value. Repeatable.",
        ),
    ] = None,
    if_not_exists: Annotated[
        bool,
        typer.Option(
            "--if-not-exists", help="A topic that is there already is no error, and stays as it is."
        ),
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Create a topic, and show it. The log is created with its first topic."""
    import pyarrow as pa

    client = admin(url, command_config)
    fields = [new_column(text, "--column") for text in columns or ()]
    settings = once((name_value(text, "--config") for text in config or ()), "--config")
    try:
        client.create_topic(name, partitions, settings or None, pa.schema(fields) if fields else None)
    except TopicExistsError:
        if not if_not_exists:
            raise
    print_topic(client.describe_topic(name), as_json=as_json)


@topics_app.command("alter", cls=Command)
def alter(
    url: Url,
    name: TopicName,
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
    client.alter_topic(
        name,
        partitions,
        settings_of(config, "--config") or None,
        add_columns=once((column(text, "--add-column") for text in add_column or ()), "--add-column"),
        rename_columns=once(
            (name_value(text, "--rename-column") for text in rename_column or ()), "--rename-column"
        ),
        drop_columns=drop_column or (),
        widen_columns=once((column(text, "--widen-column") for text in widen_column or ()), "--widen-column"),
    )
    print_topic(client.describe_topic(name), as_json=as_json)


@topics_app.command("delete", cls=Command)
def delete(
    url: Url,
    names: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", help="Names of topics.", autocompletion=topic_names)
    ],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A topic that is not there is no error.")
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Delete topics, all of them or none, with their records and the offsets that groups have there.

    A topic with a publication is refused. A transaction that is open in the topic goes on without it. `eoslog vacuum`
    deletes the files.
    """
    client = admin(url, command_config)
    try:
        existing = client.list_topics()
    except NotALogError:
        if not if_exists:
            raise
        existing = []
    to_delete = [name for name in dict.fromkeys(names) if name in existing or not if_exists]
    if to_delete:
        client.delete_topics(to_delete)
    for name in to_delete:
        if as_json:
            print_json({"topic": name, "deleted": True})
        else:
            print(f"topic {name} was deleted")
