"""``eoslog mirror``: from Kafka into a log, and where its records are."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.maintain import Stop, seconds, stoppable, until_stopped
from spark_eos.cli.options import ConfigFile, Json, Url, commas, name_value, properties_file, store_settings
from spark_eos.cli.output import print_json, print_table, printable
from spark_eos.cli.parsing import Command, Commands
from spark_eos.errors import ConfigError, InvalidRequestError
from spark_eos.errors.counting import counted
from spark_eos.extensions.mirror.cli.usage import MIRRORED

if TYPE_CHECKING:
    from spark_eos.extensions.mirror.mirroring import Mirrored
    from spark_eos.extensions.mirror.out.mirroring import MirroredOut
    from spark_eos.extensions.mirror.runs import Place

app = typer.Typer(name="mirror", cls=Commands, help="Mirror topics between Kafka and a log, exactly once.")

Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The mirror's name.")]
Brokers = Annotated[
    str,
    typer.Option("--bootstrap-server", metavar="HOST:PORT[,HOST:PORT]", help="Brokers of the Kafka cluster."),
]
KafkaConfig = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="File with settings of the Kafka client (librdkafka's names): NAME=VALUE on each line.",
    ),
]
NoConfigs = Annotated[bool, typer.Option("--no-configs", help="Do not copy the settings of topics.")]
LookupPartition = Annotated[
    int | None, typer.Option(metavar="N", help="With --kafka or --log: the partition.")
]
_NUMBERS = re.compile(r"[0-9]{1,6}(-[0-9]{1,6})?")


@app.command("in", cls=Command)
def mirror_in(
    url: Url,
    name: Name,
    bootstrap_server: Brokers,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC[,TOPIC]", help="Topics of Kafka. Repeatable.")
    ] = None,
    topic_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Topics of Kafka that match, also those that are created later."),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC=NAME", help="The log's topic has another name. Repeatable."),
    ] = None,
    partitions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC:0,2-5",
            help="Mirror these partitions, and let no group share them out. Repeatable.",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Translate the offsets of groups that match, and commit them in the log."
        ),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Add to topics that have other records already.")
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Go on though Kafka has deleted records that were not mirrored."),
    ] = False,
    no_configs: NoConfigs = False,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there is mirrored.")] = False,
    interval: Annotated[
        float,
        seconds("Records wait for so long at most until they are committed together (default: 1)."),
    ] = 1.0,
    batch_bytes: Annotated[
        int, typer.Option(metavar="BYTES", min=1, help="They wait no longer if they take as much.")
    ] = 32 << 20,
    refresh: Annotated[
        float,
        seconds(
            "How often new topics, partitions, settings and offsets of groups are looked for (default: 30)."
        ),
    ] = 30.0,
    kafka_config: KafkaConfig = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Mirror topics of a Kafka cluster into a log, until it is stopped (--once: until all is there).

    Kafka's offsets are committed in the entry of the records, so it may be killed at any moment and be started again.
    Several processes with one --name share the partitions.
    """
    from spark_eos.extensions.mirror.kafka_source import GROUP_PREFIX, KafkaSource
    from spark_eos.extensions.mirror.mirroring import Mirror
    from spark_eos.extensions.mirror.options import MirrorOptions
    from spark_eos.log.log import Log

    options = MirrorOptions(
        name=name,
        topics=tuple(commas(topic) or ()),
        pattern=topic_pattern,
        renamed=dict(name_value(text, "--rename") for text in rename or ()),
        partitions=None if partitions is None else _by_topic(partitions),
        groups=groups,
        copies_settings=not no_configs,
        may_append=append,
        accept_loss=accept_loss,
        interval_s=interval,
        batch_bytes=batch_bytes,
        refresh_s=refresh,
    )
    options.check()
    settings = {**properties_file(kafka_config, "--kafka-config"), "bootstrap.servers": bootstrap_server}
    source = KafkaSource(settings, f"{GROUP_PREFIX}{name}", refresh_s=refresh, tell=tell)
    log = Log.open_or_create(url, settings=store_settings(command_config))
    with stoppable() as stop:
        summary = Mirror(log, source, options, tell).run(lambda: stop.signal is not None, once=once)
        entries = counted(summary.batches, "entry", "entries")
        print_end(
            summary, f"mirrored {counted(summary.records, 'record')} in {entries}", stop, as_json=as_json
        )
    if summary.left_out:
        raise InvalidRequestError(
            f"{counted(len(summary.left_out), 'topic')} of Kafka cannot be mirrored, for the reasons above: "
            f"{', '.join(summary.left_out)}. All others are"
        )


