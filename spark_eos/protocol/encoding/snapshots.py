"""Snapshots: a state as bytes. The same state gives the same bytes, and these give the same state.

What a snapshot has is declared here once: its schema, and what writes and reads it, follow from the shapes. A snapshot
is a cache of the entries that it covers, until they are retired; then it takes their place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, cast

from immutables import Map

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.encoding.avro import (
    BOOLEAN,
    BYTES,
    LONG,
    LONGS,
    STRING,
    array_of,
    columns_of,
    converted,
    keyed_by,
    map_of,
    optional_of,
    parsed,
    record_of,
    versions,
)
from spark_eos.protocol.encoding.frame import Frame
from spark_eos.protocol.encoding.offset_columns import read_runs, runs_of
from spark_eos.protocol.encoding.packed_parts import in_parts
from spark_eos.protocol.encoding.snapshot_partitions import PARTITION_COLUMNS
from spark_eos.protocol.encoding.snapshot_publications import PUBLICATIONS, Publications, numbered, resolved
from spark_eos.protocol.encoding.values import CONFIG, DECIDER, FOLLOWERS, OFFSETS, PARTITIONS, RUNS, SOURCES
from spark_eos.protocol.packed_map import part_of_name, part_of_number
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import (
    AppVersion,
    CommittedOffset,
    DataBefore,
    Decision,
    Event,
    Group,
    Member,
    PartitionKey,
    PreparedTransaction,
    Producer,
    Query,
    State,
    Topic,
    TransactionState,
)
from spark_eos.protocol.types import PartitionOffset

_FRAME = Frame(b"EOSSNP", "snapshot", 1)


def encode_snapshot(state: State) -> bytes:
    """The bytes of the state, without the content of index pages."""
    from fastavro import schemaless_writer

    newest, schema = list(schemas().items())[-1]
    stream = BytesIO()
    schemaless_writer(stream, schema, SNAPSHOT.write(state))
    return _FRAME.wrap(stream.getvalue(), newest)


def decode_snapshot(data: Any, seq: int, where: str) -> State:
    """The state after entry ``seq``. Raises `CorruptRecordError`, `UnsupportedVersionError`."""
    from fastavro import schemaless_reader

    body, schema = _FRAME.unwrap(data, schemas(), where)
    try:
        state: State = SNAPSHOT.read(schemaless_reader(BytesIO(body), schema, None))
    except Exception as error:
        raise CorruptRecordError(f"{where} is no valid snapshot: {error!r}") from error
    if state.seq != seq:
        raise CorruptRecordError(f"{where} is the state after entry {state.seq}, not entry {seq}")
    return replace(
        state,
        producers=state.producers.read_from(where),
        transactional_ids=state.transactional_ids.read_from(where),
    )


def check_parts(state: State) -> None:
    """Read what is still packed (`PackedMap`). Raises `CorruptRecordError` if it is damaged, or does not fit together.

    A process that opens a log reads the parts that it needs; `verify` reads all of them.
    """
    ids, opened = {}, {}
    for number, producer in state.producers.items():
        if producer.transactional_id is not None:
            ids[producer.transactional_id] = number
        if producer.is_open:
            opened[number] = True
    if ids != dict(state.transactional_ids) or opened != dict(state.open_transactions):
        raise CorruptRecordError(
            f"the snapshot after entry {state.seq} has other transactional ids or open transactions than its producers"
        )


@cache
def written() -> dict[int, Any]:
    """Every schema of snapshots, by the version of the format that brought it; the last one is written now."""
    return versions(SNAPSHOT)


@cache
def schemas() -> dict[bytes, Any]:
    """All schemas by their fingerprints, parsed."""
    return parsed(written().values())


# -- Columns --------------------------------------------------------------------------------------------


def _windows(sequences: Mapping[PartitionKey, tuple[int, ...]]) -> dict[str, Any]:
    """`Producer.sequences`: how many numbers each partition has, and all of them."""
    windows = sorted(sequences.items())
    return {
        "runs": runs_of(key for key, _ in windows),
        "counts": [len(window) for _, window in windows],
        "numbers": [*chain.from_iterable(window for _, window in windows)],
    }


def _read_windows(stored: dict[str, Any]) -> Map[PartitionKey, tuple[int, ...]]:
    counts, numbers = stored["counts"], stored["numbers"]
    at, windows = 0, {}
    for key, count in zip(read_runs(stored["runs"], len(counts)), counts, strict=True):
        windows[key] = tuple(numbers[at : at + count])
        at += count
    if at != len(numbers):
        raise CorruptRecordError("sequence numbers that belong to no partition")
    return Map(windows)


def _sorted(keys: Mapping[PartitionKey, bool]) -> Sequence[PartitionKey]:
    return sorted(keys) if keys else ()  # Most of many producers have none.


class GroupOffsets(NamedTuple):
    """What a group has committed, in the order of topics and partitions, when, and in which commits."""

    offsets: tuple[PartitionOffset, ...]
    timestamps: list[int]
    numbers: list[int]


def _group_offsets(committed: Mapping[tuple[str, int], CommittedOffset]) -> GroupOffsets:
    offsets = sorted(committed.items())
    return GroupOffsets(
        tuple([PartitionOffset(key[0], at.topic_id, key[1], at.offset, at.metadata) for key, at in offsets]),
        [at.timestamp_ms for _, at in offsets],
        [at.number for _, at in offsets],
    )


def _read_group_offsets(stored: GroupOffsets) -> Map[tuple[str, int], CommittedOffset]:
    return Map(
        {
            (at.topic, at.partition): CommittedOffset(
                at.topic_id, at.offset, at.metadata, timestamp_ms, number
            )
            for at, timestamp_ms, number in zip(
                stored.offsets, stored.timestamps, stored.numbers, strict=True
            )
        }
    )


class Holder(NamedTuple):
    """The producer that holds a transactional id."""

    producer_id: int


class Share(NamedTuple):
    """The partitions that are assigned to a member."""

    partitions: tuple[PartitionKey, ...]


# -- The state ------------------------------------------------------------------------------------------

_TOPIC = record_of(
    Topic,
    name=STRING,
    topic_id=STRING,
    partitions=LONG,
    config=CONFIG,
    schemas=array_of(BYTES),
)

_OFFSET = record_of(
    CommittedOffset, topic_id=STRING, offset=LONG, metadata=STRING, timestamp_ms=LONG, number=LONG
)

_PREPARED = record_of(
    PreparedTransaction, epoch=LONG, committed=optional_of(BOOLEAN), decider=optional_of(DECIDER)
)

_DECISION = record_of(
    Decision,
    epoch=LONG,
    number=LONG,
    history=BYTES,
    followers=FOLLOWERS,
    waiting=array_of(STRING),
    committed=optional_of(BOOLEAN),
)

_PRODUCER = record_of(
    Producer,
    producer_id=LONG,
    epoch=LONG,
    transactional_id=optional_of(STRING),
    timeout_ms=LONG,
    number=LONG,
    transaction=converted(STRING, attrgetter("value"), TransactionState),
    started_ms=LONG,
    last_ms=LONG,
    touched=converted(PARTITIONS, _sorted, lambda keys: Map(dict.fromkeys(keys, True))),
    pending=map_of(_OFFSET, group="string", topic="string", partition="long"),
    sequences=converted(
        columns_of("Windows", runs=RUNS, counts=LONGS, numbers=LONGS), _windows, _read_windows
    ),
    runs=array_of(STRING),
    started_seq=LONG,
    prepared=optional_of(_PREPARED),
    decision=optional_of(_DECISION),
)

_MEMBER = record_of(
    Member,
    member_id=STRING,
    topics=array_of(STRING),
    assignors=array_of(STRING),
    session_timeout_ms=LONG,
    instance_id=optional_of(STRING),
    client_id=STRING,
    generation=LONG,
    held=PARTITIONS,
    joined_ms=LONG,
)

_ASSIGNMENT = map_of(
    converted(record_of(Share, partitions=PARTITIONS), Share, lambda share: share.partitions),
    member_id="string",
)

_GROUP = record_of(
    Group,
    generation=LONG,
    assignor=STRING,
    members=keyed_by("member_id", _MEMBER),
    assignment=_ASSIGNMENT,
    empty_since_ms=LONG,
)

_QUERY = record_of(Query, query_id=STRING, batch_id=LONG, sources=SOURCES, former=SOURCES, stateful=BOOLEAN)

_EVENT = record_of(
    Event,
    entry=LONG,
    timestamp_ms=LONG,
    writer=STRING,
    what=STRING,
    name=STRING,
    text=STRING,
    times=LONG,
    first_ms=LONG,
)

_STATE = record_of(
    State,
    seq=LONG,
    rules=LONG,
    lineage=BYTES,
    lineages=BYTES,
    log_id=STRING,
    timestamp_ms=LONG,
    time_resets=LONG,
    next_producer_id=LONG,
    staging_floor=LONG,
    snapshot_interval=LONG,
    entries_per_folder=LONG,
    config=CONFIG,
    topics=keyed_by("name", _TOPIC),
    partitions=PARTITION_COLUMNS,
    producers=in_parts("Producers", part_of_number, keyed_by("producer_id", _PRODUCER)),
    transactional_ids=in_parts(
        "TransactionalIds",
        part_of_name,
        map_of(
            converted(record_of(Holder, producer_id=LONG), Holder, lambda holder: holder.producer_id),
            name="string",
        ),
    ),
    open_transactions=converted(LONGS, sorted, lambda ids: Map(dict.fromkeys(ids, True))),
    offsets=map_of(
        converted(
            record_of(GroupOffsets, offsets=OFFSETS, timestamps=LONGS, numbers=LONGS),
            _group_offsets,
            _read_group_offsets,
        ),
        group="string",
    ),
    offset_commits=LONG,
    groups=map_of(_GROUP, name="string"),
    queries=map_of(_QUERY, name="string"),
    app_versions=map_of(
        record_of(AppVersion, version=LONG, timestamp_ms=LONG), app_id="string", topic_id="string"
    ),
    publications=PUBLICATIONS,
    publication_floor=LONG,
    encrypted_at=LONG,
    encryption_key_id=STRING,
    data_url=STRING,
    data_placed_at=LONG,
    data_before=optional_of(record_of(DataBefore, url=STRING, begun_ms=LONG, copied_at=LONG)),
    trail=array_of(_EVENT),
)
"""All of the state."""


def _stored(state: State) -> State:
    return replace(state, publications=numbered(state.publications, state.partitions))


def _whole(state: State) -> State:
    return replace(state, publications=resolved(cast("Publications", state.publications), state.partitions))


SNAPSHOT = converted(_STATE, _stored, _whole)
