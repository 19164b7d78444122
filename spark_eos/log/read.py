"""Reading what was planned: a fetch becomes an Arrow table with exactly the rows that were asked for."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.errors import CorruptRecordError
from spark_eos.log.layout import upgrade
from spark_eos.log.plan import Fetch, Isolation, end_offset, partition_of, plan
from spark_eos.log.segments import read_batch
from spark_eos.log.topics import layout_of
from spark_eos.protocol.index import Load, in_memory
from spark_eos.protocol.rules.topics import require
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import TopicPartition
from spark_eos.storage import Store

__all__ = ["offset_for_time", "read"]


def read(store: Store, topic: Topic, fetch: Fetch) -> pa.Table:
    """The rows of ``fetch`` in the newest layout of the topic (row ``i`` has offset ``fetch.offset + i``).

    Raises `CorruptRecordError`, naming file, bytes and offsets, if they are not what was written.
    """
    layout = layout_of(topic, fetch.file.schema_version)
    context = f"{fetch.topic}-{fetch.partition}, offset {fetch.offset - fetch.skip}"
    table = read_batch(store, fetch.file, fetch.batch, layout, context=context)
    if fetch.skip or fetch.count != table.num_rows:
        table = table.slice(fetch.skip, fetch.count)
    if table.num_rows != fetch.count:
        raise CorruptRecordError(
            f"{fetch.file.name} has {table.num_rows} rows where {fetch.count} were planned ({context})"
        )
    newest = layout_of(topic)
    return table if newest.version == layout.version else upgrade(table, newest)


def offset_for_time(
    store: Store,
    state: State,
    at: TopicPartition,
    timestamp_ms: int,
    isolation: Isolation,
    load: Load = in_memory,
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the first visible record that is not older than ``timestamp_ms``.

    None if there is none (Kafka's offsetsForTimes). Pieces and batches that end before are passed over by what
    the index says of them; only the batch that decides is read.
    """
    partition = partition_of(state, at)
    topic = require(state, at.topic)
    limit = end_offset(partition, isolation)
    column = layout_of(topic).timestamp_column
    for row in partition.index.scan(partition.start, load, newer_than_ms=timestamp_ms):
        first, last = max(row.base_offset, partition.start), min(row.next_offset, limit)
        if first >= last:
            continue
        for fetch in plan(state, at, first, last, isolation, load):
            times = read(store, topic, fetch).column(column).cast(pa.int64())
            late = pc.index(pc.greater_equal(times, timestamp_ms), value=True).as_py()
            if late >= 0:
                return fetch.offset + late, times[late].as_py()
    return None
