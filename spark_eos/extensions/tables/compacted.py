"""Compacted topics as tables: of each key of a partition the newest row, and none where that is a tombstone.

The log's own compaction comes to the same sooner or later. A version of the table has it at once: the rows that came
since the version before are merged into it. Where the log's compaction may have removed tombstones since then, or the
topic was altered, the table is made from all rows: what a tombstone has removed could stay otherwise, or what has the
same key now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from spark_eos.extensions.tables.columns import table_schema
from spark_eos.extensions.tables.target import RowChange, Stamp
from spark_eos.log.data.parquet.columns import offset_column, partition_column, to_file
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.records import Records, read
from spark_eos.log.log import Log
from spark_eos.log.topics import config_value, key_columns, layout_of
from spark_eos.maintenance.cleaner import KeyMap, keys_of
from spark_eos.protocol.actions.topics import TOPIC_ALTERED
from spark_eos.protocol.index_rows import IndexRow, Kind
from spark_eos.protocol.publication import Pin
from spark_eos.protocol.rules.trail import goes_back_to
from spark_eos.protocol.state import State, Topic

_ANY = 1 << 62


def newest_rows(
    log: Log, topic: Topic, versions: int, pins: Mapping[int, Pin], last: Stamp | None
) -> RowChange:
    """What is to be merged into the topic's table, which is as ``last`` says; None: all of its rows.

    ``pins`` are the offsets of the version by partition. ``versions`` is how many versions the schema had then.
    """
    starts = {number: pin.start for number, pin in pins.items()}
    since = dict(pins)
    if last is not None:
        newer = {number: _since(pin, last.offsets.get(number)) for number, pin in pins.items()}
        if not _was_altered(log.state, topic, last) and not _may_lack_tombstones(log, topic, newer, last):
            since = newer
    whole = last is None or since == pins
    topic_then = topic._replace(schemas=topic.schemas[:versions])
    newest = _Newest(log, topic_then, since)
    layout = layout_of(topic_then)
    keys = (*key_columns(topic_then), partition_column(layout))
    schema = table_schema(topic_then, versions)
    return RowChange(
        schema,
        keys,
        (partition_column(layout), offset_column(layout)),
        lambda: newest.rows,
        lambda: newest.removed.select(list(keys)),
        starts,
        replaces_all=whole,
    )


def _since(pin: Pin, before: tuple[int, int] | None) -> Pin:
    """The part of a pin that the version before does not have."""
    return pin if before is None else pin._replace(start=min(max(pin.start, before[1]), pin.end))


def _was_altered(state: State, topic: Topic, last: Stamp) -> bool:
    """Whether the topic's key, or for how long tombstones stay, may have been another one since the version before."""
    if not goes_back_to(state, last.entry, last.timestamp_ms):
        return True
    return altered_since(state, topic, last.entry)


def altered_since(state: State, topic: Topic, entry: int) -> bool:
    """Whether the log knows that the topic was altered after the entry."""
    return any(
        event.entry > entry and (event.what, event.name) == (TOPIC_ALTERED, topic.name)
        for event in state.trail
    )


def _may_lack_tombstones(log: Log, topic: Topic, since: Mapping[int, Pin], last: Stamp) -> bool:
    """Whether compaction may have removed a tombstone that was written after the version before.

    It keeps each for ``delete.retention.ms`` at least.
    """
    passed = log.time.now_ms(log.state) - last.timestamp_ms
    if passed < config_value(topic, "delete.retention.ms", int):
        return False
    return any(_has_holes(row) for pin in since.values() for row in pin.rows(log.load))


def _has_holes(row: IndexRow) -> bool:
    return row.kind is Kind.HOLE or (row.batch is not None and row.batch.count != row.count)


class _Newest:
    """The newest row of each key among some offsets; read when it is asked for, and then kept."""

    def __init__(self, log: Log, topic: Topic, pins: Mapping[int, Pin]) -> None:
        self._log = log
        self._topic = topic
        self._pins = pins
        self._layout = layout_of(topic)
        own = key_columns(topic)
        self._keys: Sequence[str] = own
        stored = (*own, self._layout.timestamp_column)
        self._values = [
            *(
                ("value",)
                if self._layout.is_kafka
                else (n for n in self._layout.physical.names if n not in stored)
            )
        ]

    @property
    def rows(self) -> pa.Table:
        """Those that are in the table."""
        return self._latest_rows[0]

    @property
    def removed(self) -> pa.Table:
        """The tombstones."""
        return self._latest_rows[1]

    @cached_property
    def _latest_rows(self) -> tuple[pa.Table, pa.Table]:
        schema = table_schema(self._topic, self._layout.version)
        tables: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        for number, pin in sorted(self._pins.items()):
            for rows, removed in self._of(number, pin):
                tables[0].append(rows)
                tables[1].append(removed)
        rows, removed = (pa.concat_tables([schema.empty_table(), *parts]) for parts in tables)
        return rows, removed

    def _of(self, number: int, pin: Pin) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Of one partition, batch by batch: first the keys alone are read, then what is the newest of them."""
        newest = KeyMap(_ANY)
        for records in self._read(number, pin, self._keys):
            keys = keys_of(records, self._keys, ())
            newest.add(keys.hashes[keys.present], records.offsets[keys.present])
        for records in self._read(number, pin, None):
            keys = keys_of(records, self._keys, self._values)
            is_newest = keys.present & (newest.latest(keys.hashes) == records.offsets)
            if is_newest.any():
                table = to_file(records.table, self._layout, number, records.offsets)
                yield (
                    table.filter(pa.array(is_newest & ~keys.tombstones)),
                    table.filter(pa.array(is_newest & keys.tombstones)),
                )

    def _read(self, number: int, pin: Pin, columns: Sequence[str] | None) -> Iterator[Records]:
        for row in pin.rows(self._log.load):
            if row.kind is not Kind.DATA:
                continue
            assert row.file is not None
            assert row.batch is not None
            first, end = max(pin.start, row.base_offset), min(pin.end, row.next_offset)
            fetch = Fetch(
                *(self._topic.name, number, first, end - first, first - row.base_offset),
                file=row.file,
                batch=row.batch,
            )
            records = read(self._log.store, self._topic, fetch, columns)
            if records.num_rows:
                yield records
