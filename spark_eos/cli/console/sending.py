"""Which lines are in the log: what was sent, what was acknowledged, and what a failure left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from spark_eos.cli.console.intake import with_line
from spark_eos.errors import CommitOutcomeUnknownError, EosLogError

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_eos.clients.producer.futures import RecordFuture
    from spark_eos.clients.producer.producer import Producer
    from spark_eos.clients.records import RecordMetadata

Span = tuple[int, int]


class Sending:
    """Sends rows of numbered lines, and keeps account of them."""

    def __init__(self, producer: Producer, topic: str, partition: int | None) -> None:
        self._producer, self._topic, self._partition = producer, topic, partition
        self._waiting: deque[tuple[Span, RecordFuture[list[RecordMetadata]]]] = deque()
        self.acknowledged: list[Span] = []
        self.unknown: list[Span] = []
        self._in_hand: Span | None = None
        """Lines that the producer is just being given: if that is interrupted, it may have them or not."""
        self.error: EosLogError | None = None
        self.placed: dict[int, tuple[int, int]] = {}
        """By partition its first offset and how many records went there."""

    @property
    def count(self) -> int:
        """How many lines are known to be in the log."""
        return sum(last - first + 1 for first, last in self.acknowledged)

    def send(self, rows: pa.RecordBatch, first: int) -> None:
        """Send the rows of the lines from ``first`` on. Raises the error of an earlier one."""
        span = self._in_hand = (first, first + rows.num_rows - 1)
        try:
            future = self._producer.send_arrow(self._topic, rows, self._partition)
        except EosLogError as error:
            self._in_hand = None
            raise with_line(error, *span) from error
        self._waiting.append((span, future))
        self._in_hand = None
        while self._waiting and self._waiting[0][1].done():
            self.settle_one()
        self.check()

    def settle(self) -> None:
        """Wait until everything that was sent is in the log. Raises the first error."""
        while self._waiting:
            self.settle_one()
        self.check()

    def check(self) -> None:
        """Raise the first error of what was sent."""
        if self.error is not None:
            raise self.error

    def settle_one(self) -> None:
        """Wait for the oldest lines that are not settled."""
        span, future = self._waiting[0]
        try:
            placed = future.result()
        except EosLogError as error:
            if isinstance(error, CommitOutcomeUnknownError):
                _add(self.unknown, span)
            self.error = self.error or with_line(error, *span)
        else:
            _add(self.acknowledged, span)
            for metadata in placed:
                offset, count = self.placed.get(metadata.partition, (metadata.offset, 0))
                self.placed[metadata.partition] = (offset, count + metadata.count)
        self._waiting.popleft()

    def give_up(self) -> None:
        """Wait for nothing more: of lines that are not settled it stays unknown whether they are in the log."""
        while self._waiting:
            if self._waiting[0][1].done():
                self.settle_one()
            else:
                _add(self.unknown, self._waiting[0][0])
                self._waiting.popleft()

    def account(self) -> str:
        """Which lines are in the log, in words."""
        text = f"{_lines(self.acknowledged)} in the log"
        unknown = [*self.unknown]
        if self._in_hand is not None:
            _add(unknown, self._in_hand)
        if unknown:
            return f"{text}, of {_words(unknown)} it is not known, the others are not there"
        return f"{text}, the others not" if self.acknowledged else text


def _add(spans: list[Span], span: Span) -> None:
    """Once: what was interrupted is done again."""
    if spans and spans[-1][1] >= span[1]:
        return
    if spans and spans[-1][1] + 1 == span[0]:
        spans[-1] = (spans[-1][0], span[1])
    else:
        spans.append(span)


def _words(spans: Iterable[Span]) -> str:
    return "lines " + ", ".join(f"{first} to {last}" if first < last else str(first) for first, last in spans)


def _lines(spans: list[Span]) -> str:
    if not spans:
        return "no line is"
    if len(spans) == 1 and spans[0][0] == spans[0][1]:
        return f"line {spans[0][0]} is"
    return f"{_words(spans)} are"
