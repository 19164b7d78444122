"""The points of a log's state: topics, partitions, transactions, groups, queries and publications. Nothing is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from spark_eos.extensions.metrics.entry_counts import EntryCounts
from spark_eos.extensions.metrics.points import Point, point
from spark_eos.monitoring.elsewhere import query_commits
from spark_eos.monitoring.lag import Lag, limit_ms
from spark_eos.monitoring.members import SilentMember, not_asked
from spark_eos.monitoring.sizes import Size
from spark_eos.monitoring.troubles.trouble import Trouble
from spark_eos.protocol.rules.notes import BACKUP, VERIFY, noted_ms
from spark_eos.protocol.state import PartitionKey, State, Topic

_NOUNS = {"group": "consumer_group", "query": "query", "publication": "publication"}


class LogLook(NamedTuple):
    """What one look at a log saw; ``by_partition``: whether points of single partitions are wanted.

    ``silent`` is None if the signs of life of members may not be read.
    """

    log: str
    state: State
    now_ms: int
    counts: EntryCounts
    sizes: Mapping[PartitionKey, Size]
    lags: tuple[Lag, ...]
    silent: tuple[SilentMember, ...] | None
    by_partition: bool


def state_points(seen: LogLook) -> Iterator[Point]:
    """All points."""
    yield from _of_log(seen)
    yield from _of_transactions(seen)
    open_ms = _open_since(seen.state)
    for name in sorted(seen.state.topics):
        yield from _of_topic(seen, seen.state.topics[name], open_ms)
    silent, unknown = Counter(member.group for member in seen.silent or ()), not_asked(seen.state)
    for group in sorted(seen.state.groups):
        yield point("eoslog.consumer_group.members", len(seen.state.groups[group].members), seen.log, group)
        if silent[group] or (seen.silent is not None and group not in unknown):
            yield point("eoslog.consumer_group.silent_members", silent[group], seen.log, group)
    for query in sorted(seen.state.queries):
        yield point("eoslog.query.batch", seen.state.queries[query].batch_id, seen.log, query)
    for commit in query_commits(seen.state):
        if commit.timestamp_ms is not None:
            age_ms = max(seen.now_ms - commit.timestamp_ms, 0)
            yield point("eoslog.query.last_commit.age", age_ms / 1000, seen.log, commit.name)
    for name in sorted(seen.state.publications):
        publication = seen.state.publications[name]
        published = publication.first if publication.published is None else publication.published.sequence
        yield point("eoslog.publication.sequence", published, seen.log, name)
        if publication.published is not None:
            age_ms = max(seen.now_ms - publication.published.timestamp_ms, 0)
            yield point("eoslog.publication.age", age_ms / 1000, seen.log, name)
        yield point("eoslog.publication.unfinished", int(publication.begun is not None), seen.log, name)
    yield from _lag_points(seen)


def trouble_points(log: str, troubles: Iterable[Trouble]) -> Iterator[Point]:
    """How many troubles there are of each kind, and about what."""
    for (name, level, about), count in Counter(
        (trouble.name, trouble.level, trouble.about) for trouble in troubles
    ).items():
        yield point("eoslog.trouble", count, log, name, level, about)


def _of_log(seen: LogLook) -> Iterator[Point]:
    state, counts = seen.state, seen.counts
    yield point("eoslog.log.entries", state.seq + 1, seen.log)
    ahead_ms = state.timestamp_ms - seen.now_ms
    yield point("eoslog.log.last_entry.age", max(-ahead_ms, 0) / 1000, seen.log)
    yield point("eoslog.log.clock.ahead", max(ahead_ms, 0) / 1000, seen.log)
    for outcome, count in counts.requests.items():
        yield point("eoslog.log.requests", count, seen.log, outcome)
    yield point("eoslog.log.grouped_requests", counts.grouped, seen.log)
    for outcome, count in counts.transactions.items():
        yield point("eoslog.log.transactions", count, seen.log, outcome)
    for name, job in (("eoslog.backup.age", BACKUP), ("eoslog.verify.age", VERIFY)):
        last_ms = noted_ms(state, job)
        if last_ms is not None:
            yield point(name, max(seen.now_ms - last_ms, 0) / 1000, seen.log)
    yield point("eoslog.log.fencings", counts.fencings, seen.log)
    yield point("eoslog.topics", len(state.topics), seen.log)


def _of_transactions(seen: LogLook) -> Iterator[Point]:
    producers = [seen.state.producers[producer_id] for producer_id in seen.state.open_transactions]
    ages = [max(seen.now_ms - producer.started_ms, 0) for producer in producers]
    late = sum(
        producer.has_timeout and age > producer.timeout_ms
        for age, producer in zip(ages, producers, strict=True)
    )
    yield point("eoslog.transactions.open", len(producers), seen.log)
    yield point("eoslog.transactions.late", late, seen.log)
    yield point("eoslog.transactions.oldest.age", max(ages, default=0) / 1000, seen.log)
    prepared = [age for age, producer in zip(ages, producers, strict=True) if not producer.has_timeout]
    yield point("eoslog.transactions.prepared", len(prepared), seen.log)
    yield point("eoslog.transactions.prepared.age", max(prepared, default=0) / 1000, seen.log)


def _open_since(state: State) -> dict[str, int]:
    """When the oldest open transaction of each topic began, by the topic's id."""
    oldest_ms: dict[str, int] = {}
    for producer_id in state.open_transactions:
        producer = state.producers[producer_id]
        for topic_id, _ in producer.touched:
            oldest_ms[topic_id] = min(producer.started_ms, oldest_ms.get(topic_id, producer.started_ms))
    return oldest_ms


