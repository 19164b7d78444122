"""Options of Spark's source: those of Spark's Kafka source, with their names and defaults, and a few others.

``kafka.`` may stand before the name of those that are Kafka's own.
"""

from __future__ import annotations

from functools import partial

from spark_eos.config.durations import Delay
from spark_eos.config.isolation import Isolation
from spark_eos.config.kafka.registry import registry_options
from spark_eos.config.kafka.transport import kafka_options
from spark_eos.config.option import Option, Table, Use
from spark_eos.config.values import MAX_INT, Boolean, Choice, Integer, Member, Text

_STREAM: frozenset[Use] = frozenset({"stream source"})
_BATCH: frozenset[Use] = frozenset({"batch source"})
_BOTH = _STREAM | _BATCH

_OFFSETS = "spark/source/offset_resolution.py"
_TOPICS = "spark/topics.py"
_SOURCE = "spark/source/source.py"
_DATASOURCE = "spark/datasource.py"
_VALUES = "spark/source/values.py"

_BY_PARTITION = "a time for each partition as JSON"
_MILLISECONDS = Integer(0)


_option = partial(Option, origin="Spark", uses=_BOTH)


SOURCE = Table(
    "option",
    _option(
        "path",
        Text("a folder or URL", is_verbatim=True),
        None,
        "The log. `.load(url)` sets it.",
        _TOPICS,
        default_text="required",
    ),
    _option(
        "subscribe",
        Text("topics, separated by commas"),
        None,
        "The topics to read, by name. Exactly one of `subscribe`, `subscribePattern` and `assign` is given.",
        _TOPICS,
    ),
    _option(
        "subscribePattern",
        Text("a regular expression"),
        None,
        "The topics to read, by a pattern that matches the whole name; also topics that are created later.",
        _TOPICS,
    ),
    _option(
        "assign",
        Text("partitions by topic as JSON"),
        None,
        'The partitions to read, such as `{"flights": [0, 1]}`.',
        _TOPICS,
    ),
    _option(
        "startingOffsets",
        Text("earliest, latest (streams), committed, or offsets as JSON"),
        None,
        "Where reading begins; in JSON -2 is the earliest and -1 (streams) the latest. A stream begins there once.",
        _OFFSETS,
        default_text="`latest` (streams), `earliest` (batches)",
    ),
    _option(
        "startingTimestamp",
        _MILLISECONDS,
        None,
        "Reading begins at the first record that is not older, in milliseconds since 1970. It ranks first.",
        _OFFSETS,
    ),
    _option(
        "startingOffsetsByTimestamp",
        Text(_BY_PARTITION),
        None,
        "The same, with a time for each partition. It ranks before `startingOffsets`.",
        _OFFSETS,
    ),
    _option(
        "startingOffsetsByTimestampStrategy",
        Choice("error", "latest", any_case=True),
        None,
        "What a start by time does in a partition without such a record: fail, or begin at its end.",
        _OFFSETS,
        default_text="`error`",
    ),
    _option(
        "startingTable",
        Text("a table", is_verbatim=True),
        None,
        "Reading begins where a version of a published table ends: path or URL of a Delta table, or "
        "`iceberg:<catalog>.<namespace>.<table>`. No other option says then where reading begins.",
        _OFFSETS,
        origin="eoslog",
    ),
    _option(
        "startingTableVersion",
        Integer(0),
        None,
        "The version of `startingTable`; of an Iceberg table, the snapshot id.",
        _OFFSETS,
        origin="eoslog",
        default_text="the newest one that the log has published",
    ),
    _option(
        "endingOffsets",
        Text("latest, or offsets as JSON"),
        None,
        "Where reading ends; in JSON -1 is the latest.",
        _OFFSETS,
        uses=_BATCH,
        default_text="`latest`",
    ),
    _option(
        "endingTimestamp",
        _MILLISECONDS,
        None,
        "Reading ends before the first record that is not older, in milliseconds since 1970.",
        _OFFSETS,
        uses=_BATCH,
    ),
    _option(
        "endingOffsetsByTimestamp",
        Text(_BY_PARTITION),
        None,
        "The same, with a time for each partition.",
        _OFFSETS,
        uses=_BATCH,
    ),
    _option(
        "offsetRanges",
        Text("ranges of offsets by partition as JSON"),
        None,
        'The offsets to read, and no others, such as `{"flights": {"0": [[0, 100], [200, 300]]}}`: first and end. '
        '`"id"` beside the partitions: the id that the topic must have.',
        "spark/source/selection.py",
        uses=_BATCH,
        origin="eoslog",
        default_text="all",
    ),
    _option(
        "versionAsOf",
        Integer(0),
        None,
        "Read the log as it was after this entry, as long as that is retained; also before an overwrite.",
        _TOPICS,
        uses=_BATCH,
        origin="Delta",
    ),
    _option(
        "timestampAsOf",
        Text("a date or a time (ISO 8601, UTC unless it says otherwise), or milliseconds since 1970"),
        None,
        "Read the log as it was at this time, as long as that is retained; also before an overwrite.",
        _TOPICS,
        uses=_BATCH,
        origin="Delta",
    ),
    _option(
        "failOnDataLoss",
        Boolean(),
        True,
        "Whether records that are gone stop the query; `false` goes on without them, with a warning.",
        _SOURCE,
    ),
    _option(
        "maxOffsetsPerTrigger",
        Integer(1),
        None,
        "The most offsets of a micro-batch, shared out in proportion; control batches count.",
        _SOURCE,
        uses=_STREAM,
        default_text="all",
    ),
    _option(
        "minOffsetsPerTrigger",
        Integer(1),
        None,
        "A micro-batch waits for so many offsets, for at most `maxTriggerDelay`; the first one of a run does not.",
        _SOURCE,
        uses=_STREAM,
        default_text="none",
    ),
    _option(
        "maxTriggerDelay",
        Delay(),
        900_000,
        "How long a micro-batch waits for `minOffsetsPerTrigger`, such as `30s` or `5m`.",
        _SOURCE,
        uses=_STREAM,
    ),
    _option(
        "minPartitions",
        Integer(1, MAX_INT),
        None,
        "The least number of Spark tasks.",
        _SOURCE,
    ),
    _option(
        "maxRecordsPerPartition",
        Integer(1),
        None,
        "The most records of a Spark task.",
        _SOURCE,
    ),
    _option(
        "includeHeaders",
        Boolean(),
        False,
        "Whether rows of a Kafka-shaped topic have a column `headers`.",
        _TOPICS,
    ),
    _option(
        "includeMetadata",
        Boolean(),
        False,
        "Whether rows of a topic with a schema have `_topic`, `_partition`, `_offset` and `_timestamp`.",
        _TOPICS,
        origin="eoslog",
    ),
    _option(
        "columns",
        Text("names, separated by commas"),
        None,
        "The columns to read, in this order, also `headers` or `_offset`; Spark tells a Python source of no columns.",
        _TOPICS,
        origin="eoslog",
        default_text="all",
    ),
    _option(
        "where",
        Text("a filter such as price >= 5 AND \"from\" = 'JFK'"),
        None,
        "Rows for which this filter is not true do not leave the tasks. It may name all columns that `columns` takes.",
        _TOPICS,
        origin="eoslog",
        default_text="all rows",
    ),
    _option(
        "filterPushdown",
        Boolean(),
        False,
        "Whether what the filter of a query excludes is not read; the DataFrame is then for this one filter.",
        _DATASOURCE,
        uses=_BATCH,
        origin="eoslog",
    ),
    _option(
        "row.format",
        Choice("kafka", "typed", any_case=True),
        None,
        "Of a topic with `value.format`: rows with the value's own columns (`typed`), or with key and value as bytes "
        "(`kafka`).",
        _TOPICS,
        origin="eoslog",
        default_text="`typed`, `kafka` for JSON without `value.schema`",
    ),
    _option(
        "mode",
        Choice("failfast", "permissive", any_case=True),
        "failfast",
        "What a value does that cannot be decoded: stop the query, or go into the column `_corrupt_record`.",
        _VALUES,
    ),
    *registry_options(_VALUES, uses=_BOTH),
    _option(
        "isolation.level",
        Member(Isolation, any_case=True),
        Isolation.READ_COMMITTED,
        "Whether records of open and aborted transactions are read.",
        _SOURCE,
        origin="Kafka",
    ),
    _option(
        "wholeTransactions",
        Boolean(),
        False,
        "Whether reading ends where no committed transaction of the log is split. `false`: each partition is read up "
        "to its own last stable offset.",
        "spark/source/batch.py",
        uses=_BATCH,
        origin="eoslog",
    ),
    _option(
        "group.id",
        Text(),
        None,
        "The group that `startingOffsets=committed` reads, and for which the sink commits this source.",
        _SOURCE,
        origin="Kafka",
    ),
    kafka_options("spark/option_names.py", uses=_BOTH),
)
