"""How the values are stored that actions carry: stamps, offsets, files, sources, index rows.

Batches of a file, index rows and offsets are columns of numbers, which are much faster to read than records.
"""

from __future__ import annotations

from typing import Any

from immutables import Map

from spark_eos.protocol.encoding.avro import (
    BOOLEAN,
    BYTES,
    LONG,
    STRING,
    Shape,
    array,
    array_of,
    converted,
    optional,
    optional_of,
    record,
    record_of,
)
from spark_eos.protocol.encoding.offset_columns import (
    offset_columns,
    read_offsets,
    read_runs,
    read_source,
    runs_of,
    source_columns,
)
from spark_eos.protocol.types import (
    BatchRef,
    Decider,
    FileRef,
    Follower,
    Membership,
    PinnedRange,
    ProducerStamp,
    StagedFile,
)

BATCH_COLUMNS = (
    "partition",
    "count",
    "position",
    "length",
    "crc",
    "min_timestamp_ms",
    "max_timestamp_ms",
    "base_sequence",
)
"""The columns of a file's batches, all of one length."""

ROW_COLUMNS = (
    *("base_offset", "count", "kind", "producer_id", "epoch", "number", "max_timestamp_ms"),
    *("file", "position", "length", "crc", "records", "min_timestamp_ms", "batch_max_timestamp_ms"),
    "base_sequence",
)
"""The columns of index rows, all of one length; ``file`` is a number in the files listed beside them, or -1."""


FILE = record_of(
    FileRef,
    name=STRING,
    size=LONG,
    schema_version=LONG,
    omitted=array_of(STRING),
    offsets=BOOLEAN,
    footer=LONG,
    footer_crc=LONG,
)


INDEX_ROWS = Shape(
    lambda version: record(
        "Rows", files=array(FILE.schema(version)), **dict.fromkeys(ROW_COLUMNS, array("long"))
    ),
    newest=FILE.newest,
)
"""The columns that `spark_eos.protocol.encoding.index_pages.rows_columns` makes of index rows."""

RUNS = Shape(lambda _: array(record("Run", topic_id="string", first="long", count="long")))
"""Partitions as `runs_of` writes them."""

PARTITIONS = converted(RUNS, runs_of, lambda runs: tuple(read_runs(runs)))
"""Partitions, by topic id and number."""

OFFSETS = Shape(
    lambda _: record(
        "Offsets",
        runs=array(record("OffsetRun", topic="string", topic_id="string", first="long", count="long")),
        offsets=array("long"),
        metadata=array("string"),
    ),
    offset_columns,
    read_offsets,
)
"""`PartitionOffset`s in their order, as columns. ``metadata`` is empty if that of all is."""


def _source(version: int) -> dict[str, Any]:
    return record(
        "SourceProgress",
        start=optional("string"),
        end=optional("string"),
        group=optional("string"),
        start_offsets=OFFSETS.schema(version),
        end_offsets=OFFSETS.schema(version),
        start_is_text="boolean",
        end_is_text="boolean",
        name=optional("string"),
    )


SOURCES = array_of(Shape(_source, source_columns, read_source))
"""What the sources of a micro-batch read. ``start_is_text``: ``start`` is left out, the text of ``start_offsets``."""


def _pair(name: str, value: Shape) -> Shape:
    return Shape(
        lambda version: record(name, name="string", value=value.schema(version)),
        lambda pair: {"name": pair[0], "value": pair[1]},
        lambda stored: (stored["name"], stored["value"]),
    )


PAIRS = array_of(_pair("Pair", STRING))
"""Pairs of texts: settings, or topics with their ids."""

NUMBERED_TOPICS = array_of(_pair("NumberedTopic", LONG))
"""Partitions, by topic and number."""

CONFIG = converted(PAIRS, lambda config: sorted(config.items()), Map)
"""Settings, as a map."""

NUMBERS = converted(NUMBERED_TOPICS, lambda numbers: sorted(numbers.items()), Map)
"""Numbers by topic, as a map."""

STAMP = record_of(ProducerStamp, producer_id=LONG, epoch=LONG, number=LONG)

DECIDER = record_of(
    Decider,
    log_id=STRING,
    url=STRING,
    producer_id=LONG,
    epoch=LONG,
    number=LONG,
    history=BYTES,
    seq=LONG,
)

FOLLOWERS = array_of(record_of(Follower, log_id=STRING, url=STRING, transactional_id=STRING))

MEMBERSHIP = record_of(Membership, member_id=STRING, generation=LONG, instance_id=optional_of(STRING))


def _write_ranges(ranges: tuple[PinnedRange, ...]) -> dict[str, Any]:
    columns = zip(*ranges, strict=True) if ranges else ((),) * len(PinnedRange._fields)
    _, _, starts, ends, pages = map(list, columns)
    runs = runs_of((range_.topic_id, range_.partition) for range_ in ranges)
    return {"runs": runs, "starts": starts, "ends": ends, "pages": pages}


def _read_ranges(stored: dict[str, Any]) -> tuple[PinnedRange, ...]:
    columns = [stored[name] for name in ("starts", "ends", "pages")]
    rows = zip(read_runs(stored["runs"], len(columns[0])), *columns, strict=True)
    return tuple([PinnedRange(topic_id, number, *row) for (topic_id, number), *row in rows])


PINNED_RANGES = Shape(
    lambda _: record(
        "PinnedRanges",
        runs=RUNS.schema(1),
        **dict.fromkeys(("starts", "ends", "pages"), array("long")),
    ),
    _write_ranges,
    _read_ranges,
)
"""Ranges of partitions, as columns."""


def _staged(version: int) -> dict[str, Any]:
    batches = record("BatchRefs", **dict.fromkeys(BATCH_COLUMNS, array("long")))
    return record("StagedFile", topic="string", file=FILE.schema(version), batches=batches)


def _write_staged(staged: StagedFile) -> dict[str, Any]:
    columns = zip(*staged.batches, strict=True) if staged.batches else ((),) * len(BATCH_COLUMNS)
    return {
        "topic": staged.topic,
        "file": staged.file._asdict(),
        "batches": dict(zip(BATCH_COLUMNS, map(list, columns), strict=True)),
    }


def _read_staged(stored: dict[str, Any]) -> StagedFile:
    columns = [stored["batches"][column] for column in BATCH_COLUMNS]
    batches = tuple(map(BatchRef._make, zip(*columns, strict=True)))
    return StagedFile(stored["topic"], FILE.read(stored["file"]), batches)


STAGED_FILES = array_of(Shape(_staged, _write_staged, _read_staged, newest=FILE.newest))