def _of_topic(seen: LogLook, topic: Topic, open_ms: Mapping[str, int]) -> Iterator[Point]:
    keys = [(topic.topic_id, number) for number in range(topic.partitions)]
    partitions = [seen.state.partitions[key] for key in keys]
    sizes = [seen.sizes[key] for key in keys]
    records, size = seen.counts.topics.get(topic.topic_id, (0, 0))
    begun_ms = open_ms.get(topic.topic_id)
    values = {
        "topic.partitions": topic.partitions,
        "topic.messages": records,
        "topic.io": size,
        "topic.offsets": sum(partition.end - partition.start for partition in partitions),
        "topic.size": sum(stored.bytes for stored in sizes),
        "topic.batches": sum(stored.batches for stored in sizes),
        "topic.lso_lag": sum(
            partition.end - partition.last_stable_offset for partition in partitions if partition.open
        ),
        "topic.open_transaction.age": 0.0 if begun_ms is None else max(seen.now_ms - begun_ms, 0) / 1000,
        "maintenance.unsealed_batches": sum(stored.unsealed for stored in sizes),
        "maintenance.small_batches": sum(stored.small for stored in sizes),
    }
    for name, value in values.items():
        yield point(f"eoslog.{name}", value, seen.log, topic.name)
    if seen.by_partition:
        for number, (partition, stored) in enumerate(zip(partitions, sizes, strict=True)):
            at = (seen.log, topic.name, number)
            yield point("eoslog.partition.oldest_offset", partition.start, *at)
            yield point("eoslog.partition.current_offset", partition.end, *at)
            yield point("eoslog.partition.last_stable_offset", partition.last_stable_offset, *at)
            yield point("eoslog.partition.size", stored.bytes, *at)


def _lag_points(seen: LogLook) -> Iterator[Point]:
    # The lags are sorted by kind, name and topic.
    for (kind, name, topic), lags in groupby(seen.lags, lambda lag: (lag.kind, lag.name, lag.topic)):
        parts = list(lags)
        noun, labels = _NOUNS[kind], (seen.log, name, topic)
        measured = [part for part in parts if part.offsets is not None]
        if kind == "group":
            yield point("eoslog.consumer_group.lag_unknown", sum(part.is_unknown for part in parts), *labels)
        if measured:
            yield from _sums(noun, labels, measured)
            limit_s = limit_ms(seen.state, kind, name) / 1000
            yield point(f"eoslog.{noun}.lag_limit", limit_s, *labels)
        for part in measured if seen.by_partition else ():
            yield point(f"eoslog.{noun}.partition.lag", part.offsets or 0, *labels, part.partition)
            if kind == "group" and part.committed is not None:
                yield point("eoslog.consumer_group.offset", part.committed, *labels, part.partition)


def _sums(noun: str, labels: tuple[str, str, str], parts: Iterable[Lag]) -> Iterator[Point]:
    parts = list(parts)
    yield point(f"eoslog.{noun}.lag", sum(part.offsets or 0 for part in parts), *labels)
    yield point(f"eoslog.{noun}.lag_messages", sum(part.records or 0 for part in parts), *labels)
    yield point(f"eoslog.{noun}.lag_size", sum(part.bytes or 0 for part in parts), *labels)
    yield point(f"eoslog.{noun}.lag_time", max(part.time_ms or 0 for part in parts) / 1000, *labels)
    yield point(f"eoslog.{noun}.lost", sum(part.lost for part in parts), *labels)
