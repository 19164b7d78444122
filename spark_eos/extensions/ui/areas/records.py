"""Records of a partition: from an offset, a time, a key or a search on; each call reads a bounded number of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.config.isolation import Isolation
from spark_eos.errors import CorruptRecordError, InvalidRequestError
from spark_eos.extensions.ui.decoding import DECODINGS, Decoder
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question
from spark_eos.log.data.partitioners import key_partitions
from spark_eos.log.data.planner import Fetch, end_offset, partition_of, planned_rows
from spark_eos.log.time_travel import time_ms
from spark_eos.log.topics import key_columns, layout_of
from spark_eos.protocol.state import Partition, Topic
from spark_eos.protocol.types import TopicPartition

__all__ = ["key_partition", "records", "show_record"]

_MOST_BATCHES = 500
_MOST_BYTES = 64 << 20
"""What one call reads at most. A search that has not ended says where to go on."""

_WHOLE = 1 << 20
"""Characters of a value in the view of one record."""

ISOLATIONS = {"committed": Isolation.READ_COMMITTED, "uncommitted": Isolation.READ_UNCOMMITTED}


_MOST_DAMAGED = 10
"""Damaged batches that one answer names."""


class _Budget:
    """What is left of what one call may read, and what could not be read."""

    def __init__(self) -> None:
        self.batches, self.bytes = _MOST_BATCHES, _MOST_BYTES
        self.damaged: list[str] = []

    def spend(self, fetch: Fetch) -> None:
        self.batches -= 1
        self.bytes -= fetch.size

    @property
    def is_spent(self) -> bool:
        return self.batches <= 0 or self.bytes <= 0


class _Wanted(NamedTuple):
    """Which records are looked for: with a text in key, value, headers or columns, or with a key."""

    text: str
    key: str

    @property
    def is_all(self) -> bool:
        return not self.text and not self.key


def records(follower: Follower, question: Question) -> Answer:
    """Records of a partition, oldest first.

    ``from`` says where: ``offset``, ``time``, ``start``, ``end`` (the newest). ``back`` searches towards older ones.
    """
    topic = follower.topic(question.text("topic"))
    at = TopicPartition(topic.name, question.number("partition", 0))
    isolation = ISOLATIONS[question.choice("isolation", tuple(ISOLATIONS))]
    count = question.number("count", 50, least=1, most=200)
    wanted = _Wanted(question.text("search", "", most=1000), question.text("key", "", most=1000))
    backwards = question.flag("back")
    part = partition_of(follower.state, at)
    end = end_offset(part, isolation)
    place = _place(follower, question, at, part, isolation, count, searching=not wanted.is_all)
    decoder = Decoder(topic, question.choice("decode", DECODINGS))
    budget = _Budget()
    if backwards:
        rows, following = _backwards(follower, topic, at, place, isolation, wanted, count, budget)
    else:
        rows, following = _forwards(follower, topic, at, place, isolation, wanted, count, budget)
    return {
        "topic": topic.name,
        "partition": at.partition,
        "start": part.start,
        "end": end,
        "place": place,
        "next": following,
        "done": following >= end if not backwards else following <= part.start,
        "searched": _MOST_BATCHES - budget.batches,
        "problem": decoder.problem,
        "damaged": budget.damaged[:_MOST_DAMAGED],
        "rows": [_shown(topic, decoder, offset, row) for offset, row in rows],
    }


def show_record(follower: Follower, question: Question) -> Answer:
    """One record, with up to a million characters of its value."""
    topic = follower.topic(question.text("topic"))
    at = TopicPartition(topic.name, question.number("partition"))
    isolation = ISOLATIONS[question.choice("isolation", tuple(ISOLATIONS))]
    offset = question.number("offset")
    decoder = Decoder(topic, question.choice("decode", DECODINGS), _WHOLE)
    for fetch in _fetches(follower, at, offset, offset + 1, isolation):
        found = follower.read(topic, fetch)
        if found.num_rows and found.offset(0) == offset:
            return {"row": _shown(topic, decoder, offset, _dicts(topic, found.table.slice(0, 1))[0])}
    raise InvalidRequestError(
        f"{at} has no record at offset {offset}: it may be a control batch, aborted, compacted or deleted"
    )


def key_partition(follower: Follower, question: Question) -> Answer:
    """The partition in which Kafka's default partitioner puts a key that is a text."""
    topic = follower.topic(question.text("topic"))
    key = question.text("key", most=1000)
    if topic.schemas and key_columns(topic) and not _has_text_key(topic):
        raise InvalidRequestError(
            f"the key of topic {topic.name!r} is not one text column: choose a partition"
        )
    found = key_partitions(pa.array([key.encode()], pa.binary()), topic.partitions)
    return {"partition": int(found[0])}