@app.command("offsets", cls=Command)
def offsets(
    url: Url,
    name: Name,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Only this topic, by its name in Kafka or in the log.")
    ] = None,
    partition: LookupPartition = None,
    kafka: Annotated[
        int | None, typer.Option(metavar="OFFSET", help="Look up where this record of Kafka is in the log.")
    ] = None,
    log_offset: Annotated[
        int | None,
        typer.Option("--log", metavar="OFFSET", help="Look up where this record of the log was in Kafka."),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List how far a mirror is, or look an offset up: of Kafka in the log (--kafka), or of the log in Kafka (--log)."""
    from spark_eos.cli.options import open_log
    from spark_eos.extensions.mirror.offset_map import mirror_offsets, not_mirrored, opened_map

    opened = open_log(url, command_config)
    if kafka is None and log_offset is None:
        mirrored = mirror_offsets(opened, name)
        positions = [position for position in mirrored if topic in {None, position.source, position.target}]
        if not positions:
            raise not_mirrored(opened.state, name, topic if mirrored else None)
        if as_json:
            for position in positions:
                print_json(position._asdict())
            return
        print_table(
            MIRRORED, [(*position[:5], "yes" if position.is_same else "no") for position in positions]
        )
        return
    at = lookup_place(topic, partition, kafka, log_offset)
    offset_map = opened_map(opened, name, *at)
    place = offset_map.to_log(kafka) if kafka is not None else offset_map.to_kafka(log_offset or 0)
    print_place(place, at, kafka, log_offset, "is mirrored", as_json=as_json)


def lookup_place(
    topic: str | None, partition: int | None, kafka: int | None, log_offset: int | None
) -> tuple[str, int]:
    """The topic and the partition in which an offset is looked up."""
    if topic is None or partition is None or (kafka is not None and log_offset is not None):
        raise ConfigError("to look an offset up, give --topic, --partition, and one of --kafka and --log")
    return topic, partition


def print_place(
    place: Place | None,
    at: tuple[str, int],
    kafka: int | None,
    log_offset: int | None,
    end: str,
    *,
    as_json: bool,
) -> None:
    """Print where an offset is on the other side; ``end`` says what ends before one that is nowhere."""
    if place is None:
        offset = log_offset if kafka is None else kafka
        raise ConfigError(f"offset {offset} of {at[0]}-{at[1]} lies after what {end}")
    if as_json:
        print_json(place._asdict())
        return
    side = "the log" if kafka is not None else "Kafka"
    print(f"{place.offset}" if place.exact else f"{place.offset} (the next mirrored record in {side})")


def print_end(summary: Mirrored | MirroredOut, text: str, stop: Stop, *, as_json: bool) -> None:
    """Print what a mirror has done; then end as the signal says that has stopped it."""
    if as_json:
        print_json(summary._asdict())
    else:
        print(text)
    if stop.signal is not None:
        until_stopped(stop)


def _by_topic(texts: list[str]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for text in texts:
        topic, numbers = _partitions_of(text)
        by_topic[topic] = sorted({*by_topic.get(topic, ()), *numbers})
    return by_topic


def _partitions_of(text: str) -> tuple[str, list[int]]:
    topic, colon, numbers = text.rpartition(":")
    parts = numbers.split(",")
    if not colon or not all(map(_NUMBERS.fullmatch, parts)):
        raise typer.BadParameter(f"{text!r} is not TOPIC:0,2-5", param_hint="'--partitions'")
    selected: list[int] = []
    for part in parts:
        first, _, last = part.partition("-")
        selected += range(int(first), int(last or first) + 1)
    return topic, selected


def tell(text: str) -> None:
    """Print what is worth knowing."""
    print(f"eoslog mirror: {printable(text)}", file=sys.stderr, flush=True)
