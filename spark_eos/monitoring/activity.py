"""What goes on in a log: how much is written, to which topics, how far readers are behind, what is open.

A `Watch` looks at the log now and then: each look is one poll, and what is written between two looks gives the rates.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from spark_eos.log.log import Log
from spark_eos.monitoring.backlog import appended
from spark_eos.monitoring.elsewhere import QueryCommit, query_commits
from spark_eos.monitoring.lag import Lag, lags_at
from spark_eos.protocol.state import PartitionKey, Producer, State

WINDOW_S = 10.0
"""Rates are those of so many seconds: of one second they would jump."""


class HeldBack(NamedTuple):
    """A partition that an open transaction has written to.

    Attributes
    ----------
    topic, partition
        The partition.
    first_offset
        The first offset of the transaction there.
    offsets
        How many offsets it holds back from ``read_committed`` readers: all from its first one to the end of the
        partition. 0 if an older transaction does.
    """

    topic: str
    partition: int
    first_offset: int
    offsets: int


class OpenTransaction(NamedTuple):
    """A transaction that is open.

    Attributes
    ----------
    transactional_id
        Of its producer; empty if the producer has none.
    producer_id, epoch
        Of its producer.
    started_ms
        When it began, in milliseconds since 1970 (UTC).
    age_ms
        For how long it has been open.
    timeout_ms
        After so long it is aborted, if a long-lived client follows the log.
    partitions
        Where it has written, and what it holds back there; most first.
    groups
        The groups whose offsets it will commit.
    is_prepared
        Whether it waits for the decision of another system; it has no timeout then.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    started_ms: int
    age_ms: int
    timeout_ms: int
    partitions: tuple[HeldBack, ...]
    groups: tuple[str, ...]
    is_prepared: bool = False

    @property
    def is_overdue(self) -> bool:
        """Whether it is past its timeout."""
        return not self.is_prepared and self.age_ms > self.timeout_ms

    @property
    def held_back(self) -> int:
        """Offsets that it holds back in all partitions."""
        return sum(partition.offsets for partition in self.partitions)


class TopicActivity(NamedTuple):
    """What is written to a topic, and what is in it.

    Attributes
    ----------
    name
        The name of the topic.
    partitions
        The number of its partitions.
    offsets
        Offsets between the starts and the ends of its partitions.
    records_per_s, bytes_per_s
        What was written to it in the last seconds, None in the first look. Bytes are as stored.
    held_back
        Offsets that open transactions hold back.
    """

    name: str
    partitions: int
    offsets: int
    records_per_s: float | None
    bytes_per_s: float | None
    held_back: int


class Activity(NamedTuple):
    """A look at a log.

    Attributes
    ----------
    url, log_id
        The log.
    seq
        The number of the newest entry.
    log_time_ms
        The time of the newest entry.
    now_ms
        The time of the look: by this machine's clock, or by the store's where that contradicts it.
    window_s
        The rates are of so many seconds before the look; 0 for the first one, which has no rates.
    entries_per_s, records_per_s, bytes_per_s
        What was written in these seconds; None in the first look: one look tells no rate.
    topics
        All topics, by name.
    lags
        How far all readers are behind.
    transactions
        The open transactions, the oldest first.
    elsewhere
        Queries that read outside of the log, mirrors of Kafka among them: how far they are behind, and whether they
        run, is not known.
    """

    url: str
    log_id: str
    seq: int
    log_time_ms: int
    now_ms: int
    window_s: float
    entries_per_s: float | None
    records_per_s: float | None
    bytes_per_s: float | None
    topics: list[TopicActivity]
    lags: list[Lag]
    transactions: list[OpenTransaction]
    elsewhere: list[QueryCommit]


class _Written(NamedTuple):
    """What was written between two looks, the second of which was at ``at_s``; records and bytes by topic id."""

    at_s: float
    entries: int
    topics: dict[str, tuple[int, int]]


