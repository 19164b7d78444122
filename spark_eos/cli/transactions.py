"""``eoslog transactions``: all that ``kafka-transactions.sh`` can do, under Kafka's column names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, admin, commas
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command, Commands
from spark_eos.cli.usage.columns import HANGING, PRODUCERS, RESOLVED, TRANSACTION, TRANSACTIONS
from spark_eos.errors import ConfigError
from spark_eos.log.clock import SYSTEM
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from spark_eos.clients.admin import HangingTransaction, TransactionDescription

app = typer.Typer(name="transactions", cls=Commands, help="List, describe and end transactions.")

_MINUTE_MS = 60_000

_TransactionalId = Annotated[str, typer.Option(metavar="ID", help="The producers' transactional.id.")]
_Topic = Annotated[str | None, typer.Option(metavar="TOPIC", help="The topic's name.")]
_Partition = Annotated[int | None, typer.Option(metavar="PARTITION", help="The partition's number.")]


@app.command("list", cls=Command)
def list_transactions(
    url: Url,
    duration_filter: Annotated[
        int | None, typer.Option(metavar="MS", help="Only transactions that are open for longer than this.")
    ] = None,
    transactional_id_pattern: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only ids that match as a whole.")
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE[,STATE]", help="Only these states, such as Ongoing. Repeatable."),
    ] = None,
    producer_id: Annotated[
        list[str] | None, typer.Option(metavar="N[,N]", help="Only these producer ids. Repeatable.")
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the last transaction of every transactional id."""
    transactions = admin(url, command_config).list_transactions(
        commas(state), _numbers(producer_id), duration_filter, transactional_id_pattern
    )
    if as_json:
        for transaction in transactions:
            print_json(_as_json(transaction))
        return
    rows = [(each.transactional_id, str(each.producer_id), each.state) for each in transactions]
    print_table(TRANSACTIONS, rows)


def _numbers(texts: list[str] | None) -> list[int] | None:
    parts = commas(texts)
    try:
        return None if parts is None else [int(part) for part in parts]
    except ValueError:
        raise typer.BadParameter(
            f"{','.join(parts or ())!r} is not N or N,N", param_hint="'--producer-id'"
        ) from None