def _has_text_key(topic: Topic) -> bool:
    columns = key_columns(topic)
    type_ = layout_of(topic).physical.field(columns[0]).type
    return len(columns) == 1 and (pa.types.is_string(type_) or pa.types.is_binary(type_))


# -- Where ------------------------------------------------------------------------------------------------


def _place(
    follower: Follower,
    question: Question,
    at: TopicPartition,
    part: Partition,
    isolation: Isolation,
    count: int,
    *,
    searching: bool,
) -> int:
    """The offset to begin at: inside of what is there."""
    end = end_offset(part, isolation)
    whence = question.choice("from", ("end", "start", "offset", "time"))
    if whence == "end":
        return end if question.flag("back") or searching else max(part.start, end - count)
    if whence == "start":
        return part.start
    if whence == "offset":
        return min(max(question.number("offset"), part.start), end)
    text = question.text("time", most=100)
    try:
        wanted = int(text) if text.lstrip("-").isdecimal() else time_ms(text)
    except (ValueError, OverflowError):
        raise InvalidRequestError(f"{text!r} is not a time such as 2026-11-21T16:30:00") from None
    found = follower.log.offset_for_time(at, wanted, isolation)
    return end if found is None else found[0]


def _fetches(
    follower: Follower, at: TopicPartition, start: int, end: int, isolation: Isolation
) -> Iterator[Fetch]:
    log = follower.log
    for row, first, last in planned_rows(log.state, at, start, end, isolation, log.load):
        assert row.file is not None
        assert row.batch is not None
        yield Fetch(at.topic, at.partition, first, last - first, first - row.base_offset, row.file, row.batch)


_Rows = list[tuple[int, dict[str, Any]]]


def _forwards(
    follower: Follower,
    topic: Topic,
    at: TopicPartition,
    start: int,
    isolation: Isolation,
    wanted: _Wanted,
    count: int,
    budget: _Budget,
) -> tuple[_Rows, int]:
    """Up to ``count`` records from ``start`` on, and where the next ones begin."""
    found: _Rows = []
    end = end_offset(partition_of(follower.log.state, at), isolation)
    for fetch in _fetches(follower, at, start, end, isolation):
        if budget.is_spent:
            return found, fetch.offset
        budget.spend(fetch)
        found += _readable(follower, topic, fetch, wanted, count - len(found), budget)
        if len(found) >= count:
            return found, found[-1][0] + 1
    return found, end


def _backwards(
    follower: Follower,
    topic: Topic,
    at: TopicPartition,
    end: int,
    isolation: Isolation,
    wanted: _Wanted,
    count: int,
    budget: _Budget,
) -> tuple[_Rows, int]:
    """The newest ``count`` records before ``end``, and before which offset older ones are."""
    found: _Rows = []
    start = partition_of(follower.log.state, at).start
    window = max(count, 1000)
    while end > start:
        first = max(start, end - window)
        fetches = list(_fetches(follower, at, first, end, isolation))
        for fetch in reversed(fetches):
            if budget.is_spent:
                return found[::-1], fetch.next_offset
            budget.spend(fetch)
            found += reversed(_readable(follower, topic, fetch, wanted, -(count - len(found)), budget))
            if len(found) >= count:
                return found[::-1], found[-1][0]
        end = first
        if len(fetches) < _MOST_BATCHES // 4:
            window *= 2
    return found[::-1], start


