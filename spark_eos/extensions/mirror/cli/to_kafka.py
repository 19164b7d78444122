"""``eoslog mirror out`` and ``eoslog mirror sent``: from a log to Kafka, and where its records are there."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_eos.cli.maintain import seconds, stoppable
from spark_eos.cli.options import ConfigFile, Json, Url, commas, name_value, properties_file, store_settings
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command
from spark_eos.errors import ConfigError
from spark_eos.errors.counting import counted
from spark_eos.extensions.mirror.cli.commands import (
    Brokers,
    KafkaConfig,
    LookupPartition,
    Name,
    NoConfigs,
    app,
    lookup_place,
    print_end,
    print_place,
    tell,
)
from spark_eos.extensions.mirror.cli.usage import SENT

__all__ = ["app"]


@app.command("out", cls=Command)
def mirror_out(
    url: Url,
    name: Name,
    bootstrap_server: Brokers,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC[,TOPIC]", help="Topics of the log. Repeatable.")
    ] = None,
    topic_pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Topics of the log that match, also those that are created later."
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC=NAME", help="Kafka's topic has another name. Repeatable."),
    ] = None,
    reverse: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="End the mirror into the log with this name, and send to its topics of Kafka what did not come from "
            "there.",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Translate the offsets of groups that match, and commit them in Kafka."
        ),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Add to topics of Kafka that have other records already.")
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Go on though the log has deleted records that were not sent."),
    ] = False,
    no_configs: NoConfigs = False,
    replication_factor: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Of topics that are created in Kafka (else: the broker's)."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there is sent.")] = False,
    interval: Annotated[
        float,
        seconds("Records wait for so long at most until they are sent together (default: 1)."),
    ] = 1.0,
    batch_records: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Small transactions are sent together up to so many records."),
    ] = 50_000,
    transaction_records: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="A transaction of the log with more records becomes several ones of Kafka.",
        ),
    ] = 1_000_000,
    refresh: Annotated[
        float,
        seconds("How often settings are copied and offsets of groups translated (default: 30)."),
    ] = 30.0,
    kafka_config: KafkaConfig = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Mirror topics of a log to a Kafka cluster, until it is stopped (--once: until all is there).

    The log's transactions become Kafka's, with the position inside, so it may be killed at any moment and be started
    again. One process works under a --name; a second one fences the first.
    """
    from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
    from spark_eos.extensions.mirror.out.mirroring import MirrorOut
    from spark_eos.extensions.mirror.out.options import OutOptions
    from spark_eos.log.log import Log

    options = OutOptions(
        name=name,
        topics=tuple(commas(topic) or ()),
        pattern=topic_pattern,
        renamed=dict(name_value(text, "--rename") for text in rename or ()),
        reverses=reverse,
        groups=groups,
        copies_settings=not no_configs,
        replication=-1 if replication_factor is None else replication_factor,
        may_append=append,
        accept_loss=accept_loss,
        interval_s=interval,
        batch_records=batch_records,
        limit_records=transaction_records,
        refresh_s=refresh,
    )
    options.check()
    log = Log.open(url, settings=store_settings(command_config))
    settings = {**properties_file(kafka_config, "--kafka-config"), "bootstrap.servers": bootstrap_server}
    target = KafkaTarget(settings, name, refresh_s=refresh, tell=tell)
    with stoppable() as stop:
        summary = MirrorOut(log, target, options, tell).run(lambda: stop.signal is not None, once=once)
        torn = f", {summary.torn} of the log's torn" if summary.torn else ""
        transactions = f"{counted(summary.transactions, 'transaction')}{torn}"
        print_end(
            summary, f"sent {counted(summary.records, 'record')} in {transactions}", stop, as_json=as_json
        )


@app.command("sent", cls=Command)
def sent(
    url: Url,
    name: Name,
    bootstrap_server: Brokers,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Only this topic, by its name in the log or in Kafka.")
    ] = None,
    partition: LookupPartition = None,
    kafka: Annotated[
        int | None, typer.Option(metavar="OFFSET", help="Look up where this record of Kafka was in the log.")
    ] = None,
    log_offset: Annotated[
        int | None,
        typer.Option("--log", metavar="OFFSET", help="Look up where this record of the log is in Kafka."),
    ] = None,
    kafka_config: KafkaConfig = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List how far a mirror to Kafka is, or look an offset up: of the log in Kafka (--log), or of Kafka (--kafka)."""
    from spark_eos.cli.options import open_log
    from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
    from spark_eos.extensions.mirror.out.out_map import OutMap, read_positions, sent_offsets

    opened = open_log(url, command_config)
    settings = {**properties_file(kafka_config, "--kafka-config"), "bootstrap.servers": bootstrap_server}
    target = KafkaTarget(settings, name, refresh_s=30.0, tell=tell)
    try:
        rows = [
            row
            for row in sent_offsets(opened.follow(), read_positions(target, opened, name))
            if topic in {None, row.topic, row.kafka}
        ]
        if kafka is None and log_offset is None:
            if as_json:
                for row in rows:
                    print_json(row._asdict())
                return
            print_table(SENT, [tuple(row) for row in rows])
            return
        at = lookup_place(topic, partition, kafka, log_offset)
        matches = [row for row in rows if row.partition == partition]
        if len(matches) != 1:
            raise ConfigError(
                f"mirror out {name!r} has no partition {partition} of {topic!r}, or several: look at them"
            )
        row = matches[0]
        offsets = OutMap(target, name, row.kafka, at[1], (row.kafka_end, row.offset))
        place = offsets.to_log(kafka) if kafka is not None else offsets.to_kafka(log_offset or 0)
    finally:
        target.close()
    print_place(place, at, kafka, log_offset, "was sent", as_json=as_json)
