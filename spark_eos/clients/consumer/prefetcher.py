"""What a consumer will read next: on its way while the consumer is busy with what it has."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from contextlib import ExitStack

from spark_eos.clients.consumer.partition_state import PartitionState
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.prefetch import prefetch_batches
from spark_eos.log.data.records import Records, read
from spark_eos.log.log import Log
from spark_eos.protocol.state import Topic
from spark_eos.storage import Readable


class Prefetcher:
    """Reads the batches of a consumer's partitions; over a network, ahead, as `spark_eos.log.data.prefetch` does it.

    It looks at the plans of all partitions at once. It does so again when all of that was read, or when a partition was
    added, removed, paused or sought in. Batches that were read in vain are forgotten then.
    """

    def __init__(self, log: Log) -> None:
        self.bytes_read = 0
        """Of stored batches, since the start."""
        self._log = log
        self._make_pool = log.environment.pool
        self._ahead = ExitStack()
        self._reader: Readable | None = None
        self._left: set[tuple[str, int]] = set()
        self._seeks: dict[PartitionState, int] = {}

    def plan(self, partitions: Collection[PartitionState], limit: int) -> None:
        """These are read next, in this order, ``limit`` rows of each at a time and at least one batch."""
        store = self._log.store  # Each time: data files may be moved to another one.
        if store.requests_are_free:
            return
        seeks = {assigned: assigned.seeks for assigned in partitions}
        if self._left and seeks == self._seeks:
            return
        self.close()
        fetches = [*_in_turns(partitions, limit)]
        self._seeks, self._left = seeks, {(fetch.file.name, fetch.batch.position) for fetch in fetches}
        self._reader = self._ahead.enter_context(prefetch_batches(store, fetches, self._make_pool))

    def read(self, topic: Topic, fetch: Fetch) -> Records:
        """The rows of a planned fetch. See `spark_eos.log.data.records.read`."""
        self.bytes_read += fetch.batch.length
        self._left.discard((fetch.file.name, fetch.batch.position))
        return read(self._reader or self._log.store, topic, fetch)

    def close(self) -> None:
        """Wait for nothing that is under way."""
        self._reader = None
        self._left.clear()
        self._ahead.close()


def _in_turns(partitions: Collection[PartitionState], limit: int) -> Iterator[Fetch]:
    """What is planned, in the order in which a consumer comes to it."""
    waiting = deque(iter(assigned.planned) for assigned in partitions)
    while waiting:
        planned, rows = waiting.popleft(), 0
        for fetch in planned:
            yield fetch
            rows += fetch.records
            if rows >= limit:
                waiting.append(planned)
                break
