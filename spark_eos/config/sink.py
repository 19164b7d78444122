"""Options of Spark's sink. ``kafka.`` may stand before the name of those that are Kafka's own."""

from __future__ import annotations

from functools import partial

from spark_eos.config.compression import AUTO, Codec, level_options
from spark_eos.config.kafka.transport import kafka_options
from spark_eos.config.option import Option, Table, Use
from spark_eos.config.topic import TOPIC
from spark_eos.config.values import MAX_COUNT, MAX_INT, Boolean, Callable, Choice, Integer, Text

_STREAM: frozenset[Use] = frozenset({"stream sink"})
_JOB: frozenset[Use] = frozenset({"batch sink"})
_BOTH: frozenset[Use] = _STREAM | _JOB

_SINK = "spark/sink/sink.py"
_QUERY = "spark/sink/query_batch.py"
_TARGET = "spark/sink/sink_target.py"
_TASK = "spark/sink/task.py"
_NAMES = "spark/option_names.py"
_BATCH = "spark/batch/writer.py"


_option = partial(Option, origin="Kafka", uses=_BOTH)


TOPIC_OPTIONS = tuple(name for name in TOPIC if not name.startswith("compression."))
"""Settings of a topic that a sink has as options: of a topic that it creates, and that one that exists must have.

Those of compression are options of the sink's own.
"""


def _of_topic(option: Option) -> Option:
    return option._replace(
        doc=f"`{option.name}` of a topic that is created; one that exists must have this value.",
        used_in=_TARGET,
        default=None,
        default_text=f"`{option.shown_default}`" if option.shown_default else "none",
        uses=_BOTH,
    )


SINK = Table(
    "option",
    _option(
        "path",
        Text("a folder or URL", is_verbatim=True),
        None,
        "The log. `.start(url)` and `.save(url)` set it.",
        _SINK,
        origin="Spark",
        default_text="required",
    ),
    _option(
        "topic",
        Text(),
        None,
        "Where all rows go.",
        _TARGET,
        origin="Spark",
        default_text="the column `topic`",
    ),
    _option(
        "checkpointLocation",
        Text("a folder or URL", is_verbatim=True),
        None,
        "The checkpoint of the query, which the sink reads.",
        _SINK,
        uses=_STREAM,
        origin="Spark",
        default_text="required",
    ),
    _option(
        "queryName",
        Text(),
        None,
        "The name of the query in Spark; the sink does not use it.",
        "",
        uses=_STREAM,
        origin="Spark",
    ),
    _option(
        "transactional.id",
        Text(),
        None,
        "Who writes; a write under this id fences older ones. Set it: the default is lost with the checkpoint.",
        _QUERY,
        default_text="the query's id",
    ),
    _option(
        "group.id",
        Text(),
        None,
        "The group whose offsets are committed, for sources that name none of their own.",
        _QUERY,
        uses=_STREAM,
        default_text="`transactional.id`",
    ),
    _option(
        "processing.guarantee",
        Choice("exactly_once", "at_least_once", any_case=True),
        "exactly_once",
        "With `at_least_once` rows are written without offsets and fencing, and repeated batches are doubled.",
        _SINK,
        uses=_STREAM,
    ),
    _option(
        "allowStateLoss",
        Boolean(),
        False,
        "Whether a stateful query may go on with a new checkpoint, in which its state is empty.",
        _QUERY,
        uses=_STREAM,
        origin="eoslog",
    ),
    _option(
        "row.format",
        Choice("kafka", "typed", any_case=True),
        None,
        "What a topic is created for: columns of its own (`typed`), or key and value (`kafka`).",
        _TASK,
        origin="eoslog",
        default_text="from the columns",
    ),
    _option(
        "num.partitions",
        Integer(1, MAX_INT),
        1,
        "Partitions of a topic that is created; a `topic` that exists has as many at least.",
        _TARGET,
    ),
    _option(
        "auto.create.topics.enable",
        Boolean(),
        True,
        "Whether a log and topics that are missing are created.",
        _TARGET,
    ),
    _option(
        "compression.type",
        Codec(any_case=True),
        AUTO,
        "How rows are compressed, unless `compression.type` of the topic says otherwise; `auto`: by zstd, where the "
        "first of a file show that it pays.",
        _TASK,
    ),
    *level_options(_TASK, uses=_BOTH),
    _option(
        "max.request.size",
        Integer(1, MAX_INT),
        None,
        "A row of more bytes is refused (`RecordTooLargeError`), also where `max.message.bytes` allows it.",
        _TASK,
        default_text="none",
    ),
    _option(
        "partitioner.class",
        Callable(),
        None,
        "`module:callable`, given a batch and the number of partitions; without it Kafka's hash of the key decides.",
        _TASK,
    ),
    _option(
        "includeHeaders",
        Boolean(),
        True,
        "Whether a column `headers` is stored.",
        _TASK,
        origin="Spark",
    ),
    _option(
        "errors.deadletterqueue.topic.name",
        Text(),
        None,
        "Where rows go that cannot be encoded, and records that the source could not decode, in the same commit.",
        "spark/sink/dead_letter_topic.py",
    ),
    _option(
        "mergeSchema",
        Boolean(),
        False,
        "Whether a topic with a schema gets the columns of the rows that it does not have, and wider types.",
        _TARGET,
        origin="Delta",
    ),
    _option(
        "auto.maintenance.enable",
        Boolean(),
        True,
        "Whether this query does its share of the log's maintenance after its commits.",
        _TASK,
        origin="eoslog",
    ),
    kafka_options(_NAMES, uses=_BOTH),
    *(_of_topic(TOPIC[name]) for name in TOPIC_OPTIONS),
    _option(
        "txnAppId",
        Text(),
        None,
        "The name of a batch job whose writes may be repeated; with `txnVersion`.",
        _BATCH,
        uses=_JOB,
        origin="Delta",
    ),
    _option(
        "txnVersion",
        Integer(0, MAX_COUNT),
        None,
        "The number of the write. One that is not above the last one of `txnAppId` in the topic writes nothing.",
        _BATCH,
        uses=_JOB,
        origin="Delta",
    ),
)
