"""Seals records of a topic into Parquet files by hand, so that a test says where files and row groups end."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa

from spark_eos.config.isolation import Isolation
from spark_eos.log import paths
from spark_eos.log.data.parquet.writer import ParquetFileWriter, ParquetOptions
from spark_eos.log.data.planner import plan
from spark_eos.log.data.records import read
from spark_eos.log.topics import layout_of
from spark_eos.protocol.actions import ReplaceSegments
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.rules.sealing import sealed_to
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition


def seal(log, name, *ends, partition=0, group=1_000_000, unique=uuid.uuid4):
    """Seal ``name`` from the first batch that is not in Parquet on: a file up to each of ``ends``, in groups of rows.

    The last end is that of a batch; all records are committed, and none is missing. ``unique`` gives the ids in the
    files' names. Returns the names.
    """
    state = log.follow()
    topic = state.topics[name]
    key = (topic.topic_id, partition)
    rows = [*state.partitions[key].index.scan(0, log.load)]
    first = next(row.base_offset for row in rows if not row.file.is_parquet)
    fetches = plan(
        state, TopicPartition(name, partition), first, ends[-1], Isolation.READ_COMMITTED, log.load
    )
    table = pa.concat_tables([read(log.store, topic, fetch).table for fetch in fetches])
    layout = layout_of(topic)
    new, names, at = [], [], first
    for end in ends:
        file_name = paths.segment_file(name, topic.topic_id, state.seq + 1, unique().hex, partition)
        writer = ParquetFileWriter(log.store, file_name, layout, partition, ParquetOptions())
        starts = [*range(at, end, group)]
        for start in starts:
            part = table.slice(start - first, min(group, end - start))
            times = part.column(layout.timestamp_column).cast(pa.int64())
            found = (min(times.to_pylist()), max(times.to_pylist()))
            writer.append(part, np.arange(start, start + part.num_rows), found)
        file, batches = writer.close()
        for start, batch in zip(starts, batches, strict=True):
            new.append(
                IndexRow(start, batch.count, Kind.DATA, NO_PRODUCER, batch.max_timestamp_ms, file, batch)
            )
        names.append(file_name)
        at = end

    def request(state):
        pages = sealed_to(key, state.partitions[key], ends[-1]).index.pages
        old = [page for page in pages if first <= page.base_offset and page.next_offset <= ends[-1]]
        return (
            ReplaceSegments(
                name, topic.topic_id, partition, first, ends[-1], checksum(old), tuple(new), tuple(names)
            ),
        )

    log.commit(request)
    return names
