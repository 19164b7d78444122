"""A state as bytes: the same state gives the same bytes, and they give the same state.

A snapshot is a cache of the entries it covers, until they are retired; then it stands for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from itertools import chain
from typing import Any

from immutables import Map

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.actions import PartitionOffset, SourceProgress
from spark_eos.protocol.frame import Frame
from spark_eos.protocol.index import Index, Rows
from spark_eos.protocol.pieces import read_pieces, read_rows
from spark_eos.protocol.snapshot_partitions import partition_columns, read_partitions
from spark_eos.protocol.snapshot_schema import schemas
from spark_eos.protocol.state import (
    CommittedOffset,
    Group,
    Member,
    Partition,
    PartitionKey,
    Producer,
    Query,
    State,
    Topic,
    TransactionState,
)

__all__ = ["decode_snapshot", "encode_snapshot"]

_FRAME = Frame(b"EOSSNP", "snapshot", 1)


def encode_snapshot(state: State) -> bytes:
    """The bytes of the state; the content of pieces is not in them."""
    from fastavro import schemaless_writer

    newest, schema = list(schemas().items())[-1]
    stream = BytesIO()
    schemaless_writer(stream, schema, _state(state))
    return _FRAME.wrap(stream.getvalue(), newest)


def decode_snapshot(data: Any, seq: int, where: str) -> State:
    """The state behind entry ``seq``. Raises `CorruptRecordError`, `UnsupportedVersionError`."""
    from fastavro import schemaless_reader

    body, schema = _FRAME.unwrap(data, schemas(), where)
    try:
        fields: Any = schemaless_reader(BytesIO(body), schema, None)
        state = _read_state(fields)
    except Exception as error:
        raise CorruptRecordError(f"{where} is no valid snapshot: {error!r}") from error
    if state.seq != seq:
        raise CorruptRecordError(f"{where} is the state behind entry {state.seq}, not entry {seq}")
    return state


# -- Values to Avro -------------------------------------------------------------------------------------


def _state(state: State) -> dict[str, Any]:
    plain = (
        "seq",
        "log_id",
        "timestamp_ms",
        "next_producer_id",
        "staging_floor",
        "rules",
        "lineage",
        "lineages",
        "time_resets",
    )
    return {
        **{name: getattr(state, name) for name in (*plain, "snapshot_interval", "entries_per_folder")},
        "topics": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partitions": topic.partitions,
                "config": _pairs(topic.config),
                "schemas": list(topic.schemas),
            }
            for _, topic in sorted(state.topics.items())
        ],
        "config": _pairs(state.config),
        "partitions": partition_columns(state.partitions),
        "producers": [_producer(state.producers[number]) for number in sorted(state.producers)],
        "offsets": [
            {
                "group": group,
                "offsets": [_offset(topic, number, at) for (topic, number), at in sorted(offsets.items())],
            }
            for group, offsets in sorted(state.offsets.items())
        ],
        "groups": [_group(name, state.groups[name]) for name in sorted(state.groups)],
        "queries": [
            {
                "name": name,
                "query_id": query.query_id,
                "batch_id": query.batch_id,
                "sources": [_source(source) for source in query.sources],
                "former": [_source(source) for source in query.former],
                "stateful": query.stateful,
            }
            for name, query in sorted(state.queries.items())
        ],
    }


def _pairs(config: Map[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in sorted(config.items())]


def _keys(keys: Iterable[PartitionKey]) -> list[dict[str, Any]]:
    return [{"topic_id": topic_id, "partition": number} for topic_id, number in keys]


def _offset(topic: str, number: int, at: CommittedOffset) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": number,
        "topic_id": at.topic_id,
        "offset": at.offset,
        "metadata": at.metadata,
        "timestamp_ms": at.timestamp_ms,
    }


def _producer(producer: Producer) -> dict[str, Any]:
    plain = (
        "producer_id",
        "epoch",
        "transactional_id",
        "timeout_ms",
        "number",
        "started_ms",
        "last_ms",
        "started_seq",
    )
    return {
        **{name: getattr(producer, name) for name in plain},
        "transaction": producer.transaction.value,
        "touched": _keys(sorted(producer.touched)),
        "pending": [
            {"group": group, "offset": _offset(topic, number, at)}
            for (group, topic, number), at in sorted(producer.pending.items())
        ],
        "sequences": [
            {
                "key": {"topic_id": key[0], "partition": key[1]},
                "ranges": [list(one) for one in producer.window(key)],
            }
            for key in sorted(producer.sequences)
        ],
        "runs": list(producer.runs),
    }


def _group(name: str, group: Group) -> dict[str, Any]:
    return {
        "name": name,
        "generation": group.generation,
        "assignor": group.assignor,
        "members": [
            {
                "member_id": member.member_id,
                "topics": list(member.topics),
                "assignors": list(member.assignors),
                "session_timeout_ms": member.session_timeout_ms,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "generation": member.generation,
                "held": _keys(member.held),
            }
            for _, member in sorted(group.members.items())
        ],
        "assignment": [
            {"member_id": member_id, "partitions": _keys(share)}
            for member_id, share in sorted(group.assignment.items())
        ],
        "empty_since_ms": group.empty_since_ms,
    }


def _source(source: SourceProgress) -> dict[str, Any]:
    return {
        "start": source.start,
        "end": source.end,
        "group": source.group,
        "start_offsets": [at._asdict() for at in source.start_offsets],
        "end_offsets": [at._asdict() for at in source.end_offsets],
        "name": source.name,
    }


# -- Avro to values -------------------------------------------------------------------------------------


def _read_state(fields: dict[str, Any]) -> State:
    producers = {one["producer_id"]: _read_producer(one, fields["seq"]) for one in fields.pop("producers")}
    partitions = fields.pop("partitions")
    fields.setdefault("rules", 1)  # Up to schema 3 there were no others.
    topics = [
        Topic(
            one["name"],
            one["topic_id"],
            one["partitions"],
            _read_pairs(one["config"]),
            tuple(one["schemas"]),
        )
        for one in fields.pop("topics")
    ]
    return State(
        topics=Map({topic.name: topic for topic in topics}),
        config=_read_pairs(fields.pop("config")),
        partitions=Map(
            read_partitions(partitions)
            if isinstance(partitions, dict)
            else {_read_key(one["key"]): _read_partition(one) for one in partitions}  # Up to schema 3.
        ),
        producers=Map(producers),
        transactional_ids=Map(
            {
                one.transactional_id: one.producer_id
                for one in producers.values()
                if one.transactional_id is not None
            }
        ),
        open_transactions=Map(
            {
                one.producer_id: True
                for one in producers.values()
                if one.transaction is TransactionState.ONGOING
            }
        ),
        offsets=Map({one["group"]: Map(map(_read_offset, one["offsets"])) for one in fields.pop("offsets")}),
        groups=Map({one["name"]: _read_group(one) for one in fields.pop("groups")}),
        queries=Map({one["name"]: _read_query(one) for one in fields.pop("queries")}),
        **fields,
    )


def _read_pairs(pairs: list[dict[str, str]]) -> Map[str, str]:
    return Map({pair["name"]: pair["value"] for pair in pairs})


def _read_key(key: dict[str, Any]) -> PartitionKey:
    return key["topic_id"], key["partition"]


def _read_partition(fields: dict[str, Any]) -> Partition:
    key = _read_key(fields["key"])
    return Partition(
        fields["start"],
        fields["end"],
        Index(
            tuple(read_pieces(key, fields["pieces"])),
            Rows(list(read_rows(key[1], fields["tail"]))),
        ),
        Map(dict(fields["open"])),
        Map(dict.fromkeys(map(tuple, fields["aborted"]), True)),
    )


def _read_offset(fields: dict[str, Any]) -> tuple[tuple[str, int], CommittedOffset]:
    at = CommittedOffset(fields["topic_id"], fields["offset"], fields["metadata"], fields["timestamp_ms"])
    return (fields["topic"], fields["partition"]), at


def _read_producer(fields: dict[str, Any], seq: int) -> Producer:
    pending = {}
    transaction = TransactionState(fields["transaction"])
    if transaction is TransactionState.ONGOING:
        fields.setdefault("started_seq", seq)  # Schema 1 does not say where it began: here at the latest.
    for one in fields["pending"]:
        (topic, number), at = _read_offset(one["offset"])
        pending[one["group"], topic, number] = at
    return Producer(
        **{
            **fields,
            "transaction": transaction,
            "touched": Map((_read_key(key), True) for key in fields["touched"]),
            "pending": Map(pending),
            "sequences": Map(
                (_read_key(one["key"]), tuple(chain.from_iterable(one["ranges"])))
                for one in fields["sequences"]
            ),
            "runs": tuple(fields["runs"]),
        }
    )


def _read_group(fields: dict[str, Any]) -> Group:
    members = {}
    for one in fields["members"]:
        members[one["member_id"]] = Member(
            **{
                **one,
                "topics": tuple(one["topics"]),
                "assignors": tuple(one["assignors"]),
                "held": tuple(map(_read_key, one["held"])),
            }
        )
    return Group(
        fields["generation"],
        fields["assignor"],
        Map(members),
        Map({one["member_id"]: tuple(map(_read_key, one["partitions"])) for one in fields["assignment"]}),
        fields["empty_since_ms"],
    )


def _read_query(fields: dict[str, Any]) -> Query:
    return Query(
        fields["query_id"],
        fields["batch_id"],
        tuple(map(_read_source, fields["sources"])),
        tuple(map(_read_source, fields.get("former", ()))),
        fields.get("stateful"),
    )


def _read_source(fields: dict[str, Any]) -> SourceProgress:
    start, end = (
        tuple(PartitionOffset(**at) for at in fields[name]) for name in ("start_offsets", "end_offsets")
    )
    return SourceProgress(fields["start"], fields["end"], fields["group"], start, end, fields.get("name"))
