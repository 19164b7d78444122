"""``eoslog mirror wait``, ``group``, ``checkpoint`` and ``check``: clients move from Kafka to the log, one by one."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from spark_eos.cli.maintain import seconds
from spark_eos.cli.options import ConfigFile, Json, Url, commas, open_log, properties_file, store_settings
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command
from spark_eos.cli.usage.added import Added
from spark_eos.errors import ConfigError
from spark_eos.errors.counting import counted
from spark_eos.extensions.mirror.cli.commands import Brokers, KafkaConfig, Name, tell
from spark_eos.extensions.mirror.cli.to_kafka import app
from spark_eos.extensions.mirror.cli.usage import EXAMPLES, MIRRORED, MOVED, SENT

_Timeout = Annotated[
    float,
    seconds("Wait for the mirror so long (default: 60)."),
]
_Back = Annotated[
    bool,
    typer.Option("--back", help="The other way: from the log to Kafka. --name is that of eoslog mirror out."),
]
_AcceptLoss = Annotated[
    bool,
    typer.Option(
        "--accept-loss",
        help="Go on though records that producers of the log have written would never be read.",
    ),
]


@app.command("wait", cls=Command)
def wait(
    url: Url,
    name: Name,
    bootstrap_server: Brokers,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[,TOPIC]", help="Only these topics. Repeatable."),
    ] = None,
    back: _Back = False,
    timeout: _Timeout = 60.0,
    kafka_config: KafkaConfig = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Wait until all that Kafka has now is in the log; with --back, that all the log has is in Kafka.

    Then a producer that has stopped on the one side may start on the other: its records stay in their order.
    """
    from spark_eos.extensions.mirror.moving import checks, return_to_kafka

    log = open_log(url, command_config)
    topics = commas(topic) or ()
    if back:
        target = _target(name, bootstrap_server, kafka_config)
        partitions = return_to_kafka.wait_until_sent(log, target, name, topics, timeout)
    else:
        partitions = checks.wait(log, _kafka(name, bootstrap_server, kafka_config), name, topics, timeout)
    if as_json:
        print_json({"partitions": partitions})
    else:
        sides = "the log had is in Kafka" if back else "Kafka had is in the log"
        print(f"all that {sides}: {counted(partitions, 'partition')}")