@app.command("describe", cls=Command)
def describe(
    url: Url,
    transactional_id: _TransactionalId,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the last transaction of a transactional id."""
    transaction = admin(url, command_config).describe_transaction(transactional_id)
    if as_json:
        print_json(_as_json(transaction))
        return
    groups = (
        f"{group}:{_comma_separated(offsets)}" for group, offsets in transaction.pending_offsets.items()
    )
    row = {
        "TransactionalId": transaction.transactional_id,
        "ProducerId": str(transaction.producer_id),
        "ProducerEpoch": transaction.epoch,
        "TransactionNumber": None if transaction.number < 0 else transaction.number,
        "TransactionState": transaction.state,
        "TransactionTimeoutMs": transaction.timeout_ms,
        "CurrentTransactionStartTimeMs": None if transaction.started_ms < 0 else str(transaction.started_ms),
        "TransactionDurationMs": transaction.duration_ms(SYSTEM.now_ms()),
        "TopicPartitions": _comma_separated(transaction.partitions),
        "PendingGroupOffsets": " ".join(groups),
    }
    if transaction.prepared:
        row["PreparedTxnState"] = transaction.prepared
    if transaction.decided_by:
        row["DecidedBy"] = transaction.decided_by
    if transaction.awaited_logs:
        row["AwaitedLogs"] = " ".join(transaction.awaited_logs)
    print_table(TRANSACTION.only(*row), [[*row.values()]])


@app.command("describe-producers", cls=Command)
def describe_producers(
    url: Url,
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="The topic's name.")],
    partition: Annotated[int, typer.Option(metavar="PARTITION", help="The partition's number.")],
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the known producers that wrote to a partition."""
    producers = admin(url, command_config).describe_producers(topic, partition)
    if as_json:
        for producer in producers:
            print_json({"topic": topic, "partition": partition, **asdict(producer)})
        return
    rows = [
        (
            str(producer.producer_id),
            producer.epoch,
            producer.last_sequence,
            str(producer.last_timestamp_ms),
            producer.transaction_start,
        )
        for producer in producers
    ]
    print_table(PRODUCERS, rows)


@app.command("find-hanging", cls=Command)
def find_hanging(
    url: Url,
    topic: _Topic = None,
    partition: _Partition = None,
    max_transaction_timeout: Annotated[
        int,
        typer.Option(metavar="MINUTES", help="Only transactions older than this and than their own timeout."),
    ] = 15,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List open transactions that are past their timeout."""
    if max_transaction_timeout < 0:
        raise ConfigError("--max-transaction-timeout must be at least 0 minutes")
    overdue = admin(url, command_config).find_hanging_transactions(
        topic, partition, max_transaction_timeout * _MINUTE_MS
    )
    if as_json:
        for hanging in overdue:
            starts = [{**at._asdict(), "start_offset": start} for at, start in hanging.start_offsets.items()]
            print_json({**asdict(hanging), "start_offsets": starts})
        return
    print_table(HANGING, [row for hanging in overdue for row in _hanging_rows(hanging)])


def _hanging_rows(hanging: HangingTransaction) -> list[tuple[object, ...]]:
    """A row for each partition that is held back; one without, if only groups wait for the transaction."""
    places: list[tuple[object, ...]] = [(*at, start) for at, start in hanging.start_offsets.items()]
    return [
        (
            *(topic, partition, hanging.transactional_id, str(hanging.producer_id), hanging.epoch),
            *(start, str(hanging.last_ms), hanging.duration_ms // _MINUTE_MS),
        )
        for topic, partition, start in places or [(None, None, None)]
    ]


@app.command("abort", cls=Command)
def abort(
    url: Url,
    transactional_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The producers' transactional.id.")
    ] = None,
    topic: _Topic = None,
    partition: _Partition = None,
    start_offset: Annotated[
        int | None,
        typer.Option(metavar="OFFSET", help="The transaction's first offset in the partition."),
    ] = None,
    producer_id: Annotated[int | None, typer.Option(metavar="N", help="The producer's id.")] = None,
    producer_epoch: Annotated[int | None, typer.Option(metavar="N", help="The producer's epoch.")] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Fence a producer, and abort its open transaction.

    Name the transaction by --transactional-id, or by --topic, --partition and --start-offset, or by --topic,
    --partition, --producer-id and --producer-epoch.
    """
    client = admin(url, command_config)
    named_there = (topic, partition, start_offset, producer_id, producer_epoch)
    if transactional_id is not None and all(value is None for value in named_there):
        after = client.abort_transaction(transactional_id)
    elif transactional_id is None and topic is not None and partition is not None:
        after = client.abort_transaction_at(
            TopicPartition(topic, partition),
            start_offset,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
    else:
        raise ConfigError(
            "name the transaction by --transactional-id, or by --topic, --partition and --start-offset, or by --topic, "
            "--partition, --producer-id and --producer-epoch"
        )
    _print_done("transaction", after, as_json=as_json)


@app.command("force-terminate", cls=Command)
def force_terminate(
    url: Url,
    transactional_id: _TransactionalId,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Fence a transactional id, and abort what it has open."""
    after = admin(url, command_config).force_terminate_transaction(transactional_id)
    _print_done("fenced; last transaction", after, as_json=as_json)


@app.command("resolve", cls=Command)
def resolve(
    url: Url,
    decider: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the deciding log is, if it has moved. Never a copy."),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """End prepared transactions that another log has decided, and show why others wait.

    Readers of the log do the same by themselves.
    """
    waiting = admin(url, command_config).resolve_transactions(decider)
    if as_json:
        for transactional_id, why in waiting.items():
            print_json({"transactional_id": transactional_id, "waiting_for": why})
        return
    print_table(RESOLVED, [*waiting.items()])


def _print_done(prefix: str, after: TransactionDescription, *, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(after))
        return
    number = "none" if after.number < 0 else f"{after.number} is {after.state}"
    print(
        f"transactional.id {after.transactional_id} (producer {after.producer_id}, now at epoch {after.epoch}): "
        f"{prefix} {number}"
    )


def _as_json(transaction: TransactionDescription) -> dict[str, object]:
    return {
        **asdict(transaction),
        "duration_ms": transaction.duration_ms(SYSTEM.now_ms()),
        "partitions": [at._asdict() for at in transaction.partitions],
        "pending_offsets": {
            group: [{**at._asdict(), **offset._asdict()} for at, offset in offsets.items()]
            for group, offsets in transaction.pending_offsets.items()
        },
    }


def _comma_separated(partitions: Mapping[TopicPartition, OffsetAndMetadata] | list[TopicPartition]) -> str:
    return ",".join(map(str, partitions))