def _readable(
    follower: Follower, topic: Topic, fetch: Fetch, wanted: _Wanted, count: int, budget: _Budget
) -> _Rows:
    """As `_matching`; a damaged batch has no records, and is named in ``budget.damaged``."""
    try:
        return _matching(follower, topic, fetch, wanted, count)
    except CorruptRecordError as error:
        budget.damaged.append(str(error))
        return []


def _matching(follower: Follower, topic: Topic, fetch: Fetch, wanted: _Wanted, count: int) -> _Rows:
    """The records of a fetch that are wanted: the first ``count`` of them, or the last, if it is negative."""
    batch = follower.read(topic, fetch)
    if wanted.is_all:
        part = batch.slice(0, count) if count >= 0 else batch.slice(max(batch.num_rows + count, 0))
        return list(zip(part.offsets.tolist(), _dicts(topic, part.table), strict=True))
    found = pc.indices_nonzero(_mask(topic, batch.table, wanted)).to_pylist()
    places = found[:count] if count >= 0 else found[count:]
    rows = _dicts(topic, batch.table.take(pa.array(places, pa.int64())))
    return [(batch.offset(place), row) for place, row in zip(places, rows, strict=True)]


def _dicts(topic: Topic, table: pa.Table) -> list[dict[str, Any]]:
    """The rows, their timestamps in milliseconds; columns of a schema as scalars, since Python has not all values."""
    name = layout_of(topic).timestamp_column
    at = table.schema.get_field_index(name)
    table = table.set_column(at, name, table.column(at).cast(pa.int64()))
    if not topic.schemas:
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows
    times = table.column(at).to_pylist()
    columns = zip(table.column_names, table.columns, strict=True)
    shown = [(column, values) for column, values in columns if column != name]
    return [
        {name: times[row], **{column: values[row] for column, values in shown}} for row in range(len(times))
    ]


def _mask(topic: Topic, table: pa.Table, wanted: _Wanted) -> pa.ChunkedArray:
    """Which rows are wanted. A search looks at stored bytes and at columns as text, without regard to case."""
    found = pa.chunked_array([pa.array([True] * table.num_rows, pa.bool_())])
    if wanted.key:
        columns = key_columns(topic)
        if len(columns) != 1:
            raise InvalidRequestError(
                f"the key of topic {topic.name!r} has {len(columns)} columns: use the search"
            )
        found = pc.and_(
            found, pc.fill_null(pc.equal(_as_bytes(table[columns[0]]), wanted.key.encode()), False)
        )
    if wanted.text:
        pattern = wanted.text.encode()
        hits = pa.chunked_array([pa.array([False] * table.num_rows, pa.bool_())])
        for column in table.columns:
            one = pc.match_substring(_as_bytes(column), pattern, ignore_case=wanted.text.isascii())
            hits = pc.or_(hits, pc.fill_null(one, False))
        found = pc.and_(found, hits)
    return found


def _as_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as something to search in: its bytes, its text, or what its values look like."""
    if pa.types.is_binary(column.type):
        return column
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    if pa.types.is_nested(column.type):
        texts = [_joined(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.binary())])
    return column.cast(pa.string()).cast(pa.binary())


def _joined(value: Any) -> bytes | None:
    """All texts and bytes in a nested value, one after the other."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return b"\0".join(_joined(one) or b"" for one in value.values())
    if isinstance(value, (list, tuple)):
        return b"\0".join(_joined(one) or b"" for one in value)
    return str(value).encode()


# -- Rows -------------------------------------------------------------------------------------------------


def _shown(topic: Topic, decoder: Decoder, offset: int, row: dict[str, Any]) -> Answer:
    shown: Answer = {"offset": offset, "time": row.pop(layout_of(topic).timestamp_column)}
    if topic.schemas:
        return {**shown, "key": None, "value": decoder.columns(row), "headers": []}
    return {
        **shown,
        "key": decoder.key(row["key"]),
        "value": decoder.value(row["value"]),
        "headers": decoder.headers(row["headers"]),
    }
