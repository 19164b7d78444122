"""Records of a topic: the newest ones, or from an offset or a time on; each call reads a bounded number of batches."""

from __future__ import annotations

import base64

import pyarrow as pa

from spark_eos.clients.arrow_reader import available_columns
from spark_eos.config.isolation import Isolation
from spark_eos.errors import InvalidRequestError
from spark_eos.extensions.ui.decoding import DECODINGS, Decoder
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import MOST_OFFSETS, MOST_ROWS, Answer, Question
from spark_eos.extensions.ui.reading.exports import FORMATS, MOST_COLUMNS
from spark_eos.extensions.ui.reading.newest import FoundRecord, newest
from spark_eos.extensions.ui.reading.oldest import Place, oldest
from spark_eos.extensions.ui.reading.value_fields import ValueFields
from spark_eos.extensions.ui.reading.wanted import MOST_BYTES, Budget, Criteria, dicts
from spark_eos.log.data.partitioners import key_partitions
from spark_eos.log.data.planner import partition_of, plan
from spark_eos.log.data.records import Records
from spark_eos.log.selection.expression import parsed
from spark_eos.log.selection.row_filter import RowFilter
from spark_eos.log.time_travel import time_ms
from spark_eos.log.topics import key_columns, layout_of
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import TopicPartition

_WHOLE = 1 << 20
"""Characters of a value in the view of one record."""

ISOLATIONS = {"committed": Isolation.READ_COMMITTED, "uncommitted": Isolation.READ_UNCOMMITTED}


_MOST_DAMAGED = 10
"""Damaged batches that one answer names."""


def records(follower: Follower, question: Question) -> Answer:
    """Records of all partitions of a topic, or of one: the newest, or those from a place on.

    ``from``: ``end`` is the newest first; ``offset``, ``time`` and ``start`` are the oldest first from there in each
    partition, and ``after`` is the ``next`` of the answer before. After one of the newest ones, ``before`` is its
    ``next`` for older ones, and ``after`` its ``ends`` for those that came since.
    """
    topic = follower.topic(question.text("topic"))
    isolation = ISOLATIONS[question.choice("isolation", tuple(ISOLATIONS))]
    count = question.number("count", 50, least=1, most=200)
    decoder = Decoder(topic, question.choice("decode", DECODINGS))
    criteria = Criteria(
        question.text("search", "", most=1000),
        question.text("key", "", most=1000),
        *_filters(topic, question.text("filter", "", most=1000), decoder),
    )
    budget = Budget()
    whence = question.choice("from", ("end", "start", "offset", "time"))
    number = _partition(follower, topic, question)
    hits: list[FoundRecord]
    shown: Answer
    numbers = range(topic.partitions) if number is None else [number]
    bounds = question.offsets("before"), question.offsets("after")
    if whence == "end":
        hits, before, ends = newest(follower, topic, numbers, *bounds, isolation, criteria, count, budget)
        if before is not None and len(before) > MOST_OFFSETS:
            raise InvalidRequestError(
                f"no older ones can be read of {topic.partitions} partitions together: choose one of them"
            )
        shown = {"ends": ends and [*ends.items()], "next": before and [*before.items()], "done": not before}
    else:
        place = _place(question, whence)
        hits, following = oldest(
            follower, topic, numbers, place, bounds[1], isolation, criteria, count, budget
        )
        shown = {"next": following and [*following.items()], "done": following is None}
    return {
        "topic": topic.name,
        **shown,
        "searched": budget.read,
        "looked_at": None if criteria.is_all else budget.looked_at,
        "problem": decoder.problem or (criteria.value_fields and criteria.value_fields.problem),
        "damaged": budget.damaged[:_MOST_DAMAGED],
        "rows": [_shown(topic, decoder, hit) for hit in hits],
    }


def _filters(topic: Topic, text: str, decoder: Decoder) -> tuple[RowFilter | None, ValueFields | None]:
    """The filter that a text says, and what it asks of fields of values."""
    if not text.strip():
        return None, None
    schema, is_typed = available_columns(topic), bool(topic.schemas)
    row_filter = parsed(text, topic.name, schema, has_value_fields=not is_typed)
    value_fields = ValueFields(row_filter.asked, decoder.fields) if row_filter.asked else None
    for field in () if value_fields is None else value_fields.schema:
        schema = schema.append(field)
    return RowFilter(row_filter.expression, schema, is_typed=is_typed), value_fields


