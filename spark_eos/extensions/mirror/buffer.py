"""A partition that this process mirrors: where it stands, and the records that wait for the next batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spark_eos.errors import InvalidRecordError
from spark_eos.extensions.mirror.plan import Share
from spark_eos.extensions.mirror.positions import MirroredBatch, MirroredPartition, Position
from spark_eos.protocol.types import EARLIEST_MS, LATEST_MS

_OVERHEAD_BYTES = 100
"""What a record takes in memory beside its key, value and headers."""


class Columns(NamedTuple):
    """Records by column, in their order."""

    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Sequence[tuple[str, bytes | None]] | None]
    timestamps: list[int]


class OpenPartition:
    """One partition between two batches. ``run_id`` is what the log knows this process by, for this partition."""

    def __init__(
        self,
        partition: MirroredPartition,
        run_id: str,
        last_known: MirroredBatch | None,
        start: Position,
    ) -> None:
        self.partition = partition
        self.run_id = run_id
        self.topic = start.topic
        self.target = start.target
        self.at_end = False
        """Whether Kafka has said that there is no more, since this process reads it."""
        self.bytes = 0
        self._last_known = last_known
        self._start = start
        self._clear(start.offset, start.leader_epoch)

    def _clear(self, next_offset: int, epoch: int) -> None:
        self.next_offset = next_offset
        self.epoch = epoch
        self._offsets: list[int] = []
        self._columns = Columns([], [], [], [])
        self.bytes = 0

    @property
    def name(self) -> str:
        """Topic and number, as in messages."""
        return f"{self.topic}-{self.partition.partition}"

    @property
    def records(self) -> int:
        """How many wait."""
        return len(self._offsets)

    @property
    def is_new(self) -> bool:
        """Whether there is something to commit."""
        return self._last_known is None or self.next_offset > self._start.offset

    def add(self, message: Any) -> None:
        """Take a record; one that was taken before is left out."""
        offset = message.offset()
        if offset < self.next_offset:
            return
        _, timestamp_ms = message.timestamp()
        if not EARLIEST_MS <= timestamp_ms <= LATEST_MS:
            raise InvalidRecordError(
                f"the record at offset {offset} of Kafka's {self.name} has the timestamp {timestamp_ms}, which is in "
                "no calendar: the log cannot keep it. Delete the record in Kafka (kafka-delete-records), or leave "
                "the topic out of --topic"
            )
        key, value, headers = message.key(), message.value(), message.headers()
        columns = self._columns
        columns.keys.append(key)
        columns.values.append(value)
        columns.headers.append(headers)
        columns.timestamps.append(timestamp_ms)
        self._offsets.append(offset)
        self.bytes += len(key or b"") + len(value or b"") + _OVERHEAD_BYTES
        for name, content in headers or ():
            self.bytes += len(name) + len(content or b"")
        epoch = message.leader_epoch()
        if epoch is not None:
            self.epoch = epoch
        self.next_offset = offset + 1

    def reach_end(self, offset: int) -> None:
        """Kafka has nothing more before ``offset``: what lies there are markers, or records that were aborted."""
        self.at_end = True
        self.next_offset = max(self.next_offset, offset)

    def share(self) -> tuple[Share, Columns]:
        """All that waits."""
        after = self._start._replace(offset=self.next_offset, leader_epoch=self.epoch)
        offsets = np.array(self._offsets, np.int64)
        return Share(self.partition, self.run_id, self._last_known, after, offsets), self._columns

    def committed(self, end: Position, batch_id: int) -> None:
        """What waited is in the log, up to ``end``."""
        self._last_known, self._start = MirroredBatch(end, batch_id, end.text), end
        self._clear(end.offset, end.leader_epoch)
