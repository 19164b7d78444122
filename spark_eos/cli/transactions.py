"""``eoslog transactions``: all that ``kafka-transactions.sh`` can do, under Kafka's column names."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict

from spark_eos.cli.arguments import Commands, add_command, add_noun, commas
from spark_eos.cli.tables import print_json, print_table
from spark_eos.clients.admin import Admin, HangingTransaction, TransactionDescription
from spark_eos.errors import ConfigError
from spark_eos.log.clock import SYSTEM
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

__all__ = ["add_commands"]

_MINUTE_MS = 60_000


def add_commands(commands: Commands) -> None:
    """Add the commands about transactions."""
    verbs = add_noun(commands, "transactions", "list, describe and end transactions")
    _add_looks(verbs)
    abort = add_command(verbs, "abort", _abort, "abort an open transaction; its producer is fenced first")
    abort.add_argument("--transactional-id", metavar="ID")
    abort.add_argument("--topic")
    abort.add_argument("--partition", type=int)
    abort.add_argument(
        "--start-offset", type=int, metavar="OFFSET", help="the transaction's first offset in the partition"
    )
    abort.add_argument("--producer-id", type=int, metavar="N")
    abort.add_argument("--producer-epoch", type=int, metavar="N")
    force = add_command(
        verbs,
        "force-terminate",
        _force_terminate,
        "fence a transactional id and abort what it has open, if anything",
    )
    force.add_argument("--transactional-id", required=True, metavar="ID")


def _add_looks(verbs: Commands) -> None:
    listed = add_command(verbs, "list", _list, "the last transaction of every transactional id")
    listed.add_argument("--duration-filter", type=int, metavar="MS", help="open for longer than that")
    listed.add_argument("--transactional-id-pattern", metavar="REGEX", help="the whole id matches")
    listed.add_argument(
        "--state", type=commas, action="extend", metavar="STATE[,STATE]", help="such as Ongoing; repeatable"
    )
    listed.add_argument(
        "--producer-id", type=_numbers, action="extend", metavar="N[,N]", help="producer ids; repeatable"
    )
    describe = add_command(verbs, "describe", _describe, "the last transaction of a transactional id")
    describe.add_argument("--transactional-id", required=True, metavar="ID")
    producers = add_command(verbs, "describe-producers", _describe_producers, "who wrote to a partition")
    producers.add_argument("--topic", required=True)
    producers.add_argument("--partition", required=True, type=int)
    hanging = add_command(
        verbs, "find-hanging", _find_hanging, "open transactions past their timeout, which have not expired"
    )
    hanging.add_argument("--topic")
    hanging.add_argument("--partition", type=int)
    hanging.add_argument(
        "--max-transaction-timeout",
        type=int,
        default=15,
        metavar="MINUTES",
        help="older than this and than their own timeout (default: 15)",
    )


def _list(chosen: argparse.Namespace) -> None:
    listed = Admin(chosen.url, chosen.settings).list_transactions(
        chosen.state, chosen.producer_id, chosen.duration_filter, chosen.transactional_id_pattern
    )
    if chosen.json:
        for transaction in listed:
            print_json(_as_json(transaction))
        return
    rows = [(each.transactional_id, each.producer_id, each.state) for each in listed]
    print_table(("TransactionalId", "ProducerId", "TransactionState"), rows)


def _describe(chosen: argparse.Namespace) -> None:
    transaction = Admin(chosen.url, chosen.settings).describe_transaction(chosen.transactional_id)
    if chosen.json:
        print_json(_as_json(transaction))
        return
    groups = (
        f"{group}:{_comma_separated(offsets)}" for group, offsets in transaction.pending_offsets.items()
    )
    row = {
        "TransactionalId": transaction.transactional_id,
        "ProducerId": transaction.producer_id,
        "ProducerEpoch": transaction.epoch,
        "TransactionNumber": None if transaction.number < 0 else transaction.number,
        "TransactionState": transaction.state,
        "TransactionTimeoutMs": transaction.timeout_ms,
        "CurrentTransactionStartTimeMs": None if transaction.started_ms < 0 else transaction.started_ms,
        "TransactionDurationMs": transaction.duration_ms(SYSTEM.now_ms()),
        "TopicPartitions": _comma_separated(transaction.partitions),
        "PendingGroupOffsets": " ".join(groups),
    }
    print_table([*row], [[*row.values()]])


def _describe_producers(chosen: argparse.Namespace) -> None:
    producers = Admin(chosen.url, chosen.settings).describe_producers(chosen.topic, chosen.partition)
    if chosen.json:
        for producer in producers:
            print_json({"topic": chosen.topic, "partition": chosen.partition, **asdict(producer)})
        return
    header = ("ProducerId", "ProducerEpoch", "LastSequence", "LastTimestamp", "CurrentTransactionStartOffset")
    rows = [
        (
            producer.producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_timestamp_ms,
            producer.transaction_start,
        )
        for producer in producers
    ]
    print_table(header, rows)


def _find_hanging(chosen: argparse.Namespace) -> None:
    if chosen.max_transaction_timeout < 0:
        raise ConfigError("--max-transaction-timeout must be at least 0 minutes")
    found = Admin(chosen.url, chosen.settings).find_hanging_transactions(
        chosen.topic, chosen.partition, chosen.max_transaction_timeout * _MINUTE_MS
    )
    if chosen.json:
        for hanging in found:
            starts = [{**at._asdict(), "start_offset": start} for at, start in hanging.start_offsets.items()]
            print_json({**asdict(hanging), "start_offsets": starts})
        return
    header = (
        *("Topic", "Partition", "TransactionalId", "ProducerId", "ProducerEpoch"),
        *("StartOffset", "LastTimestamp", "Duration(min)"),
    )
    print_table(header, [row for hanging in found for row in _hanging_rows(hanging)])


def _hanging_rows(hanging: HangingTransaction) -> list[tuple[object, ...]]:
    """A row for each partition that is held back; one without, if only groups wait for the transaction."""
    places: list[tuple[object, ...]] = [(*at, start) for at, start in hanging.start_offsets.items()]
    return [
        (
            *(topic, partition, hanging.transactional_id, hanging.producer_id, hanging.epoch),
            *(start, hanging.last_ms, hanging.duration_ms // _MINUTE_MS),
        )
        for topic, partition, start in places or [(None, None, None)]
    ]


def _abort(chosen: argparse.Namespace) -> None:
    admin = Admin(chosen.url, chosen.settings)
    at_partition = chosen.topic is not None and chosen.partition is not None
    named_there = (
        chosen.topic,
        chosen.partition,
        chosen.start_offset,
        chosen.producer_id,
        chosen.producer_epoch,
    )
    if chosen.transactional_id is not None and all(value is None for value in named_there):
        after = admin.abort_transaction(chosen.transactional_id)
    elif chosen.transactional_id is None and at_partition:
        after = admin.abort_transaction_at(
            TopicPartition(chosen.topic, chosen.partition),
            chosen.start_offset,
            producer_id=chosen.producer_id,
            producer_epoch=chosen.producer_epoch,
        )
    else:
        raise ConfigError(
            "name the transaction by --transactional-id, or by --topic, --partition and --start-offset, or by --topic, "
            "--partition, --producer-id and --producer-epoch"
        )
    _print_done("transaction", after, chosen)


def _force_terminate(chosen: argparse.Namespace) -> None:
    after = Admin(chosen.url, chosen.settings).force_terminate_transaction(chosen.transactional_id)
    _print_done("fenced; last transaction", after, chosen)


def _print_done(what: str, after: TransactionDescription, chosen: argparse.Namespace) -> None:
    if chosen.json:
        print_json(_as_json(after))
        return
    number = "none" if after.number < 0 else f"{after.number} is {after.state}"
    print(
        f"transactional.id {after.transactional_id} (producer {after.producer_id}, now at epoch {after.epoch}): "
        f"{what} {number}"
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


def _numbers(text: str) -> list[int]:
    return [int(part) for part in commas(text)]
