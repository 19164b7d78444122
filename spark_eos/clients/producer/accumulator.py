"""Records on their way out: gathered by topic, staged in files, and matched with their offsets afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.clients.metrics import ProducerMetrics
from spark_eos.clients.producer.futures import Outcome, SendFuture
from spark_eos.clients.producer.places import NO_OFFSET, Places
from spark_eos.clients.producer.record_buffer import Meter, RecordBuffer
from spark_eos.clients.records import RecordMetadata
from spark_eos.config.compression import Compression
from spark_eos.errors import (
    AbortableError,
    EosLogError,
    IllegalStateError,
    InvalidRecordError,
    RecordTooLargeError,
    RetriableError,
    StorageError,
    StoreUnavailableError,
)
from spark_eos.log.data.partitioners import Partitioner, Partitions, explicit
from spark_eos.log.data.timestamps import TimestampBounds
from spark_eos.log.data.writer import SegmentWriter
from spark_eos.log.log import Log
from spark_eos.log.schemas.fitting import Fitting
from spark_eos.log.topics import has_columns, is_compacted, layout_of, max_message_bytes
from spark_eos.protocol.actions.appends import Appended
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import StagedFile

CHUNK_BYTES = 1 << 20
"""Records gathered in lists before they become Arrow columns."""

_Numbers = npt.NDArray[np.int64]


class _Chunk(NamedTuple):
    """Rows that were handed to a writer at once."""

    targets: Partitions
    size: int
    timestamps: _Numbers | None
    """Of each row, in milliseconds; None if one future tells of all rows."""
    outcome: Outcome
    rows: pa.RecordBatch | pa.Table | None
    """Kept only where they may have to be staged again."""


class TopicBuffer:
    """The records of one topic that go into the log together. Not for several threads at once.

    With ``keep`` all of them stay in memory until the end, so that staging can be tried again after an
    error of the store; without, whatever outgrows ``buffer_bytes`` waits in files. ``request_bytes`` bounds
    a record. ``is_stuck`` is as in `Outcome`.

    Every call may be interrupted (Ctrl-C) anywhere: then rows may be half handed on, and either they are staged
    again, or `finish` refuses.
    """

    def __init__(
        self,
        log: Log,
        topic: Topic,
        partitioner: Partitioner,
        *,
        compression: Compression | None,
        buffer_bytes: int,
        request_bytes: int,
        keep: bool,
        is_stuck: Callable[[], bool],
        meter: Meter | None = None,
        metrics: ProducerMetrics | None = None,
    ) -> None:
        self._log = log
        self._request_bytes = request_bytes
        self._go_by(topic, partitioner)
        self._stage = partial(
            log.stage, compression=compression, buffer_bytes=buffer_bytes, request_bytes=request_bytes
        )
        self._keep = keep
        self._broken = False
        self._failure: EosLogError | None = None
        """Why rows that are kept could not be staged."""
        self._is_stuck = is_stuck
        self._metrics = metrics
        self.now_ns = log.clock.now_ns
        self._meter = meter
        self._chunk_bytes = min(CHUNK_BYTES, buffer_bytes)
        self.listed = self._no_records()
        """Records that were sent one by one. Without ``meter``: `hand_on` at the limit of their own."""
        self._writer: SegmentWriter | None = None
        self._files: list[StagedFile] = []
        self._chunks: list[_Chunk] = []

    @property
    def records(self) -> int:
        """How many were added."""
        return len(self.listed) + sum(chunk.size for chunk in self._chunks)

    def add_arrow(self, rows: pa.Table | pa.RecordBatch, partition: int | None) -> SendFuture:
        """Many records at once, of which one future tells."""
        self.hand_on()
        row_partitions = None
        if "partition" in rows.schema.names and (
            not self.topic.schemas or "partition" not in layout_of(self.topic).physical.names
        ):
            row_partitions = rows.column("partition")
            rows = rows.drop_columns(["partition"])
        rows = self._fitting(rows)
        self._check_times(rows)
        targets = self._route(rows, row_partitions) if partition is None else partition
        outcome = Outcome(self._is_stuck)
        self._take(rows, targets, None, outcome)
        return SendFuture(outcome, 0)

    def grow(self, topic: Topic, partitioner: Partitioner) -> None:
        """The topic has more partitions or other columns now: a writer for them takes over."""
        self._seal()
        self._go_by(topic, partitioner)

    def finish(self) -> tuple[StagedFile, ...]:
        """All that was added, durable. More may be added, and finished, afterwards.

        With ``keep`` it may be called again after an error. Raises `AbortableError` if rows may be missing.
        """
        if self._broken:
            if not self._keep:
                raise AbortableError(
                    f"a call that handed on rows for topic {self.topic.name!r} was interrupted or failed: some "
                    "are missing"
                )
            self._stage_again()
        self._seal()
        return tuple(self._files)

    def _go_by(self, topic: Topic, partitioner: Partitioner) -> None:
        """What the topic allows is checked before a record is added: it must not spoil those that wait."""
        limit = max_message_bytes(topic) or self._request_bytes
        self.record_bytes = -1 if topic.schemas else min(self._request_bytes, limit)
        """The most that a record that comes alone may have; -1: of this topic none can."""
        self.needs_key = is_compacted(topic)
        """Whether a record without a key is refused."""
        self.times = TimestampBounds(topic, lambda: self._log.time.record_ms(self._log.state))
        """What timestamps the topic allows."""
        self._fitting, self.topic, self._partitioner = Fitting(layout_of(topic)), topic, partitioner

    def _check_times(self, rows: pa.Table | pa.RecordBatch) -> None:
        name = layout_of(self.topic).timestamp_column
        if name in rows.schema.names and pa.types.is_timestamp(rows.schema.field(name).type):
            self.times.check_column(rows.column(name))

    def _stage_again(self) -> None:
        self.discard()
        try:
            self._broken = False
            for chunk in self._chunks:
                assert chunk.rows is not None
                self._append(chunk.rows, chunk.targets)
        except BaseException:
            self._broken = True
            raise

    def discard(self) -> None:
        """Delete what was staged: only if it is certainly in no entry."""
        self._drop_writer()
        self._log.discard(tuple(self._files))
        self._files.clear()

    def _tear(self) -> None:
        """Rows may be in the writer in part: it does not count, and all is staged again, or `finish` refuses."""
        self._broken = True
        self._drop_writer()

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.abandon()
            except IllegalStateError:  # It had finished, and that was interrupted: for `discard`.
                self._files.extend(writer.finish())

    def resolve(self, appended: Sequence[Appended]) -> None:
        """Settle the futures: where the records went."""
        self._note_end(sent=True)
        first: dict[int, int] = {}
        stamps: dict[int, int] = {}
        for batch in appended:
            first.setdefault(batch.partition, batch.base_offset)
            stamps[batch.partition] = batch.timestamp_ms
        bases = np.full(self.topic.partitions, NO_OFFSET, np.int64)
        for partition, offset in first.items():
            bases[partition] = offset
        before = np.zeros(self.topic.partitions, np.int64)
        for chunk in self._chunks:
            counts = _counts(chunk, len(before))
            if chunk.timestamps is None:
                answer = [
                    RecordMetadata(
                        self.topic.name,
                        part,
                        int(bases[part] + before[part]) if bases[part] >= 0 else NO_OFFSET,
                        stamps.get(part, -1),
                        int(counts[part]),
                    )
                    for part in np.flatnonzero(counts).tolist()
                ]
                chunk.outcome.settle(lambda _row, answer=answer: answer)  # type: ignore[misc]
            else:
                places = Places(self.topic.name, chunk.targets, chunk.timestamps, bases, before)
                chunk.outcome.settle(places.of)
            before = before + counts  # Not in place: the places have it.

    def fail(self, error: BaseException) -> None:
        """Fail the futures: the records did not go in, or their outcome is unknown."""
        self._note_end(sent=False)
        for outcome, *_ in self.outcomes():
            outcome.fail(error)

    def refusal(self, size: int) -> RecordTooLargeError:
        """Why a record of so many bytes cannot come alone, or without a key: raised, if none can."""
        name = self.topic.name
        if self.topic.schemas:
            raise has_columns(self.topic)
        if size <= self.record_bytes:
            raise InvalidRecordError(
                f"a record for topic {name!r} has no key, and the topic is compacted (cleanup.policy): give it a key, "
                "or set cleanup.policy=delete"
            )
        return RecordTooLargeError(
            f"a record for topic {name!r} has {size} bytes; at most {self.record_bytes} are possible "
            "(max.request.size of the producer, max.message.bytes of the topic)"
        )

    def outcomes(self) -> Iterator[tuple[Outcome, int, int]]:
        """All outcomes, each with the number of its futures, and of the records that one of them tells of."""
        for chunk in self._chunks:
            yield chunk.outcome, *((1, chunk.size) if chunk.timestamps is None else (chunk.size, 1))
        yield self.listed.outcome, len(self.listed), 1

    def _note_end(self, *, sent: bool) -> None:
        metrics, self._metrics = self._metrics, None  # The first end counts, as for the futures.
        if metrics is not None and sent:
            metrics.sent(self.topic.name, self.records, sum(staged.file.size for staged in self._files))
        elif metrics is not None:
            metrics.failed(self.topic.name, self.records)

    def _no_records(self) -> RecordBuffer:
        return RecordBuffer(self._is_stuck, self._meter or Meter(self._chunk_bytes))

    def hand_on(self) -> None:
        """Turn the lists into columns and hand them to the writer."""
        listed = self.listed
        if not listed:
            return
        rows, partitions = listed.columns(*self._log.time.stamp_records(self._log.state))
        targets = self._route(rows, partitions)
        timestamps = rows.column("timestamp").cast(pa.int64()).to_numpy()
        try:
            self.listed = self._no_records()
            self._take(rows, targets, timestamps, listed.outcome)
        except BaseException:
            if not self._has_taken(listed.outcome):
                self.listed = listed
            raise

    def _take(
        self,
        rows: pa.RecordBatch | pa.Table,
        targets: Partitions,
        timestamps: _Numbers | None,
        outcome: Outcome,
    ) -> None:
        """Rows to the writer, and what is to be told of them: both, or it is known that they may not match."""
        kept_rows = rows if self._keep else None
        try:
            self._append(rows, targets)
            self._chunks.append(_Chunk(targets, rows.num_rows, timestamps, outcome, kept_rows))
        except EosLogError:
            raise  # Refused, and the writer is as it was; or it has ended, and refuses all that follows.
        except BaseException:
            if not self._has_taken(outcome):
                self._tear()
            raise

    def _has_taken(self, outcome: Outcome) -> bool:
        return bool(self._chunks) and self._chunks[-1].outcome is outcome

    def _route(self, rows: pa.RecordBatch | pa.Table, row_partitions: pa.Array | None) -> Partitions:
        """The partition that a row names, else the partitioner's."""
        count = self.topic.partitions
        if row_partitions is None or row_partitions.null_count == len(row_partitions):
            return self._partitioner(rows, count)
        partitions = explicit(row_partitions, count)
        if not row_partitions.null_count:
            return partitions
        chosen = self._partitioner(rows, count)
        return np.where(partitions >= 0, partitions, np.asarray(chosen, np.int32)).astype(np.int32)

    def _append(self, rows: pa.RecordBatch | pa.Table, targets: Partitions) -> None:
        if self._writer is None:
            self._writer = self._stage(self.topic)
        try:
            self._writer.append(rows, targets)
        except (RetriableError, StorageError) as error:
            if not self._keep:
                raise
            # The rows are kept: they are staged again, or fail, at the end.
            self._broken, self._failure, self._writer = True, error, None

    def _seal(self) -> None:
        self.hand_on()
        try:
            if self._writer is not None:
                staged = self._writer.finish()
                self._files, self._writer = [*self._files, *staged], None
        except EosLogError:
            self._broken, self._writer = True, None  # It has discarded its rows.
            raise
        except BaseException:
            self._tear()
            raise
        if self._broken:
            raise self._failure or StoreUnavailableError(
                f"the rows for topic {self.topic.name!r} could not be staged; try again"
            )


