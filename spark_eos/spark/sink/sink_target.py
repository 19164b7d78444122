"""Where a write goes: the log and the topic, made ready in the driver before any task runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from spark_eos.config.reader import Problems
from spark_eos.config.sink import TOPIC_OPTIONS
from spark_eos.config.store import is_store_option
from spark_eos.config.topic import TOPIC
from spark_eos.errors import (
    ConfigError,
    EosLogError,
    InvalidRequestError,
    NotALogError,
    SchemaMismatchError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.data.task_io import TaskStorage
from spark_eos.log.data_place import as_compared, data_place
from spark_eos.log.log import Log
from spark_eos.log.topics import (
    config_value,
    is_compacted,
    key_columns,
    new_topic,
    schema_of,
    setting_of,
    with_registered,
)
from spark_eos.protocol.actions.topics import create
from spark_eos.protocol.state import State, Topic
from spark_eos.spark.host import host
from spark_eos.spark.merging import check_types, merge_columns, merged_topic
from spark_eos.spark.options import read_sink
from spark_eos.spark.schema import arrow_schema, check_sink_schema, classify, topic_schema
from spark_eos.spark.sink.dead_letter_topic import check_dead_letters, without_corrupt
from spark_eos.spark.sink.dead_letters import CORRUPT
from spark_eos.spark.sink.values import check_value_columns, codec_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_eos.spark.options import SinkOptions

METADATA_AGE_S = 60.0
"""How old may be what a stream knows of topics and of the log's end, where looking costs a request.

It is what Kafka calls metadata.max.age.ms. A file that was staged by what is older may be behind the staging floor.
"""


_FOLDERS_OF_A_LOG = {"_log", "_groups", "_maintenance", "_probe", "_tmp", "data", "tables"}


class Target(NamedTuple):
    """Goes to the tasks: where they stage, the topic (None: the rows name it), and Spark's columns of the rows.

    ``dead_letters`` is the topic of the option errors.deadletterqueue.topic.name.
    """

    stage: TaskStorage
    topic: Topic | None
    frame: StructType
    dead_letters: Topic | None = None


def options_for(
    options: Mapping[str, str], schema: StructType, *, streaming: bool, overwrite: bool
) -> SinkOptions:
    """The options of a write.

    Raises `ConfigError` with all that do not fit, and with what `prepare` would refuse of the frame after that.
    """
    problems = Problems()
    sink_options = read_sink(options, problems, streaming=streaming)
    if streaming:
        with problems.about("checkpointLocation"):
            check_checkpoint(sink_options)
    decisive = {"path", "topic", "row.format", "num.partitions", *TOPIC_OPTIONS}
    if problems.texts and not any(name in decisive or is_store_option(name) for name in problems.texts):
        try:
            _check(sink_options, schema, overwrite=overwrite, max_age_s=METADATA_AGE_S)
        except InvalidRequestError as error:
            problems.add("the frame", str(error))
        except EosLogError:
            pass  # Not what was asked for is wrong. The options are.
    problems.check()
    return sink_options


def check_checkpoint(options: SinkOptions) -> None:
    """Raise `ConfigError` if the sink cannot see the checkpoint that it needs, or vacuum takes it for the log's."""
    if options.checkpoint_location is not None:
        log, location = as_compared(options.path), as_compared(options.checkpoint_location)
        folder = location[len(log) :].partition("/")[0] if location.startswith(log) else ""
        if folder in _FOLDERS_OF_A_LOG:
            raise ConfigError(
                f"checkpointLocation={options.checkpoint_location!r} lies in the folder {folder} of the log, which has "
                "files of the log alone: vacuum deletes others there. Choose a folder beside the log, or _checkpoints "
                "in it"
            )
    if options.processing_guarantee == "exactly_once" and options.checkpoint_location is None:
        raise ConfigError(
            "the sink needs the checkpoint location to commit the source offsets with the rows: set "
            "option('checkpointLocation', ...) on the query (the session's "
            "spark.sql.streaming.checkpointLocation cannot be seen by Python sinks), or choose "
            "processing.guarantee=at_least_once"
        )


def prepare(options: SinkOptions, schema: StructType, *, overwrite: bool, max_age_s: float = 0.0) -> Target:
    """Check the frame against the topic; create the log and the topic if they are missing and may be.

    Everything that can be refused is refused before anything is created. ``max_age_s`` as `Log.follow` takes it.
    """
    log, topic, new_schema = _check(options, schema, overwrite=overwrite, max_age_s=max_age_s)
    if log is None:
        log = host().log(
            options.path, options.settings, create=True, maintenance=options.auto_maintenance_enable
        )
    log.prepare_to_stage()
    if options.topic is not None and topic is None:
        config = with_registered(options.topic, {}, dict(options.topic_config))
        topic = log.ensure_topic(options.topic, options.num_partitions, config, new_schema)
        _check_settings(options, topic)  # Another process may have created it with others.
    if topic is not None and options.merge_schema:
        columns = without_corrupt(options, schema, topic)
        topic = merge_columns(log, topic, columns, by_column=False)
        check_fits(options, columns, topic)
    dead = None
    if options.errors_deadletterqueue_topic_name is not None:
        dead = log.ensure_topic(options.errors_deadletterqueue_topic_name, 1)
    now_ms = log.time.record_ms(log.state)
    frame = without_corrupt(options, schema, topic)
    state = log.state
    storage = TaskStorage(log.url, state.seq + 1, options.settings, now_ms, data_place(state))
    return Target(storage, topic, frame, dead)


