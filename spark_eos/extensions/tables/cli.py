"""``eoslog tables``: topics as tables of open formats, published, listed and dropped."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.maintain import seconds, sleep, stoppable, teller
from spark_eos.cli.options import ConfigFile, Json, Url, commas, name_value, once, store_settings
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command, Commands
from spark_eos.cli.progress import Progress
from spark_eos.cli.usage.added import Added
from spark_eos.cli.usage.columns import TOPIC
from spark_eos.cli.usage.table import Columns
from spark_eos.errors import ConfigError, RetriableError

if TYPE_CHECKING:
    from spark_eos.extensions.tables.publisher import Published
    from spark_eos.extensions.tables.tables import Tables

TABLES_OF_TOPICS = Columns(
    "tables list",
    {
        "PUBLICATION": "The name of the publication.",
        **TOPIC,
        "FORMAT": "delta or iceberg.",
        "MODE": "shared (the tables have the log's own files) or copied.",
        "VERSION": "The newest version of the table.",
        "SEQUENCE": "The number of the publication's version that it belongs to.",
        "ENTRY": "The log's entry that it stands for.",
        "LOCATION": "Where the table is.",
    },
)
VERSIONS = Columns(
    "tables versions",
    {
        **TOPIC,
        "VERSION": "The version of the table.",
        "SEQUENCE": TABLES_OF_TOPICS.meanings["SEQUENCE"],
        "ENTRY": TABLES_OF_TOPICS.meanings["ENTRY"],
        "TIME": "When it was published, in UTC.",
        "OFFSETS": "The offset after the last record in it, for each partition.",
    },
)

app = typer.Typer(name="tables", cls=Commands, help="Publish topics as Delta or Iceberg tables.")

_Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The publication's name.")]


@app.command("create", cls=Command)
def create(
    url: Url,
    name: _Name,
    topic: Annotated[
        list[str],
        typer.Option(metavar="TOPIC[,TOPIC]", help="Topics that are published together. Repeatable."),
    ],
    format: Annotated[  # noqa: A002  (Spark calls it that)
        str, typer.Option(metavar="FORMAT", help="The format of the tables: delta or iceberg.")
    ] = "delta",
    mode: Annotated[
        str,
        typer.Option(metavar="MODE", help="Whose files the tables have: shared (the log's own) or copied."),
    ] = "shared",
    location: Annotated[
        str | None,
        typer.Option(metavar="URL", help="With --mode copied: the tables are below this folder or URL."),
    ] = None,
    retention_ms: Annotated[
        int | None,
        typer.Option(
            metavar="MS", help="How long files stay that only earlier versions have (default: 7 days)."
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Another setting of the publication. Repeatable."),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Make a publication: topics whose tables stand for the same entries. Nothing is published yet."""
    settings = once((name_value(text, "--config") for text in config or ()), "--config")
    topics = commas(topic) or []
    _tables(url, command_config).create(
        name, topics, format, mode=mode, location=location, retention_ms=retention_ms, config=settings
    )
    if as_json:
        print_json({"publication": name, "format": format, "mode": mode, "topics": topics})
        return
    print(
        f"publication {name} of {', '.join(topics)}: publish it by eoslog tables publish, or eoslog maintain"
    )


@app.command("publish", cls=Command)
def publish(
    url: Url,
    name: _Name,
    every: Annotated[
        float | None,
        seconds("Publish every so many seconds, until it is stopped."),
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the tables from nothing: their histories begin again.")
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Make the tables of a publication stand for the newest entry of the log.

    It may be stopped or killed at any moment: the next run finishes what was begun. With --every, it tells of an error
    that may pass, and tries again in its turn.
    """
    tables = _tables(url, command_config)
    publisher = None
    with stoppable() as stop, Progress() as progress:
        while True:
            try:
                publisher = publisher or tables.publisher(name, tell=teller(stop, progress))
                result = publisher.publish(rebuild=rebuild)
            except RetriableError as error:
                if every is None:
                    raise
                progress.clear()
                print(f"eoslog: {error} [{error.code}]", file=sys.stderr)
                publisher = None
            else:
                progress.clear()
                if result.is_new or every is None:
                    _print_published(result, as_json=as_json)
                if every is None:
                    return
                rebuild = False
            sleep(every, stop, progress)


@app.command("list", cls=Command)
def list_tables(url: Url, command_config: ConfigFile = None, as_json: Json = False) -> None:
    """List the tables of all publications."""
    tables = _tables(url, command_config).list_tables()
    if as_json:
        for table in tables:
            print_json(table._asdict())
        return
    rows = [
        (
            table.publication,
            table.topic,
            table.format,
            table.mode,
            table.version,
            table.sequence,
            table.entry,
            table.location,
        )
        for table in tables
    ]
    print_table(TABLES_OF_TOPICS, rows)


@app.command("versions", cls=Command)
def versions(
    url: Url,
    name: _Name,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only this topic.")] = None,
    entry: Annotated[
        int | None,
        typer.Option(metavar="N", help="Only the version for this log entry, or the newest before it."),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the versions of the tables, and the log entry that each stands for."""
    from spark_eos.log.time_travel import iso

    tables = _tables(url, command_config)
    if entry is not None:
        if topic is None:
            raise ConfigError("--entry needs --topic")
        table_versions = [tables.version_at(name, topic, entry)]
    else:
        table_versions = tables.versions(name, topic)
    if as_json:
        for version in table_versions:
            print_json(version._asdict())
        return
    rows = [
        (
            version.topic,
            version.version,
            version.sequence,
            version.entry,
            iso(version.timestamp_ms),
            json.dumps(version.offsets, separators=(",", ":")),
        )
        for version in table_versions
    ]
    print_table(VERSIONS, rows)


@app.command("drop", cls=Command)
def drop(url: Url, name: _Name, command_config: ConfigFile = None, as_json: Json = False) -> None:
    """Drop a publication. Tables over the log's files are removed, those with copies stay as they are."""
    _tables(url, command_config).drop(name)
    if as_json:
        print_json({"publication": name, "dropped": True})
    else:
        print(f"publication {name} is dropped")


def _tables(url: str, config_file: str | None) -> Tables:
    from spark_eos.extensions.tables.tables import Tables

    return Tables(url, store_settings(config_file))


def _print_published(result: Published, *, as_json: bool) -> None:
    from spark_eos.log.time_travel import iso

    if as_json:
        print_json(result._asdict())
        return
    versions = ", ".join(f"{topic} {version}" for topic, version in result.versions.items())
    status = "published" if result.is_new else "up to date"
    print(
        f"{status}: version {result.sequence} of {result.publication}, entry {result.entry} of "
        f"{iso(result.timestamp_ms)} ({versions})"
    )


ADDED = Added(
    app,
    {
        "tables create": ("eoslog tables create LOG --name shop --topic prices --format delta",),
        "tables publish": ("eoslog tables publish LOG --name daily",),
        "tables list": ("eoslog tables list LOG",),
        "tables versions": ("eoslog tables versions LOG --name daily",),
        "tables drop": ("eoslog tables drop LOG --name daily",),
    },
    (TABLES_OF_TOPICS, VERSIONS),
)
