"""Staging and reading without a log handle: what a task needs on a machine that only moves bytes.

The driver knows the state; a task gets the topic, the position in the log, and plans, and never has to
read the transaction log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from spark_eos.config.compression import Compression
from spark_eos.errors import EosLogError
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Clock
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.prefetch import prefetch_batches
from spark_eos.log.data.records import Records, needs_file, read
from spark_eos.log.data.timestamps import TimestampBounds, going_on
from spark_eos.log.data.writer import SegmentWriter
from spark_eos.log.data_place import DataPlace
from spark_eos.log.topics import compression_of_topic, is_compacted, key_columns, layout_of, max_message_bytes
from spark_eos.protocol.state import Topic
from spark_eos.storage import NO_SETTINGS, Settings, Store, shared_store

BUFFER_BYTES = 32 * 1024 * 1024
"""Rows that a writer holds before it sorts them by partition and writes them."""


def stage_rows(
    store: Store,
    topic: Topic,
    base_seq: int,
    clock: Clock = SYSTEM,
    *,
    compression: Compression | None = None,
    buffer_bytes: int = BUFFER_BYTES,
    write_behind: bool = False,
    now_ms: int | None = None,
    times: TimestampBounds | None = None,
    request_bytes: int | None = None,
) -> SegmentWriter:
    """A writer for rows of the topic. ``base_seq`` is the next free position of the log, as last seen.

    ``request_bytes`` is what a row may have at most (max.request.size) where the topic allows more.

    ``now_ms`` is the time (None: the clock's). ``times`` bounds timestamps that the rows have.

    ``compression`` is what the producer chose; the topic's ``compression.type`` goes before it.
    """
    limits = [limit for limit in (max_message_bytes(topic), request_bytes) if limit is not None]
    return SegmentWriter(
        store,
        topic.name,
        paths.data_file(topic.name, topic.topic_id, base_seq, clock.unique().hex()),
        layout_of(topic),
        topic.partitions,
        now_ms=clock.now_ms() if now_ms is None else now_ms,
        times=times,
        compression=compression_of_topic(topic, compression),
        max_message_bytes=min(limits, default=None),
        keys=key_columns(topic) if is_compacted(topic) else (),
        buffer_bytes=buffer_bytes,
        write_behind=write_behind,
    )


_NEAR_MS = 3_600_000
"""A task's clock that differs more from the driver's, which the log's has confirmed, is held against the store's."""


class TaskStorage(NamedTuple):
    """A place to stage rows and to read planned ones; goes to tasks by value (pickle).

    ``planned_ms`` is the time at which it was made, if that is known: by it a task judges its own clock.
    """

    url: str
    base_seq: int
    settings: Settings = NO_SETTINGS
    planned_ms: int | None = None
    place: DataPlace = DataPlace()
    """Where the log's data files are, by a state that is not older than ``base_seq``."""

    @property
    def store(self) -> Store:
        """The store of the log, with that of its data files."""
        return self.place.of(shared_store(self.url, self.settings))

    def writer(
        self, topic: Topic, *, compression: Compression | None = None, request_bytes: int | None = None
    ) -> SegmentWriter:
        """See `stage_rows`."""
        store = self.store
        now_ms = self._now_ms(store)
        return stage_rows(
            store,
            topic,
            self.base_seq,
            compression=compression,
            now_ms=now_ms,
            times=TimestampBounds(topic, going_on(now_ms, SYSTEM)),
            request_bytes=request_bytes,
        )

    def _now_ms(self, store: Store) -> int:
        now_ms = SYSTEM.now_ms()
        if self.planned_ms is None or abs(now_ms - self.planned_ms) <= _NEAR_MS:
            return now_ms
        store_ms = None
        with suppress(EosLogError):
            store_ms = store.now_ms()
        store_ms = self.planned_ms if store_ms is None else store_ms
        return now_ms if abs(now_ms - store_ms) <= _NEAR_MS else store_ms

    def read(self, topic: Topic, fetch: Fetch) -> Records:
        """See `spark_eos.log.data.records.read`."""
        return read(self.store, topic, fetch)

    @contextmanager
    def reading(
        self,
        topics: Mapping[str, Topic],
        fetches: Sequence[Fetch],
        columns: Collection[str] | None = None,
    ) -> Iterator[Callable[[Fetch], Records]]:
        """`read` for these fetches, as `reading_ahead`."""
        with reading_ahead(self.store, topics, fetches, columns) as read_one:
            yield read_one


@contextmanager
def reading_ahead(
    store: Store,
    topics: Mapping[str, Topic],
    fetches: Sequence[Fetch],
    columns: Collection[str] | None = None,
) -> Iterator[Callable[[Fetch], Records]]:
    """`read` for these fetches, best in this order: a store that takes its time is asked ahead."""
    ahead = []
    if not store.requests_are_free:
        ahead = [fetch for fetch in fetches if needs_file(topics[fetch.topic], fetch, columns)]
    with prefetch_batches(store, ahead) as source:
        yield lambda fetch: read(source, topics[fetch.topic], fetch, columns)
