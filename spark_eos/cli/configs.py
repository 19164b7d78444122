"""``eoslog configs``, ``clock`` and ``expire``: settings of a log, its time, and what expires by them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.options import (
    ConfigFile,
    Json,
    Url,
    admin,
    at_most_one,
    commas,
    name_value,
    properties_file,
)
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command
from spark_eos.cli.usage.columns import SETTINGS
from spark_eos.cli.usage.completion import topic_names
from spark_eos.config.log import LOG
from spark_eos.config.option import Table
from spark_eos.config.reference import in_force
from spark_eos.config.topic import TOPIC

if TYPE_CHECKING:
    from spark_eos.clients.admin import Admin

app = typer.Typer()


class EntityType(str, Enum):
    """What has settings. Those of Kafka's brokers are settings of the log here."""

    TOPICS = "topics"
    LOG = "log"
    BROKERS = "brokers"


@app.command("configs", cls=Command)
def configs(
    url: Url,
    entity_type: Annotated[
        EntityType | None,
        typer.Option(
            metavar="TYPE",
            help="What has the settings: topics, or log (which brokers stands for, too). Default: log.",
        ),
    ] = None,
    entity_name: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help="With --entity-type topics: the topic (default: all topics).",
            autocompletion=topic_names,
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help="The same as --entity-type topics --entity-name.",
            autocompletion=topic_names,
        ),
    ] = None,
    describe: Annotated[bool, typer.Option("--describe", help="Show the settings (default).")] = False,
    alter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=VALUE]...",
            help="Change settings. NAME= takes one back to its default. Without a value it is Kafka's word before "
            "--add-config and --delete-config. Repeatable.",
        ),
    ] = None,
    add_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE[,NAME=VALUE]", help="Set these. A value with commas: [a,b]. Repeatable."
        ),
    ] = None,
    add_config_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Set those of a file: NAME=VALUE on each line.")
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[,NAME]", help="Take these back to their defaults. Repeatable."),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the settings of the log or of topics, or change them all at once."""
    at_most_one({"--topic": topic, "--entity-type": entity_type})
    at_most_one({"--topic": topic, "--entity-name": entity_name})
    changes = _changes(alter, add_config, add_config_file, delete_config)
    at_most_one({"--describe": describe, "--alter": changes or None})
    client = admin(url, command_config)
    if entity_type is EntityType.TOPICS or topic is not None:
        _configs_of_topics(client, topic or entity_name, changes, as_json=as_json)
        return
    if entity_name is not None:
        raise typer.BadParameter("it needs --entity-type topics", param_hint="'--entity-name'")
    if changes:
        client.alter_log(changes)
    log = client.describe_log()
    if as_json:
        print_json(asdict(log))
        return
    _print_settings(LOG, log.config)


def _configs_of_topics(
    client: Admin, name: str | None, changes: dict[str, str | None], *, as_json: bool
) -> None:
    if changes:
        if name is None:
            raise typer.BadParameter("name the topic whose settings change", param_hint="'--entity-name'")
        client.alter_topic(name, config=changes)
    for topic_name in client.list_topics() if name is None else [name]:
        topic = client.describe_topic(topic_name)
        if as_json:
            print_json({"topic": topic.name, "config": topic.config})
        else:
            if name is None:
                print(f"topic {topic.name}")
            _print_settings(TOPIC, topic.config)


def _print_settings(table: Table, stored: Mapping[str, str]) -> None:
    print_table(SETTINGS, [row[:3] for row in in_force(table, stored)])


def _changes(
    alter: list[str] | None, add: list[str] | None, file: str | None, delete: list[str] | None
) -> dict[str, str | None]:
    """The new value of each setting; None takes it back to its default. No setting may be named twice."""
    settings: list[tuple[str, str | None, str]] = [
        *((*_setting(text, "--alter"), "--alter") for text in alter or ()),
        *(
            (name, value, "--add-config-file")
            for name, value in properties_file(file, "--add-config-file").items()
        ),
        *((*_setting(part, "--add-config"), "--add-config") for text in add or () for part in _parts(text)),
        *((name.strip(), None, "--delete-config") for name in commas(delete) or ()),
    ]
    changes: dict[str, str | None] = {}
    for name, value, option in settings:
        if name in changes and option in {"--delete-config", "--alter"}:
            raise typer.BadParameter(f"setting {name} is named twice", param_hint=f"'{option}'")
        changes[name] = value
    return changes


def _parts(text: str) -> list[str]:
    """``a=1,b=[2,3]`` in its parts; brackets keep commas together, and go."""
    parts = re.findall(r"[^=,]+=\[[^\]]*\](?=,|$)|[^,]+", text)
    return [re.sub(r"=\[(.*)\]$", r"=\1", part.strip()) for part in parts]


def _setting(text: str, option: str) -> tuple[str, str | None]:
    """``name=value``; an empty value takes the setting back to its default."""
    name, value = name_value(text, option)
    return name, value or None


@app.command("clock", cls=Command)
def clock(
    url: Url,
    mend: Annotated[
        bool,
        typer.Option(
            "--mend", help="Set the log's time back to the store's, if a wrong clock has driven it ahead."
        ),
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Compare the clocks of the log, the store and this machine."""
    from spark_eos.log.time_travel import iso
    from spark_eos.monitoring.troubles.of_state import CLOCK_MS
    from spark_eos.monitoring.troubles.trouble import age

    client = admin(url, command_config)
    clocks = client.mend_clock() if mend else client.describe_clock()
    if as_json:
        print_json(asdict(clocks))
        return
    for name, time_ms in (("log", clocks.log_ms), ("store", clocks.store_ms), ("machine", clocks.machine_ms)):
        print(f"{name:<8} {'cannot tell' if time_ms is None else iso(time_ms)}")
    if clocks.store_ms is not None and abs(clocks.machine_ms - clocks.store_ms) > CLOCK_MS:
        apart_ms = clocks.machine_ms - clocks.store_ms
        print(
            f"this machine's clock is wrong: it is {age(abs(apart_ms))} {'ahead of' if apart_ms > 0 else 'behind'} the "
            "store's: set it"
        )
    if clocks.is_ahead:
        print("a wrong clock has driven the log's time ahead: `eoslog clock --mend` sets it back")


@app.command("expire", cls=Command)
def expire(
    url: Url,
    trust_clock: Annotated[
        bool,
        typer.Option(
            "--trust-clock", help="Believe the store's clock also if the log was not written to for days."
        ),
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Abort overdue transactions, delete unused ids and offsets.

    Clients that stay open do the same once an hour. The settings of the log say how long ids and offsets are kept.
    """
    expired = admin(url, command_config).expire(trust_clock=trust_clock)
    if as_json:
        offsets = {
            group: [at._asdict() for at in partitions] for group, partitions in expired.offsets.items()
        }
        print_json({**asdict(expired), "offsets": offsets})
        return
    lines = [
        *(f"aborted the open transaction of producer {producer}" for producer in expired.transactions),
        *(f"forgot the sequence numbers of producer {producer}" for producer in expired.producers),
        *(f"forgot transactional.id {transactional_id}" for transactional_id in expired.transactional_ids),
        *(
            f"forgot offsets of group {group}: {', '.join(map(str, partitions)) or 'none were left, the group is gone'}"
            for group, partitions in expired.offsets.items()
        ),
    ]
    print("\n".join(lines) or "nothing is past its time")