class Watch:
    """Looks at one log, again and again. Not for several threads at once. It never writes.

    Parameters
    ----------
    log
        The log.

    Examples
    --------
    >>> from spark_eos import Log, Producer
    >>> from spark_eos.monitoring import Watch
    >>> with Producer("memory://watched") as producer:
    ...     _ = producer.send("orders", b"x")
    >>> look = Watch(Log.shared("memory://watched")).look()
    >>> [(topic.name, topic.offsets) for topic in look.topics], look.lags, look.transactions
    ([('orders', 1)], [], [])
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._state: State | None = None
        self._first_s = log.clock.monotonic()
        self._window: deque[_Written] = deque()

    def look(self) -> Activity:
        """Read the log to its end, once.

        Returns
        -------
        Activity
            The log as it is now. It raises what `Log.follow` raises.
        """
        log, before = self._log, self._state
        state = log.follow()
        now_s, now_ms = log.clock.monotonic(), log.time.record_ms(state)
        if before is None:
            self._first_s = now_s
        else:
            self._note(before, state, now_s)
        self._state = state
        window_s = now_s - self._first_s
        entries = sum(sample.entries for sample in self._window)
        sums: dict[str, list[int]] = {}
        for sample in self._window:
            for topic_id, (records, size) in sample.topics.items():
                total = sums.setdefault(topic_id, [0, 0])
                total[0] += records
                total[1] += size
        records = sum(total[0] for total in sums.values())
        size = sum(total[1] for total in sums.values())
        rates = _rate(entries, window_s), _rate(records, window_s), _rate(size, window_s)
        return Activity(
            *(log.url, log.log_id, state.seq, state.timestamp_ms, now_ms, window_s),
            *rates,
            _topics(state, sums, window_s),
            lags_at(log, state, now_ms),
            open_transactions(state, now_ms),
            [query for query in query_commits(state) if not query.reads_here],
        )

    def _note(self, before: State, state: State, now_s: float) -> None:
        topics: dict[str, tuple[int, int]] = {}
        if state.partitions is not before.partitions:
            for key, partition in state.partitions.items():
                had = before.partitions.get(key)
                if had is partition or (since := 0 if had is None else had.end) == partition.end:
                    continue
                new = appended(partition, since)
                records, size = topics.get(key[0], (0, 0))
                topics[key[0]] = (records + new.records, size + new.bytes)
        self._window.append(_Written(now_s, state.seq - before.seq, topics))
        while len(self._window) > 1 and self._window[0].at_s <= now_s - WINDOW_S:
            self._first_s = self._window.popleft().at_s


def _rate(amount: int, window_s: float) -> float | None:
    return amount / window_s if window_s > 0 else None


def _topics(state: State, sums: dict[str, list[int]], window_s: float) -> list[TopicActivity]:
    activities = []
    for name in sorted(state.topics):
        topic = state.topics[name]
        parts = [state.partitions[topic.topic_id, number] for number in range(topic.partitions)]
        records, size = sums.get(topic.topic_id, (0, 0))
        offsets = sum(part.end - part.start for part in parts)
        held_back = sum(part.end - part.last_stable_offset for part in parts if part.open)
        rates = _rate(records, window_s), _rate(size, window_s)
        activities.append(TopicActivity(name, topic.partitions, offsets, *rates, held_back))
    return activities


def open_transactions(state: State, now_ms: int) -> list[OpenTransaction]:
    """The open transactions of ``state``, the oldest first. Pure."""
    names = {topic.topic_id: name for name, topic in state.topics.items()}
    transactions = [
        _open_transaction(state, names, state.producers[producer_id], now_ms)
        for producer_id in state.open_transactions
    ]
    return sorted(transactions, key=lambda transaction: (-transaction.age_ms, transaction.producer_id))


def _open_transaction(
    state: State, names: dict[str, str], producer: Producer, now_ms: int
) -> OpenTransaction:
    partitions = [_held_back(state, names, producer, key) for key in producer.touched]
    return OpenTransaction(
        producer.transactional_id or "",
        producer.producer_id,
        producer.epoch,
        producer.started_ms,
        max(0, now_ms - producer.started_ms),
        producer.timeout_ms,
        tuple(
            sorted(
                partitions, key=lambda partition: (-partition.offsets, partition.topic, partition.partition)
            )
        ),
        tuple(sorted({group for group, _, _ in producer.pending})),
        not producer.has_timeout,
    )


def _held_back(state: State, names: dict[str, str], producer: Producer, key: PartitionKey) -> HeldBack:
    partition = state.partitions[key]
    first = partition.open.get(producer.producer_id, partition.end)
    is_oldest = first == partition.last_stable_offset
    return HeldBack(names[key[0]], key[1], first, partition.end - first if is_oldest else 0)
