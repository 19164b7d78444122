"""Lag of everything that reads a log: consumer groups, Spark queries, and publications of tables.

All of it is in the log's state. `lags_of` is a pure function of the state and the time. `lags` brings the state forward
first, and remembers what does not change from one look to the next. Neither writes.

Every committed offset of a group is one row. It is the row of a query if the last micro-batch of the query committed
it, since the query goes on there; else it is the row of the group. A partition that is assigned to a member, and has no
committed offset, is a row without a lag: where the group begins depends on its ``auto.offset.reset``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from spark_eos.log.log import Log
from spark_eos.monitoring.backlog import (
    NOTHING,
    Backlog,
    PageSums,
    RowSums,
    backlog,
    is_record_batch,
    time_in,
)
from spark_eos.monitoring.places import Kind, Place, places, range_of
from spark_eos.protocol.index import Index, IndexPage, Load, PageContent
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import Partition, PartitionKey, State

_LOADS = 32
"""Index pages that one look asks for at most, to learn when a record was written. Most are in memory."""


class Lag(NamedTuple):
    """How far one reader is behind in one partition. ``kind``, ``name``, ``topic`` and ``partition`` are unique.

    Attributes
    ----------
    kind
        ``group``, ``query`` (a Spark query that commits into this log) or ``publication`` (tables of topics).
    name
        The group's id, the query's ``transactional.id``, or the name of the publication.
    topic, partition
        The partition that is read.
    group
        The group that holds the committed offset; None for a publication.
    committed
        The next offset to read; None if there is none.
    start
        The first offset that is still in the log.
    last_stable_offset
        Where ``read_committed`` readers end: the first offset of the oldest open transaction, else ``end``.
    end
        The offset after the last record.
    offsets
        Offsets up to the last stable one, control batches included. A reader that has committed a later offset reads
        uncommitted records; its lag counts up to ``end``. None if nothing is committed.
    records
        Records among these offsets, without those of aborted transactions.
    bytes
        Bytes of these records as they are stored. Of a batch that was read in part, a share counts.
    time_ms
        How old the first of these records is, by its own timestamp; 0 without one.
    lost
        Offsets that were deleted before they were read: retention has passed the reader.
    is_exact
        False: ``records`` and ``bytes`` are estimated, from index pages or for the rest of a compacted batch, and
        ``time_ms`` may be.
    """

    kind: Kind
    name: str
    topic: str
    partition: int
    group: str | None
    committed: int | None
    start: int
    last_stable_offset: int
    end: int
    offsets: int | None
    records: int | None
    bytes: int | None
    time_ms: int | None
    lost: int
    is_exact: bool

    @property
    def held_back(self) -> int:
        """Offsets that open transactions hold back from ``read_committed`` readers."""
        return self.end - self.last_stable_offset

    @property
    def is_unknown(self) -> bool:
        """Whether there is something to read, and how much of it was read is not in the log: nothing was committed."""
        return self.offsets is None and self.end > self.start


class LagTotal(NamedTuple):
    """How far one reader is behind in all its partitions.

    Attributes
    ----------
    kind, name
        As in `Lag`.
    partitions
        The number of partitions.
    unknown
        Those of them that have something to read and no committed offset, so that the lag there is not known. They add
        nothing to the sums.
    offsets, records, bytes, lost, held_back
        Sums over the partitions.
    time_ms
        The largest one of all partitions.
    is_exact
        Whether all of it is exact.
    """

    kind: Kind
    name: str
    partitions: int
    unknown: int
    offsets: int
    records: int
    bytes: int
    time_ms: int
    lost: int
    held_back: int
    is_exact: bool

    @property
    def is_unknown(self) -> bool:
        """Whether no lag is known: none where it has committed, and in some partitions it has committed nothing."""
        return self.unknown > 0 and not self.offsets


class _Sums(NamedTuple):
    """The sums of a partition's index, as it was."""

    partition: Partition
    pages: PageSums
    tail: RowSums


