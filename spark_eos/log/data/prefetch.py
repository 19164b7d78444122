"""Prefetch: batches are read before they are decoded. What lies together is one request, and several are under way.

Where a read is a system call this would only cost; where it is a request, most of its time is waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from spark_eos.log.data.planner import Fetch
from spark_eos.storage import Readable, Store
from spark_eos.storage.forks import generation

MAX_GAP_BYTES = 64 << 10
"""Ranges that are no further apart are read by one request: the bytes between cost less than another one."""

MAX_COALESCED_BYTES = 8 << 20
"""A request asks for no more, unless a single batch is larger."""

MAX_BUFFERED_BYTES = 32 << 20
"""No more than this is held, or on its way, before it is asked for."""

MAX_CONCURRENCY = 8
"""Requests that are under way at the same time."""

_Batch = tuple[str, int]
"""Its file, and where in it it begins."""


@contextmanager
def prefetch_batches(
    store: Store, fetches: Sequence[Fetch], make_pool: Callable[[int, str], Executor] | None = None
) -> Iterator[Readable]:
    """What reads the batches of ``fetches``, each as often as it is in there, best in this order."""
    spans = {} if store.requests_are_free else _spans(fetches)
    if len(spans) < 2:
        yield store
        return
    pool = (make_pool or ThreadPoolExecutor)(MAX_CONCURRENCY, "read-ahead")
    try:
        ahead = _Ahead(store, spans, pool)
        ahead.top_up()
        yield ahead
    finally:
        # A reader that stops early does not wait for what is under way.
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class _Span:
    name: str
    start: int
    end: int
    uses: int
    answer: Future[pa.Buffer] | None = None


def _spans(fetches: Sequence[Fetch]) -> dict[_Batch, _Span]:
    """The request that brings each batch, in the order in which they are needed first."""
    uses: dict[_Batch, int] = {}
    lengths: dict[_Batch, int] = {}
    for fetch in fetches:
        batch = (fetch.file.name, fetch.batch.position)
        uses[batch] = uses.get(batch, 0) + 1
        lengths[batch] = fetch.batch.length
    span_of: dict[_Batch, _Span] = {}
    span: _Span | None = None
    for batch in sorted(uses):
        name, start = batch
        end = start + lengths[batch]
        near = span is not None and span.name == name and start <= span.end + MAX_GAP_BYTES
        if span is not None and near and end - span.start <= MAX_COALESCED_BYTES:
            span.end = max(span.end, end)
            span.uses += uses[batch]
        else:
            span = _Span(name, start, end, uses[batch])
        span_of[batch] = span
    return {batch: span_of[batch] for batch in uses}


class _Ahead:
    """For one thread, which asks for the batches; the requests are made by those of ``pool``."""

    def __init__(self, store: Store, spans: dict[_Batch, _Span], pool: Executor) -> None:
        self.url = store.url
        self._store = store
        self._spans = spans
        self._pool = pool
        self._waiting = list({id(span): span for span in spans.values()}.values())
        self._waiting.reverse()
        self._held = 0
        self._made_in = generation()

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """As `Store.read`, from what was read ahead if it is one of the batches."""
        span = self._spans.get((name, offset))
        is_planned = span is not None and span.uses and length is not None and offset + length <= span.end
        if span is None or length is None or not is_planned or self._made_in != generation():
            return self._store.read(name, offset, length)  # A forked process has none of the threads.
        try:
            answer = self._ask(span)
        except RuntimeError:  # The process ends and has no new threads: one is read after the other.
            return self._store.read(name, offset, length)
        span.uses -= 1
        if not span.uses:
            span.answer = None
            self._held -= span.end - span.start
        data = answer.result()
        self.top_up()
        first = min(offset - span.start, data.size)
        return data.slice(first, min(length, data.size - first))

    def top_up(self) -> None:
        """Ask for what comes next, as long as there is room."""
        while self._waiting:
            span = self._waiting[-1]
            if span.answer is None and span.uses:
                if self._held and self._held + span.end - span.start > MAX_BUFFERED_BYTES:
                    return
                try:
                    self._ask(span)
                except RuntimeError:
                    return  # As above.
            self._waiting.pop()

    def _ask(self, span: _Span) -> Future[pa.Buffer]:
        if span.answer is None:
            span.answer = self._pool.submit(self._store.read, span.name, span.start, span.end - span.start)
            self._held += span.end - span.start
        return span.answer
