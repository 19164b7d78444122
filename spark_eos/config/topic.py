"""Settings of a topic: Kafka's, and those of its columns and values. The log stores them as text."""

from __future__ import annotations

from spark_eos.config.compression import Codec, level_options
from spark_eos.config.option import Option, Table
from spark_eos.config.values import MAX_LONG, MAX_UINT, Choice, Integer, Ratio, Text, Words

_TOPICS = "log/topics.py"
_TIMESTAMPS = "log/data/timestamps.py"
_COMPACTION = "maintenance/compaction.py"
_DIRTY_RATIO = "maintenance/dirty_ratio.py"
_RETENTION = "maintenance/retention.py"
_VALUES = "extensions/value_formats/settings.py"

TOPIC = Table(
    "topic setting",
    Option(
        "cleanup.policy",
        Words("delete, compact, or both, as in compact,delete", "delete", "compact"),
        ("delete",),
        "What maintenance does with old records: delete them, or keep the newest record of each key. With `compact`, a "
        "record without a key is refused, and a topic with a schema needs `key.columns`.",
        _RETENTION,
    ),
    Option(
        "compression.type",
        Codec(of_topic=True),
        "producer",
        "How records are stored, also when maintenance writes them again; `producer`: as the producer chose.",
        _TOPICS,
    ),
    *level_options(_TOPICS),
    Option(
        "delete.retention.ms",
        Integer(-1),
        86_400_000,
        "How long a tombstone stays after the records that it deletes.",
        _COMPACTION,
    ),
    Option(
        "file.delete.delay.ms",
        Integer(-1),
        60_000,
        "How long a file stays that nothing refers to any more.",
        "maintenance/end_marks.py",
    ),
    Option(
        "key.columns",
        Words("columns, separated by commas"),
        (),
        "Of a topic with a schema: the columns that choose the partition.",
        _TOPICS,
        "eoslog",
    ),
    Option(
        "max.message.bytes",
        Integer(-1),
        1_048_588,
        "A larger record is refused: its key, value and headers, or all its columns, count. A topic with a schema has "
        "no limit unless this is set.",
        _TOPICS,
    ),
    Option(
        "message.timestamp.after.max.ms",
        Integer(0),
        3_600_000,
        "A record whose timestamp is further ahead of now is refused (`InvalidTimestampError`).",
        _TIMESTAMPS,
    ),
    Option(
        "message.timestamp.before.max.ms",
        Integer(0),
        MAX_LONG,
        "A record whose timestamp is further behind now is refused (`InvalidTimestampError`).",
        _TIMESTAMPS,
    ),
    Option(
        "message.timestamp.type",
        Choice("CreateTime"),
        "CreateTime",
        "Only `CreateTime` is possible: a record keeps the timestamp that it came with.",
    ),
    Option(
        "min.cleanable.dirty.ratio",
        Ratio(),
        0.5,
        "Compaction waits until more than this share of the bytes is new.",
        _DIRTY_RATIO,
    ),
    Option(
        "min.compaction.lag.ms",
        Integer(-1),
        0,
        "Younger records are not compacted.",
        _DIRTY_RATIO,
    ),
    Option(
        "retention.bytes",
        Integer(-1),
        -1,
        "The oldest records of a partition are deleted while at least so many bytes are left; -1: no limit.",
        _RETENTION,
    ),
    Option(
        "retention.ms",
        Integer(-1),
        604_800_000,
        "Records that are older are deleted; -1: no limit.",
        _RETENTION,
    ),
    Option(
        "schema.registry.url",
        Text("a URL"),
        None,
        "Where schemas by id are looked up that the topic does not have; for values with Confluent's header.",
        _VALUES,
        "Confluent",
    ),
    Option(
        "segment.bytes",
        Integer(-1),
        1_073_741_824,
        "The largest file that rolling and compaction write.",
        "maintenance/segments/form.py",
    ),
    Option(
        "segment.bloom.filter.columns",
        Words("columns, separated by commas"),
        (),
        "Columns that have bloom filters in Parquet files, so that a search for a value passes over row groups.",
        "maintenance/segments/form.py",
        "eoslog",
    ),
    Option(
        "segment.format",
        Choice("arrow", "parquet"),
        "arrow",
        "What rolling and compaction write: Arrow files, or Parquet files, which tables can share with the log.",
        "maintenance/segments/form.py",
        "eoslog",
    ),
    Option(
        "segment.ms",
        Integer(-1),
        604_800_000,
        "Once a partition's newest batches are so old, they are rolled and compacted, however few; -1: never.",
        "maintenance/tails.py",
    ),
    Option(
        "value.format",
        Choice("bytes", "avro", "avro-confluent", "avro-single-object", "json", "json-confluent"),
        "bytes",
        "What values are: Avro or JSON, with the header of a schema registry or of Avro's single-object encoding.",
        _VALUES,
        "eoslog",
    ),
    Option(
        "value.schema",
        Text("an Avro schema, or for JSON a JSON Schema, as JSON"),
        None,
        "The schema that values are written and read with.",
        _VALUES,
        "eoslog",
    ),
    Option(
        "value.schema.id",
        Integer(0, MAX_UINT),
        None,
        "The id of `value.schema`, which Confluent's header of written values carries.",
        _VALUES,
        "eoslog",
    ),
    Option(
        "value.writer.schemas",
        Text("schemas as JSON: an object by id for avro-confluent, an array for avro-single-object"),
        None,
        "Avro schemas that values were written with before; a change of `value.schema` adds the old one.",
        _VALUES,
        "eoslog",
    ),
    stored=True,
)