def _check(
    options: SinkOptions, schema: StructType, *, overwrite: bool, max_age_s: float
) -> tuple[Log | None, Topic | None, pa.Schema | None]:
    """The log and the topic, as far as they are there, and the schema of a topic to create."""
    has_corrupt = CORRUPT in schema.names
    schema = without_corrupt(options, schema, None)
    frame = arrow_schema(schema)
    if options.topic is None and "topic" not in frame.names:
        raise ConfigError("no topic: name it with option('topic', ...), or give the rows a 'topic' column")
    if overwrite and options.topic is None:
        raise ConfigError(
            "option topic is missing: outputMode('complete') and mode('overwrite') replace the records of one topic. "
            "Name it with option('topic', ...), or use 'append'"
        )
    log = _existing(options, max_age_s)
    topic = None if log is None or options.topic is None else log.state.topics.get(options.topic)
    goal = topic
    if topic is None:
        if options.topic is not None and not options.auto_create_topics_enable:
            raise UnknownTopicOrPartitionError(
                f"the log {options.path} has no topic {options.topic!r}, and auto.create.topics.enable is false: "
                "create it with Admin.create_topic"
            )
        new_schema = _new_schema(options, schema)
        if options.topic is not None:
            # Tried on a log without topics: an illegal name must not leave an empty log behind.
            config = with_registered(options.topic, {}, dict(options.topic_config))
            action = new_topic(options.topic, options.num_partitions, config, new_schema)
            goal = create(State(), action)[0].topics[options.topic]
            own = without_corrupt(options, schema, goal)
            if codec_for(options, own, goal) is not None:
                check_fits(options, own, goal)
    else:
        new_schema = None
        columns = without_corrupt(options, schema, topic)
        merged = merged_topic(topic, columns, by_column=False) if options.merge_schema else topic
        check_fits(options, columns, merged)
        _check_topic(options, topic)
    check_dead_letters(options, schema, log, goal, has_corrupt=has_corrupt)
    return log, topic, new_schema


def _new_schema(options: SinkOptions, schema: StructType) -> pa.Schema | None:
    """The schema of a topic that is created; None: Kafka-shaped, or with values of a format."""
    encoded = dict(options.topic_config).get("value.format", "bytes") != "bytes"
    # Rows that name their topics are Kafka-shaped unless the user says otherwise.
    default = options.row_format if options.topic is not None else options.row_format or "kafka"
    typed = not encoded and classify(schema, default) == "typed"
    if options.merge_schema and not typed:
        raise ConfigError(
            "option mergeSchema: a Kafka-shaped topic has no columns of its own that could be merged. Leave it out, or "
            "say option('row.format', 'typed')"
        )
    if encoded:
        return None
    own_schema = topic_schema(schema, by_column=options.topic is None) if typed else None
    check_sink_schema(arrow_schema(schema), typed=own_schema, topic_option=options.topic)
    return own_schema


def check_fits(options: SinkOptions, frame: StructType, topic: Topic) -> None:
    """Raise unless rows of ``frame`` can be written to a topic that is there, and come back with their types."""
    codec = codec_for(options, frame, topic)
    if codec is not None:
        check_value_columns(options, codec, arrow_schema(frame), topic)
        _check_keys(frame, topic, ("_key",))
        _check_settings(options, topic)
        return
    typed = schema_of(topic)
    kind = "kafka" if typed is None else "typed"
    if options.row_format not in (None, kind):
        has = "no schema" if typed is None else "a schema"
        raise ConfigError(
            f"option row.format={options.row_format}: topic {topic.name!r} is there, and has {has}. Leave the option "
            "out, or write to another topic"
        )
    check_sink_schema(arrow_schema(frame), typed=typed, topic_option=options.topic, topic=topic.name)
    if typed is not None:
        check_types(frame, typed, topic.name)
    _check_keys(frame, topic, key_columns(topic))
    _check_settings(options, topic)


def _check_keys(frame: StructType, topic: Topic, keys: Sequence[str]) -> None:
    """Refuse rows of which none has a key, where one is needed. Nulls show up only in the rows."""
    if is_compacted(topic) and not {*keys}.intersection(frame.names):
        raise SchemaMismatchError(
            f"topic {topic.name!r} is compacted (cleanup.policy), and the frame has no key ({', '.join(keys)}): add "
            "the column, or set cleanup.policy=delete"
        )


def _check_settings(options: SinkOptions, topic: Topic) -> None:
    """Refuse settings that a topic that is there does not have."""
    differences = [
        f"option {name}={text}: it has {topic.config.get(name, TOPIC[name].shown_default) or 'none'}"
        for name, text in options.topic_config
        if setting_of(topic.name, {name: text} if text else {}, name, object)
        != config_value(topic, name, object)
    ]
    if differences:
        raise ConfigError(
            f"topic {topic.name!r} is there, with other settings than the options say: {'; '.join(differences)}. Leave "
            "them out, or change the topic with Admin.alter_topic"
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
        return host().log(
            options.path, options.settings, max_age_s=max_age_s, maintenance=options.auto_maintenance_enable
        )
    except NotALogError:
        if not options.auto_create_topics_enable:
            raise
        return None