class Accumulator:
    """The buffers of everything that goes into one request, by topic."""

    def __init__(self) -> None:
        self.buffers: dict[str, TopicBuffer] = {}
        self.meter = Meter()
        """Of what waits for the sender, as `Producer` counts it. In a transaction each topic has its own."""

    def __bool__(self) -> bool:
        return any(buffer.records for buffer in self.buffers.values())

    @property
    def bytes(self) -> int:
        """How many wait in memory, as `Producer` counts them."""
        meters = {self.meter, *(buffer.listed.meter for buffer in [*self.buffers.values()])}
        return sum(meter.bytes for meter in meters)

    def finish(self) -> tuple[tuple[tuple[str, str], ...], tuple[StagedFile, ...]]:
        """Make everything durable: (topic, topic id) of each topic, and the files."""
        files: list[StagedFile] = []
        for buffer in self.buffers.values():
            files += buffer.finish()
        topics = tuple(
            (name, buffer.topic.topic_id) for name, buffer in self.buffers.items() if buffer.records
        )
        return topics, tuple(files)

    def resolve(self, appended: Sequence[Appended]) -> None:
        """Hand out the offsets."""
        by_topic: dict[str, list[Appended]] = {}
        for batch in appended:
            by_topic.setdefault(batch.topic, []).append(batch)
        for name, buffer in self.buffers.items():
            buffer.resolve(by_topic.get(name, ()))

    def fail(self, error: BaseException) -> None:
        """Hand out the error."""
        for buffer in self.buffers.values():
            buffer.fail(error)

    def outcomes(self) -> list[tuple[Outcome, int, int]]:
        """See `TopicBuffer.outcomes`."""
        return [outcome for buffer in self.buffers.values() for outcome in buffer.outcomes()]

    def discard(self) -> None:
        """Delete what was staged: only if it is certainly in no entry."""
        for buffer in self.buffers.values():
            buffer.discard()


def _counts(chunk: _Chunk, partitions: int) -> _Numbers:
    """How many rows of a chunk go to each partition."""
    if isinstance(chunk.targets, int):
        return np.bincount([chunk.targets], [chunk.size], minlength=partitions).astype(np.int64)
    return np.bincount(chunk.targets, minlength=partitions)
