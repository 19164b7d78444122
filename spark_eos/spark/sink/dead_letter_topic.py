"""The topic for dead letters: whether it can take them, and whether there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from spark_eos.errors import ConfigError, UnknownTopicOrPartitionError
from spark_eos.log.topics import new_topic
from spark_eos.protocol.actions.topics import create
from spark_eos.protocol.state import State, Topic
from spark_eos.spark.sink.dead_letters import CORRUPT
from spark_eos.spark.sink.values import codec_for

if TYPE_CHECKING:
    from spark_eos.log.log import Log
    from spark_eos.spark.options import SinkOptions


def without_corrupt(options: SinkOptions, frame: StructType, topic: Topic | None) -> StructType:
    """The columns without `CORRUPT`, where that is the source's and none of the topic's own."""
    columns = StructType([field for field in frame if field.name != CORRUPT])
    encodes = topic is not None and codec_for(options, columns, topic) is not None
    return columns if encodes or options.errors_deadletterqueue_topic_name is not None else frame


def check_dead_letters(
    options: SinkOptions, frame: StructType, log: Log | None, topic: Topic | None, *, has_corrupt: bool
) -> None:
    """Refuse a dead-letter topic that can take no dead letters, or gets none."""
    name, option = options.errors_deadletterqueue_topic_name, "errors.deadletterqueue.topic.name"
    if name is None:
        return
    if name == options.topic:
        raise ConfigError(f"option {option}={name!r} is the topic that the rows go to; name another one")
    encodes = topic is not None and codec_for(options, frame, topic) is not None
    if options.topic is not None and not encodes and not has_corrupt:
        raise ConfigError(
            f"option {option} has no effect: the rows for topic {options.topic!r} are not encoded (it has no "
            f"value.format, or row.format=kafka), and have no column {CORRUPT} of a source with mode=PERMISSIVE. Leave "
            "it out"
        )
    dead_letter_topic = None if log is None else log.state.topics.get(name)
    if dead_letter_topic is None:
        if not options.auto_create_topics_enable:
            raise UnknownTopicOrPartitionError(
                f"the log {options.path} has no topic {name!r} (option {option}), and auto.create.topics.enable is "
                "false: create it with Admin.create_topic"
            )
        create(State(), new_topic(name, 1))
    elif dead_letter_topic.schemas or dead_letter_topic.config.get("value.format", "bytes") != "bytes":
        raise ConfigError(
            f"option {option}={name!r}: the topic has a schema or a value.format, and dead letters are bytes of any "
            "kind; name a topic without them"
        )