def _partition(follower: Follower, topic: Topic, question: Question) -> int | None:
    """The partition that is asked for, or the only one; None: all of them."""
    number = question.number("partition", 0 if topic.partitions == 1 else -1, least=-1)
    if number < 0:
        return None
    partition_of(follower.state, TopicPartition(topic.name, number))
    return number


def show_record(follower: Follower, question: Question) -> Answer:
    """One record, with up to a million characters of its value."""
    topic = follower.topic(question.text("topic"))
    isolation = ISOLATIONS[question.choice("isolation", tuple(ISOLATIONS))]
    decoder = Decoder(topic, question.choice("decode", DECODINGS), _WHOLE)
    at = TopicPartition(topic.name, question.number("partition"))
    offset = question.number("offset")
    record = _read_one(follower, topic, at, offset, isolation)
    (row,) = dicts(topic, record.table)
    return {"row": _shown(topic, decoder, FoundRecord(at.partition, offset, row))}


def export(follower: Follower, question: Question) -> Answer:
    """Records that are shown, whole, as a file: ``records`` are their places, ``columns`` those that are shown."""
    topic = follower.topic(question.text("topic"))
    isolation = ISOLATIONS[question.choice("isolation", tuple(ISOLATIONS))]
    decoder = Decoder(topic, question.choice("decode", DECODINGS), _WHOLE)
    columns = question.texts("columns", most=MOST_COLUMNS)
    form = question.choice("format", tuple(FORMATS))
    left = MOST_BYTES
    rows: list[Answer] = []
    tables: list[pa.Table] = []
    for partition, offset in question.pairs("records", most=MOST_ROWS):
        at = TopicPartition(topic.name, partition)
        record = _read_one(follower, topic, at, offset, isolation)
        left -= record.table.nbytes
        if left < 0:
            raise InvalidRequestError(
                f"these records have more than {MOST_BYTES >> 20} MiB: eoslog consume writes files of any size"
            )
        (row,) = dicts(topic, record.table)
        rows.append(_shown(topic, decoder, FoundRecord(partition, offset, row)))
        tables.append(record.table)
    stored = pa.concat_tables(tables) if topic.schemas and tables else None
    data = FORMATS[form](columns, rows, stored)
    file = {"text": data} if isinstance(data, str) else {"base64": base64.b64encode(data).decode()}
    return {**file, "name": f"{topic.name}.{form}"}


def _read_one(
    follower: Follower, topic: Topic, at: TopicPartition, offset: int, isolation: Isolation
) -> Records:
    log = follower.log
    for fetch in plan(log.state, at, offset, offset + 1, isolation, log.load):
        rows = follower.read(topic, fetch)
        if rows.num_rows and rows.offset(0) == offset:
            return rows.slice(0, 1)
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
    partitions = key_partitions(pa.array([key.encode()], pa.binary()), topic.partitions)
    return {"partition": int(partitions[0])}


def _has_text_key(topic: Topic) -> bool:
    columns = key_columns(topic)
    type_ = layout_of(topic).physical.field(columns[0]).type
    return len(columns) == 1 and (pa.types.is_string(type_) or pa.types.is_binary(type_))


# -- Where ------------------------------------------------------------------------------------------------


def _place(question: Question, whence: str) -> Place:
    """Where to begin."""
    if whence == "start":
        return Place()
    if whence == "offset":
        return Place(question.number("offset"))
    text = question.text("time", most=100)
    try:
        return Place(time_ms=int(text) if text.lstrip("-").isdecimal() else time_ms(text))
    except (ValueError, OverflowError):
        raise InvalidRequestError(f"{text!r} is not a time such as 2026-11-21T16:30:00") from None


# -- Rows -------------------------------------------------------------------------------------------------


def _shown(topic: Topic, decoder: Decoder, hit: FoundRecord) -> Answer:
    row = hit.row
    shown: Answer = {
        "partition": hit.partition,
        "offset": hit.offset,
        "time": row.pop(layout_of(topic).timestamp_column),
        "cells": decoder.cells(row),
    }
    if topic.schemas:
        return {**shown, "key": None, "value": decoder.columns(row), "headers": []}
    return {
        **shown,
        "key": decoder.key(row["key"]),
        "value": decoder.value(row["value"]),
        "headers": decoder.headers(row["headers"]),
    }