@app.command("group", cls=Command)
def group(
    url: Url,
    name: Name,
    bootstrap_server: Brokers,
    group_id: Annotated[str, typer.Option("--group", metavar="GROUP", help="The group's id.")],
    accept_loss: _AcceptLoss = False,
    back: _Back = False,
    timeout: _Timeout = 60.0,
    kafka_config: KafkaConfig = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Move a consumer group: commit in the log where it stands in Kafka, or with --back the other way round.

    Its consumers on the old side have to be stopped before, and start on the other one after it.
    """
    from spark_eos.extensions.mirror.moving.group import move_group
    from spark_eos.extensions.mirror.moving.return_to_kafka import move_group_back

    log = open_log(url, command_config)
    from_, to = ("TOPIC", "LOG-OFFSET"), ("KAFKA-TOPIC", "KAFKA-OFFSET")
    rows: list[tuple[object, ...]]
    if back:
        target = _target(name, bootstrap_server, kafka_config)
        returned = move_group_back(log, target, name, group_id, timeout_s=timeout, accept_loss=accept_loss)
        rows = [(group_id, *move) for move in returned]
    else:
        kafka = _kafka(name, bootstrap_server, kafka_config)
        moved = move_group(log, kafka, name, group_id, timeout_s=timeout, accept_loss=accept_loss)
        rows = [
            (
                group_id,
                translation.topic,
                translation.partition,
                translation.offset,
                translation.place.topic,
                translation.committed,
            )
            for translation in moved
            if translation.place is not None
        ]
        from_, to = to, from_
    columns = MOVED.only("GROUP", from_[0], "PARTITION", from_[1], *to)
    if as_json:
        for row in rows:
            print_json(
                {
                    label.lower().replace("-", "_"): value
                    for label, value in zip(columns.names, row, strict=True)
                }
            )
    else:
        print_table(columns, rows)


@app.command("checkpoint", cls=Command)
def checkpoint(
    url: Url,
    name: Name,
    location: Annotated[
        str,
        typer.Option("--checkpoint", metavar="FOLDER", help="The checkpointLocation of the query on Kafka."),
    ],
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Which source of the query, if it has several: its name or number."
        ),
    ] = None,
    unfinished: Annotated[
        str | None,
        typer.Option(
            metavar="redo|skip",
            help="The last micro-batch was begun and is not done: go on before it, or after it.",
        ),
    ] = None,
    without_state: Annotated[
        bool, typer.Option("--without-state", help="Go on though the query's state does not move.")
    ] = False,
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="The newest micro-batch, if the checkpoint is not in a folder of this machine.",
        ),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server", metavar="HOST:PORT[,HOST:PORT]", help="With --back: brokers of Kafka."
        ),
    ] = None,
    accept_loss: _AcceptLoss = False,
    back: _Back = False,
    timeout: _Timeout = 60.0,
    kafka_config: KafkaConfig = None,
    command_config: ConfigFile = None,
) -> None:
    """Print where a Spark query on Kafka goes on in the log: its startingOffsets, as JSON.

    With --back: where one on the log goes on in Kafka.
    """
    from spark_eos.extensions.mirror.moving.checkpoint import log_offsets, stands_at, starting_offsets
    from spark_eos.extensions.mirror.moving.return_to_kafka import start_in_kafka
    from spark_eos.extensions.mirror.moving.spark_files import SparkFiles

    if unfinished not in {None, "redo", "skip"}:
        raise typer.BadParameter(f"{unfinished!r} is not redo or skip", param_hint="'--unfinished'")
    choice: Any = unfinished or "refuse"
    log = open_log(url, command_config)
    files = SparkFiles(location, store_settings(command_config))
    job = stands_at(
        files,
        log_offsets(log) if back else None,
        source=source,
        batch=batch,
        unfinished=choice,
        without_state=without_state,
    )
    if back:
        if bootstrap_server is None:
            raise ConfigError("--back asks Kafka where the records are: give --bootstrap-server")
        target = _target(name, bootstrap_server, kafka_config)
        starts = start_in_kafka(log, target, name, job.offsets, timeout_s=timeout, accept_loss=accept_loss)
    else:
        starts = starting_offsets(log, name, job, timeout_s=timeout, accept_loss=accept_loss)
    print(json.dumps(starts))


@app.command("check", cls=Command)
def check(
    url: Url,
    name: Name,
    bootstrap_server: Brokers,
    before: Annotated[
        str,
        typer.Option(
            metavar="producers|end",
            help="What comes next. producers: no group reads the old side any more. end: and all that it has is on the "
            "other one.",
        ),
    ],
    ignore_groups: Annotated[
        str, typer.Option(metavar="REGEX", help="These groups do not move.", show_default=False)
    ] = "",
    back: _Back = False,
    kafka_config: KafkaConfig = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Fail unless the next step of a migration is safe: producers move, or the mirror ends."""
    from spark_eos.extensions.mirror.moving import checks, return_to_kafka

    if before not in {"producers", "end"}:
        raise typer.BadParameter(f"{before!r} is not producers or end", param_hint="'--before'")
    log = open_log(url, command_config)
    old_side, new_side = ("the log", "Kafka") if back else ("Kafka", "the log")
    way: Any = return_to_kafka if back else checks
    kafka = (_target if back else _kafka)(name, bootstrap_server, kafka_config)
    problems = way.groups_left(log, kafka, name, ignore_groups)
    if before == "producers":
        checks.refuse(
            problems, f"producers must not move yet: these groups would not see what they write in {new_side}"
        )
        _print_result(
            {"before": before, "safe": True},
            f"no group reads {old_side}: producers may move",
            as_json=as_json,
        )
        return
    problems += way.records_left(log, kafka, name)
    checks.refuse(problems, "the mirror must not end yet")
    unsealed = [*way.unsealed(log, kafka, name)]
    for topic in unsealed:
        tell(f"topic {topic} of {old_side} takes records: one that a forgotten producer writes stays there")
    text = f"all that {old_side} has is in {new_side}, and no group reads {old_side}: the mirror may end"
    _print_result({"before": before, "safe": True, "takes_records": unsealed}, text, as_json=as_json)


def _print_result(values: dict[str, object], text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(values)
    else:
        print(text)


def _kafka(name: str, bootstrap_server: str, kafka_config: str | None) -> Any:
    from spark_eos.extensions.mirror.kafka_source import GROUP_PREFIX
    from spark_eos.extensions.mirror.moving.kafka_state import KafkaState

    settings = {**properties_file(kafka_config, "--kafka-config"), "bootstrap.servers": bootstrap_server}
    return KafkaState(settings, f"{GROUP_PREFIX}{name}", refresh_s=30.0, tell=tell)


def _target(name: str, bootstrap_server: str, kafka_config: str | None) -> Any:
    from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget

    settings = {**properties_file(kafka_config, "--kafka-config"), "bootstrap.servers": bootstrap_server}
    return KafkaTarget(settings, name, refresh_s=30.0, tell=tell)


ADDED = Added(app, EXAMPLES, (MIRRORED, SENT, MOVED))
