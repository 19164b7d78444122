"""Columns that readers see and no file stores: the topic, partition and offset of each record.

Before their names there is an underscore in a topic with a schema, whose own columns cannot begin like them.
"""

from __future__ import annotations

import pyarrow as pa

from spark_eos.log.data.arrow import array_from_numpy, constant_array
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.records import Records


def place_names(*, is_typed: bool) -> tuple[str, str, str, str]:
    """The names of topic, partition, offset and timestamp; the last one is stored."""
    if is_typed:
        return "_topic", "_partition", "_offset", "_timestamp"
    return "topic", "partition", "offset", "timestamp"


def place_column(field: pa.Field, records: Records, fetch: Fetch, *, is_typed: bool) -> pa.Array | None:
    """The column ``field`` of the records of ``fetch``; None if it is none of these three."""
    name = field.name
    if is_typed:
        if not name.startswith("_"):
            return None
        name = name[1:]
    if name == "topic":
        return constant_array(fetch.topic, field.type, records.num_rows)
    if name == "partition":
        return constant_array(fetch.partition, field.type, records.num_rows)
    if name == "offset":
        return array_from_numpy(records.offsets, field.type)
    return None
