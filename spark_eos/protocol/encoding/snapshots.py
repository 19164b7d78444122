"""Snapshots: a state as bytes. The same state gives the same bytes, and these give the same state.

A snapshot is a cache of the entries that it covers, until they are retired; then it takes their place.
"""

from __future__ import annotations

from io import BytesIO
from itertools import chain
from typing import Any

from immutables import Map

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.actions import PartitionOffset
from spark_eos.protocol.encoding.frame import Frame
from spark_eos.protocol.encoding.offset_columns import (
    offset_columns,
    read_offsets,
    read_runs,
    read_source,
    runs_of,
    source_columns,
)
from spark_eos.protocol.encoding.snapshot_decisions import (
    read_decision,
    read_prepared,
    write_decision,
    write_prepared,
)
from spark_eos.protocol.encoding.snapshot_partitions import partition_columns, read_partitions
from spark_eos.protocol.encoding.snapshot_publications import publication_columns, read_publications
from spark_eos.protocol.encoding.snapshot_schema import schemas
from spark_eos.protocol.state import (
    AppVersion,
    CommittedOffset,
    DataBefore,
    Group,
    Member,
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
    """The bytes of the state, without the content of index pages."""
    from fastavro import schemaless_writer

    newest, schema = list(schemas().items())[-1]
    stream = BytesIO()
    schemaless_writer(stream, schema, _state(state))
    return _FRAME.wrap(stream.getvalue(), newest)


def decode_snapshot(data: Any, seq: int, where: str) -> State:
    """The state after entry ``seq``. Raises `CorruptRecordError`, `UnsupportedVersionError`."""
    from fastavro import schemaless_reader

    body, schema = _FRAME.unwrap(data, schemas(), where)
    try:
        fields: Any = schemaless_reader(BytesIO(body), schema, None)
        state = _read_state(fields)
    except Exception as error:
        raise CorruptRecordError(f"{where} is no valid snapshot: {error!r}") from error
    if state.seq != seq:
        raise CorruptRecordError(f"{where} is the state after entry {state.seq}, not entry {seq}")
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
        "publication_floor",
        "encrypted_at",
        "encryption_key_id",
        "data_url",
        "data_placed_at",
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
        "offsets": [_group_offsets(group, offsets) for group, offsets in sorted(state.offsets.items())],
        "groups": [_group(name, state.groups[name]) for name in sorted(state.groups)],
        "queries": [
            {
                "name": name,
                "query_id": query.query_id,
                "batch_id": query.batch_id,
                "sources": [*map(source_columns, query.sources)],
                "former": [*map(source_columns, query.former)],
                "stateful": query.stateful,
            }
            for name, query in sorted(state.queries.items())
        ],
        "app_versions": [
            {"app_id": app_id, "topic_id": topic_id, **known._asdict()}
            for (app_id, topic_id), known in sorted(state.app_versions.items())
        ],
        "publications": publication_columns(state.publications, state.partitions),
        "data_before": None if state.data_before is None else state.data_before._asdict(),
    }


def _group_offsets(group: str, offsets: Map[tuple[str, int], CommittedOffset]) -> dict[str, Any]:
    found = [
        (PartitionOffset(topic, at.topic_id, number, at.offset, at.metadata), at.timestamp_ms)
        for (topic, number), at in sorted(offsets.items())
    ]
    return {
        "group": group,
        "offsets": offset_columns([at for at, _ in found]),
        "timestamps": [timestamp_ms for _, timestamp_ms in found],
    }


def _pairs(config: Map[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in sorted(config.items())]


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
        "touched": runs_of(sorted(producer.touched)),
        "pending": [
            {"group": group, "offset": _offset(topic, number, at)}
            for (group, topic, number), at in sorted(producer.pending.items())
        ],
        "sequences": _windows(producer),
        "runs": list(producer.runs),
        "prepared": None if producer.prepared is None else write_prepared(producer.prepared),
        "decision": None if producer.decision is None else write_decision(producer.decision),
    }