class _Memo:
    """What one look leaves for the next: sums of partitions that have not changed, times of records in index pages."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sums: dict[PartitionKey, _Sums] = {}
        self.times: dict[tuple[IndexPage, int], int | None] = {}


_MEMOS: WeakKeyDictionary[Log, _Memo] = WeakKeyDictionary()
_MEMOS_OF_OTHERS: WeakKeyDictionary[Log, _Memo] = WeakKeyDictionary()
"""For readers that commit into other logs (`measured`)."""
_MEMOS_LOCK = threading.Lock()


def lags(log: Log, *, exact: bool = False, max_age_s: float = 1.0) -> list[Lag]:
    """Tell how far all readers of a log are behind: groups, Spark queries and publications.

    It reads the log to its end first, and never writes. The cost depends on the number of readers and on what has
    changed, not on the length of the history. A few index pages may be read, once, for the time of the first record.

    Parameters
    ----------
    log
        The log.
    exact
        Read the index pages of all offsets that are behind. Then only the rest of a compacted batch that was read in
        part is estimated.
    max_age_s
        Where a look costs a request: a state that was the newest one this many seconds ago is new enough.

    Returns
    -------
    list of Lag
        Sorted by kind, name, topic and partition.

    Examples
    --------
    >>> from spark_eos import Admin, Log, Producer, TopicPartition
    >>> from spark_eos.monitoring import lags
    >>> with Producer("memory://lags") as producer:
    ...     futures = [producer.send("orders", b"x") for _ in range(3)]
    >>> Admin("memory://lags").alter_group_offsets("billing", {TopicPartition("orders", 0): 1})
    >>> (lag,) = lags(Log.shared("memory://lags"))
    >>> lag.kind, lag.name, lag.committed, lag.end, lag.offsets, lag.records
    ('group', 'billing', 1, 3, 2, 2)
    """
    state = log.follow(max_age_s)
    now_ms = log.time.record_ms(state)
    return lags_of(state, now_ms, log.load) if exact else lags_at(log, state, now_ms)


def lags_at(log: Log, state: State, now_ms: int) -> list[Lag]:
    """As `lags`, of a state that the caller has just read from ``log``."""
    with _MEMOS_LOCK:
        memo = _MEMOS.setdefault(log, _Memo())
    with memo.lock:
        return _measured(state, places(state), now_ms, memo, log.load)


def measured(
    log: Log, state: State, at_places: Sequence[Place], now_ms: int, *, exact: bool = False
) -> list[Lag]:
    """As `lags_at`, of these places, whose readers commit into other logs."""
    if exact:
        return _exactly(state, at_places, now_ms, log.load)
    with _MEMOS_LOCK:
        memo = _MEMOS_OF_OTHERS.setdefault(log, _Memo())
    with memo.lock:
        return _measured(state, at_places, now_ms, memo, log.load)


def lags_of(state: State, now_ms: int, load: Load | None = None) -> list[Lag]:
    """How far all readers are behind in ``state``. Pure.

    With ``load``, which gives the content of index pages (`Log.load`), only the rest of a compacted batch that was read
    in part is estimated. Without it, nothing is read.
    """
    if load is None:
        return _measured(state, places(state), now_ms, _Memo(), None)
    return _exactly(state, list(places(state)), now_ms, load)


def limit_ms(state: State, kind: Kind, name: str) -> int:
    """A reader is behind if its first unread record is older. It may be meant to read once a day: the log cannot tell.

    What is set for its name holds, else what is set for all. All that warns of readers goes by it.
    """
    limit = "health.publication.lag.max.ms" if kind == "publication" else "health.lag.max.ms"
    return setting(state, f"{limit}:{name}")


def totals(found: Iterable[Lag]) -> list[LagTotal]:
    """Sum lags up by kind and name.

    Parameters
    ----------
    found
        What `lags` has returned.

    Returns
    -------
    list of LagTotal
        In the order in which the names come.

    Examples
    --------
    >>> from spark_eos import Admin, Log, Producer, TopicPartition
    >>> from spark_eos.monitoring import lags, totals
    >>> with Producer("memory://totals") as producer:
    ...     for number in range(5):
    ...         _ = producer.send("orders", b"x", partition=0)
    >>> Admin("memory://totals").alter_group_offsets("billing", {TopicPartition("orders", 0): 1})
    >>> (total,) = totals(lags(Log.shared("memory://totals")))
    >>> total.name, total.partitions, total.records
    ('billing', 1, 4)
    """
    names: dict[tuple[Kind, str], list[Lag]] = {}
    for lag in found:
        names.setdefault((lag.kind, lag.name), []).append(lag)
    return [
        LagTotal(
            *(kind, name, len(parts), sum(part.is_unknown for part in parts)),
            offsets=sum(part.offsets or 0 for part in parts),
            records=sum(part.records or 0 for part in parts),
            bytes=sum(part.bytes or 0 for part in parts),
            time_ms=max(part.time_ms or 0 for part in parts),
            lost=sum(part.lost for part in parts),
            held_back=sum(part.held_back for part in parts),
            is_exact=all(part.is_exact for part in parts),
        )
        for (kind, name), parts in names.items()
    ]


# -- How much that is -------------------------------------------------------------------------------


def _exactly(state: State, at_places: Sequence[Place], now_ms: int, load: Load) -> list[Lag]:
    firsts: dict[PartitionKey, int] = {}
    for place in at_places:
        start, stop = range_of(place, state.partitions[place.key])
        if start is not None and start < stop:
            firsts[place.key] = min(start, firsts.get(place.key, start))
    sums = {
        key: RowSums(state.partitions[key], state.partitions[key].index.scan(first, load))
        for key, first in firsts.items()
    }
    measures = []
    for place in at_places:
        start, stop = range_of(place, state.partitions[place.key])
        is_at_end = start is None or start >= stop
        measures.append(
            _lag(state, place, now_ms, NOTHING if is_at_end else sums[place.key].between(start or 0, stop))
        )
    return measures


def _measured(
    state: State, at_places: Iterable[Place], now_ms: int, memo: _Memo, load: Load | None
) -> list[Lag]:
    sums: dict[PartitionKey, _Sums] = {}
    times: dict[tuple[IndexPage, int], int | None] = {}
    budget = [_LOADS]
    measures = []
    for place in at_places:
        partition = state.partitions[place.key]
        start, stop = range_of(place, partition)
        much = NOTHING
        if start is not None and start < stop:
            place_sums = sums.get(place.key)
            if place_sums is None:
                place_sums = sums[place.key] = _sums(partition, memo.sums.get(place.key))
            first_ms = _first_ms(place_sums, start, memo, times, load, budget)
            much = backlog(place_sums.pages, place_sums.tail, start, stop, first_ms)
        measures.append(_lag(state, place, now_ms, much))
    memo.sums, memo.times = sums, times
    return measures


def _sums(partition: Partition, earlier: _Sums | None) -> _Sums:
    """The sums of a partition; what has not changed is taken from those that are known."""
    if earlier is not None and earlier.partition is partition:
        return earlier
    pages = partition.index.pages
    same = earlier is not None and earlier.pages.pages is pages
    page_sums = earlier.pages if earlier is not None and same else PageSums(pages)
    return _Sums(partition, page_sums, RowSums(partition, partition.index.tail))


def _first_ms(
    sums: _Sums,
    start: int,
    memo: _Memo,
    times: dict[tuple[IndexPage, int], int | None],
    load: Load | None,
    budget: list[int],
) -> int | None:
    """When the first record at or after ``start`` was written, if that is in a page and known without much reading."""
    pages, first = sums.pages.pages, sums.pages.find(start)
    if first == len(pages):
        return None
    at = (pages[first], start)
    if at in memo.times or at in times:
        times[at] = times[at] if at in times else memo.times[at]
        return times[at]

    def counted(page: IndexPage) -> PageContent:
        budget[0] -= 1
        assert load is not None
        return load(page)

    for number in range(first, len(pages)):
        if load is None or budget[0] <= 0:
            return None
        rows = Index((pages[number],)).scan(start, counted)
        first_row = next((row for row in rows if is_record_batch(sums.partition, row)), None)
        if first_row is not None:
            times[at] = time_in(first_row, start)
            return times[at]
    times[at] = None
    return None


def _lag(state: State, place: Place, now_ms: int, much: Backlog) -> Lag:
    partition = state.partitions[place.key]
    start, stop = range_of(place, partition)
    common = (place.kind, place.name, place.topic, place.key[1], place.group, place.committed)
    ends = (partition.start, partition.last_stable_offset, partition.end)
    if start is None:
        return Lag(*common, *ends, None, None, None, None, 0, is_exact=True)
    first = start if place.committed is None else place.committed
    age_ms = 0 if much.first_ms is None else max(0, now_ms - much.first_ms)
    lost = max(0, partition.start - first)
    return Lag(
        *common, *ends, max(0, stop - first), much.records, much.bytes, age_ms, lost, is_exact=much.is_exact
    )
