"""Where a write goes: the log and the topic, made ready in the driver before any task runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spark_eos.errors import ConfigError, NotALogError, UnknownTopicOrPartitionError
from spark_eos.log.log import Log
from spark_eos.log.stage import Stage
from spark_eos.log.topics import new_topic, schema_of
from spark_eos.protocol.actions import TO_THE_END, Action, AdvanceLogStart, PartitionOffset
from spark_eos.protocol.rules.topics import create
from spark_eos.protocol.state import State, Topic
from spark_eos.spark.schema import arrow_schema, check_sink_schema, classify, topic_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_eos.spark.options import SinkOptions

__all__ = ["METADATA_AGE_S", "Target", "prepare", "truncation"]

METADATA_AGE_S = 60.0
"""How old may be what a stream knows of topics and of the log's end, where looking costs a request.

It is what Kafka calls metadata.max.age.ms. A file that was staged by what is older may be behind the staging floor.
"""


class Target(NamedTuple):
    """Goes to the tasks: where they stage, and the topic (None: the rows name it)."""

    stage: Stage
    topic: Topic | None


def prepare(options: SinkOptions, schema: StructType, *, overwrite: bool, max_age_s: float = 0.0) -> Target:
    """Check the frame against the topic; create the log and the topic if they are missing and may be.

    Everything that can be refused is refused before anything is created. ``max_age_s`` as `Log.follow` takes it.
    """
    frame = arrow_schema(schema)
    if options.topic is None and "topic" not in frame.names:
        raise ConfigError("no topic: name it with option('topic', ...), or give the rows a 'topic' column")
    if overwrite and options.topic is None:
        raise ConfigError(
            "overwriting (and complete mode) replaces the records of one topic: name it with option('topic', ...)"
        )
    log = _existing(options, max_age_s)
    topic = None if log is None or options.topic is None else log.state.topics.get(options.topic)
    if topic is None:
        typed = options.topic is not None and classify(schema) == "typed"
        check_sink_schema(frame, typed=topic_schema(frame) if typed else None, topic_option=options.topic)
        if options.topic is not None and not options.auto_create:
            raise UnknownTopicOrPartitionError(
                f"the log {options.path} has no topic {options.topic!r}, and auto.create.topics.enable is false: "
                "create it with Admin.create_topic"
            )
        if options.topic is not None:
            # Tried on a log without topics: an illegal name must not leave an empty log behind.
            create(State(), new_topic(options.topic, options.num_partitions))
    else:
        typed = False
        check_sink_schema(frame, typed=schema_of(topic), topic_option=options.topic)
        _check_topic(options, topic)
    if log is None:
        log = Log.shared(options.path, options.settings, create=True, upkeep=options.upkeep)
    if options.topic is not None and topic is None:
        topic = log.ensure_topic(
            options.topic, options.num_partitions, schema=topic_schema(frame) if typed else None
        )
    return Target(Stage(log.url, log.state.seq + 1, options.settings), topic)


def truncation(state: State, topic: str) -> tuple[Action, ...]:
    """Everything the topic holds goes, in the same entry in which the new rows come."""
    known = state.topics[topic]
    return (
        AdvanceLogStart(
            tuple(
                PartitionOffset(topic, known.topic_id, number, TO_THE_END)
                for number in range(known.partitions)
            )
        ),
    )


def _check_topic(options: SinkOptions, topic: Topic) -> None:
    """Refuse what has no effect on a topic that is there."""
    if options.num_partitions > topic.partitions:
        raise ConfigError(
            f"option num.partitions={options.num_partitions}: topic {topic.name!r} is there, and has "
            f"{topic.partitions}. It is how many a topic is created with, and the least that one must have: leave it "
            "out, or add partitions with Admin.alter_topic"
        )
    if not options.include_headers and topic.schemas:
        raise ConfigError(
            f"option includeHeaders=false: topic {topic.name!r} has a schema, and no headers. Leave it out"
        )


def _existing(options: SinkOptions, max_age_s: float) -> Log | None:
    try:
        return Log.shared(options.path, options.settings, max_age_s=max_age_s, upkeep=options.upkeep)
    except NotALogError:
        if not options.auto_create:
            raise
        return None