def _windows(producer: Producer) -> dict[str, Any]:
    windows = sorted(producer.sequences.items())
    return {
        "runs": runs_of(key for key, _ in windows),
        "counts": [len(window) for _, window in windows],
        "numbers": [*chain.from_iterable(window for _, window in windows)],
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
                "held": runs_of(member.held),
            }
            for _, member in sorted(group.members.items())
        ],
        "assignment": [
            {"member_id": member_id, "partitions": runs_of(share)}
            for member_id, share in sorted(group.assignment.items())
        ],
        "empty_since_ms": group.empty_since_ms,
    }


# -- Avro to values -------------------------------------------------------------------------------------


def _read_state(fields: dict[str, Any]) -> State:
    producers = {one["producer_id"]: _read_producer(one) for one in fields.pop("producers")}
    partitions = read_partitions(fields.pop("partitions"))
    before = fields.pop("data_before")
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
        partitions=Map(partitions),
        publications=Map(read_publications(fields.pop("publications"), partitions)),
        producers=Map(producers),
        transactional_ids=Map(
            {
                one.transactional_id: one.producer_id
                for one in producers.values()
                if one.transactional_id is not None
            }
        ),
        open_transactions=Map({one.producer_id: True for one in producers.values() if one.is_open}),
        offsets=Map({one["group"]: _read_group_offsets(one) for one in fields.pop("offsets")}),
        groups=Map({one["name"]: _read_group(one) for one in fields.pop("groups")}),
        queries=Map({one["name"]: _read_query(one) for one in fields.pop("queries")}),
        app_versions=Map(
            {
                (one["app_id"], one["topic_id"]): AppVersion(one["version"], one["timestamp_ms"])
                for one in fields.pop("app_versions")
            }
        ),
        data_before=None if before is None else DataBefore(**before),
        **fields,
    )


def _read_pairs(pairs: list[dict[str, str]]) -> Map[str, str]:
    return Map({pair["name"]: pair["value"] for pair in pairs})


def _read_group_offsets(fields: dict[str, Any]) -> Map[tuple[str, int], CommittedOffset]:
    offsets = fields["offsets"]
    return Map(
        {
            (at.topic, at.partition): CommittedOffset(at.topic_id, at.offset, at.metadata, timestamp_ms)
            for at, timestamp_ms in zip(read_offsets(offsets), fields["timestamps"], strict=True)
        }
    )


def _read_windows(fields: dict[str, Any]) -> Map[PartitionKey, tuple[int, ...]]:
    numbers, at, windows = fields["numbers"], 0, {}
    for key, count in zip(read_runs(fields["runs"], len(fields["counts"])), fields["counts"], strict=True):
        windows[key] = tuple(numbers[at : at + count])
        at += count
    if at != len(numbers):
        raise CorruptRecordError("sequence numbers that belong to no partition")
    return Map(windows)


def _read_offset(fields: dict[str, Any]) -> tuple[tuple[str, int], CommittedOffset]:
    at = CommittedOffset(fields["topic_id"], fields["offset"], fields["metadata"], fields["timestamp_ms"])
    return (fields["topic"], fields["partition"]), at


def _read_producer(fields: dict[str, Any]) -> Producer:
    pending = {}
    prepared, decision = fields["prepared"], fields["decision"]
    for one in fields["pending"]:
        (topic, number), at = _read_offset(one["offset"])
        pending[one["group"], topic, number] = at
    return Producer(
        **{
            **fields,
            "transaction": TransactionState(fields["transaction"]),
            "touched": Map((key, True) for key in read_runs(fields["touched"])),
            "pending": Map(pending),
            "sequences": _read_windows(fields["sequences"]),
            "runs": tuple(fields["runs"]),
            "prepared": None if prepared is None else read_prepared(prepared),
            "decision": None if decision is None else read_decision(decision),
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
                "held": tuple(read_runs(one["held"])),
            }
        )
    return Group(
        fields["generation"],
        fields["assignor"],
        Map(members),
        Map({one["member_id"]: tuple(read_runs(one["partitions"])) for one in fields["assignment"]}),
        fields["empty_since_ms"],
    )


def _read_query(fields: dict[str, Any]) -> Query:
    return Query(
        fields["query_id"],
        fields["batch_id"],
        tuple(map(read_source, fields["sources"])),
        tuple(map(read_source, fields["former"])),
        fields["stateful"],
    )
