"""What one Spark task of a write does: Arrow batches in, staged files out, nothing visible yet."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_eos.errors import IllegalStateError, InvalidRecordError
from spark_eos.log.data.partitioners import DefaultPartitioner, Partitioner, Sticky, load_partitioner
from spark_eos.log.data.task_io import TaskStorage
from spark_eos.log.data.writer import SegmentWriter
from spark_eos.log.log import Log
from spark_eos.log.schemas.fitting import Fitting
from spark_eos.log.topics import key_columns, layout_of
from spark_eos.protocol.actions.appends import Appended
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import StagedFile
from spark_eos.spark.host import host
from spark_eos.spark.merging import merge_columns
from spark_eos.spark.options import SinkOptions
from spark_eos.spark.schema import topic_schema
from spark_eos.spark.sink.dead_letters import CORRUPT, DeadLetters, corrupt_rows
from spark_eos.spark.sink.proof import Read, reads_of_task
from spark_eos.spark.sink.sink_target import METADATA_AGE_S, check_fits
from spark_eos.spark.sink.values import RowEncoder, codec_for
from spark_eos.spark.version import with_offsets
from spark_eos.spark.workers import freeze_imports


@dataclass
class TaskMessage(WriterCommitMessage):
    """What a task tells the driver: the files it staged, for which topics, whose task it was, and what was read."""

    topics: dict[str, str] = field(default_factory=dict)
    files: tuple[StagedFile, ...] = ()
    query_id: str | None = None
    run_id: str | None = None
    reads: tuple[Read, ...] = ()


def collect(
    messages: list[WriterCommitMessage | None],
) -> tuple[tuple[tuple[str, str], ...], tuple[StagedFile, ...]]:
    """All topics and files of a write, in task order: rows of one partition keep the order they had.

    A topic that was created again while the tasks ran is there twice, which the rules refuse.
    """
    task_messages = [message for message in messages if isinstance(message, TaskMessage)]
    topics = {pair for message in task_messages for pair in message.topics.items()}
    return tuple(sorted(topics)), tuple(file for message in task_messages for file in message.files)


def appended_rows(results: tuple[Any, ...]) -> bool:
    """Whether a commit with these results put rows into the log (a replay does not)."""
    return any(
        isinstance(item, Appended) for result in results if isinstance(result, tuple) for item in result
    )


class _Writer(NamedTuple):
    topic: Topic
    writer: SegmentWriter
    partitioner: Partitioner
    fitting: Fitting


class TaskWriter:
    """Routes the rows of one task to partitions and stages them, one file for each topic."""

    def __init__(
        self,
        options: SinkOptions,
        stage: TaskStorage,
        topic: Topic | None,
        frame: StructType | None = None,
        dead_letters: Topic | None = None,
    ) -> None:
        self._frame = frame
        self._options = options
        self._stage = stage
        self._topic = topic
        self._dead_topic = dead_letters
        self._dead = None if dead_letters is None else DeadLetters()
        self._encoders: dict[str, RowEncoder | None] = {}
        self._topics: dict[str, Topic] = {}
        self._writers: dict[str, _Writer] = {}

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskMessage:
        """Stage all rows. A task that fails leaves nothing but bytes without a reference."""
        freeze_imports()
        context = host().task()
        task = 0 if context is None else context.partitionId()
        try:
            for batch in batches:
                if batch.num_rows:
                    self._append(with_offsets(batch), task)
            files = tuple(file for _, writer, *_ in self._writers.values() for file in writer.finish())
        except BaseException:
            for _, writer, *_ in self._writers.values():
                with suppress(IllegalStateError):  # Finished already: its file goes with the staging floor.
                    writer.abandon()
            raise
        message = TaskMessage({topic.name: topic.topic_id for topic, *_ in self._writers.values()}, files)
        if context is not None:
            message.query_id = context.getLocalProperty("sql.streaming.queryId")
            message.run_id = context.getLocalProperty("spark.jobGroup.id")
            message.reads = reads_of_task()
        return message

    def _append(self, batch: pa.RecordBatch, task: int) -> None:
        if CORRUPT in batch.schema.names and self._takes_corrupt(batch.schema):
            batch = corrupt_rows(batch, self._dead)
        if batch.num_rows:
            self._route(batch, task)
        letters = None if self._dead is None else self._dead.take()
        if letters is not None and self._dead_topic is not None:
            name = self._dead_topic.name
            self._topics.setdefault(name, self._dead_topic)
            self._stage_rows(name, letters, task)

    def _takes_corrupt(self, columns: pa.Schema) -> bool:
        """Whether the column is the source's, and none of the topic's own."""
        own = pa.schema([field for field in columns if field.name != CORRUPT])
        return self._dead is not None or (
            self._topic is not None and codec_for(self._options, own, self._topic) is not None
        )

    def _route(self, batch: pa.RecordBatch, task: int) -> None:
        if self._topic is not None:
            self._append_to(self._topic.name, batch, task)
            return
        names = batch.column("topic")
        if names.null_count:
            raise InvalidRecordError(
                "a row has no topic: the topic column is null in "
                f"{names.null_count} rows of a batch. Fill it, or name one topic with option('topic', ...)"
            )
        distinct = pc.unique(names).to_pylist()
        self._find([name for name in distinct if name not in self._writers], batch.schema)
        for name in distinct:
            rows = batch if len(distinct) == 1 else batch.filter(pc.equal(names, name))
            self._append_to(name, rows, task)

    def _append_to(self, name: str, rows: pa.RecordBatch, task: int) -> None:
        if name not in self._encoders:
            self._encoders[name] = self._encoder(name, rows.schema, task)
        encoder = self._encoders[name]
        self._stage_rows(name, rows if encoder is None else encoder.rows(rows), task)

    def _encoder(self, name: str, columns: pa.Schema, task: int) -> RowEncoder | None:
        topic = self._topic or self._topics[name]
        codec = codec_for(self._options, columns, topic)
        return None if codec is None else RowEncoder(self._options, codec, topic, self._dead, task)

    def _stage_rows(self, name: str, rows: pa.RecordBatch, task: int) -> None:
        topic, writer, partitioner, fitting = self._writers.get(name) or self._open(name, task)
        rows = fitting(rows)
        try:
            targets = partitioner(rows, topic.partitions)
        except InvalidRecordError as error:
            raise InvalidRecordError(f"topic {name!r}: {error}") from error
        stored = set(layout_of(topic).physical.names)
        if not self._options.include_headers and not topic.schemas:
            stored.remove("headers")
        writer.append(rows.select([column for column in rows.schema.names if column in stored]), targets)

    def _find(self, names: list[str], columns: pa.Schema) -> None:
        """The topics that rows name: those that are there must take the rows, then those that are not are created."""
        if not names:
            return
        options = self._options
        log = host().log(
            options.path,
            options.settings,
            max_age_s=METADATA_AGE_S,
            maintenance=options.auto_maintenance_enable,
        )
        frame = self._frame if self._frame is not None else from_arrow_schema(columns)
        for name in names:
            if name in log.state.topics:
                self._check(log, frame, log.state.topics[name])
        config = dict(options.topic_config)
        has_columns = options.row_format == "typed" and config.get("value.format", "bytes") == "bytes"
        schema = topic_schema(frame, by_column=True) if has_columns else None
        topics = log.ensure_topics(
            names,
            options.num_partitions,
            schema,
            config=config,
            auto_create=options.auto_create_topics_enable,
        )
        for topic in topics:
            # Another process may have created it with other columns.
            self._topics[topic.name] = self._check(log, frame, topic)

    def _check(self, log: Log, frame: StructType, topic: Topic) -> Topic:
        """The topic, which takes the rows, with the columns that it gets for them."""
        if self._options.merge_schema:
            topic = merge_columns(log, topic, frame, by_column=True)
        check_fits(self._options, frame, topic)
        return topic

    def _open(self, name: str, task: int) -> _Writer:
        options = self._options
        topic = self._topics.get(name) or self._topic
        assert topic is not None
        writer = self._stage.writer(
            topic, compression=options.compression, request_bytes=options.max_request_size
        )
        self._writers[name] = _Writer(
            topic, writer, self._partitioner(topic, task), Fitting(layout_of(topic))
        )
        return self._writers[name]

    def _partitioner(self, topic: Topic, task: int) -> Partitioner:
        if self._options.partitioner_class is not None:
            return load_partitioner(self._options.partitioner_class)
        # Tasks begin at different partitions, batches of later positions at later ones: small micro-batches
        # are spread as well.
        sticky = Sticky(task + self._stage.base_seq)
        column = "_partition" if topic.schemas else "partition"
        return DefaultPartitioner(sticky, key_columns(topic), column)
