"""Storage: what the log says it holds, what the store lists, and what maintenance has left to do."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any

from spark_eos.config.topic import TOPIC
from spark_eos.extensions.ui.answers import settings
from spark_eos.extensions.ui.areas.troubles import newest_snapshot, sizes, troubles
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.jobs import Job
from spark_eos.extensions.ui.question import Answer, Question, page
from spark_eos.log import paths
from spark_eos.monitoring.troubles.of_state import UNSEALED
from spark_eos.protocol.state import Partition, State, Topic

_FOR_S = 15
"""What is computed over all partitions is computed again after so many seconds at the earliest."""


class _TopicStorage:
    """What the index of a topic's partitions says."""

    def __init__(self) -> None:
        self.bytes = self.batches = self.unsealed = 0

    def add(self, part: Partition) -> None:
        for page_ in part.index.pages:
            self.bytes += page_.bytes
            self.batches += page_.rows
        tail = part.index.tail
        self.unsealed += len(tail)
        for row in tail:
            if row.batch is not None:
                self.bytes += row.batch.length
                self.batches += 1


def storage(follower: Follower, question: Question) -> Answer:
    """What is stored, by topic, and the debt of maintenance."""
    held = follower.remember("held", lambda: _storage_by_topic(follower), for_s=_FOR_S)
    state = follower.state
    topics = [(topic, held[topic.topic_id]) for topic in state.topics.values() if topic.topic_id in held]
    topics.sort(key=lambda pair: (-pair[1].bytes, pair[0].name))
    return {
        "seq": state.seq,
        "bytes": sum(holding.bytes for holding in held.values()),
        "batches": sum(holding.batches for holding in held.values()),
        "settings": settings(state.config),
        "requests": follower.store.requests,
        "debt": _debt(follower, state, held),
        "counted": _counting(follower).shown,
        **page(question, topics, _row, ("name", "bytes", "batches", "average", "unsealed", "cleanup")),
    }


def count_objects(follower: Follower, question: Question) -> Answer:
    """Begin to list all objects of the log, or stop."""
    job = _counting(follower)
    if question.choice("do", ("start", "stop")) == "stop":
        job.stop()
    else:
        job.start()
    return job.shown


def _row(pair: tuple[Topic, _TopicStorage]) -> Answer:
    topic, held = pair
    shown = {**TOPIC.defaults(), **topic.config}
    return {
        "name": topic.name,
        "bytes": held.bytes,
        "batches": held.batches,
        "average": held.bytes // max(held.batches, 1),
        "unsealed": held.unsealed,
        "cleanup": shown["cleanup.policy"],
        "retention_ms": shown["retention.ms"],
        "format": shown["segment.format"],
    }


def _storage_by_topic(follower: Follower) -> dict[str, _TopicStorage]:
    """By topic id."""
    state = follower.state
    held = {topic.topic_id: _TopicStorage() for topic in state.topics.values()}
    for (topic_id, _), part in state.partitions.items():
        if topic_id in held:
            held[topic_id].add(part)
    return held


def _debt(follower: Follower, state: State, held: dict[str, _TopicStorage]) -> list[Answer]:
    """What maintenance would do, each with whether it is more than usual, and what to run."""
    newest = newest_snapshot(follower)
    behind = None if newest is None else state.seq - newest
    unsealed = sum(holding.unsealed for holding in held.values())
    small = sum(size.small for size in sizes(follower).values())
    has_many = any(trouble.name == "small batches" for trouble in troubles(follower))
    return [
        {
            "name": "Entries since the newest snapshot",
            "value": behind,
            "high": behind is not None and behind > UNSEALED,
            "text": f"a snapshot is due each {state.snapshot_interval} entries; opening the log reads those after it",
            "cure": shlex.join(["eoslog", "maintain", follower.url]),
        },
        {
            "name": "Index rows in memory",
            "value": unsealed,
            "high": unsealed > 1_000_000,
            "text": "batches whose index rows are not sealed into pages yet; each process that follows the log keeps "
            "them in memory",
            "cure": shlex.join(["eoslog", "maintain", follower.url]),
        },
        {
            "name": "Small batches",
            "value": small,
            "high": has_many,
            "text": "batches that rolling would join with others",
            "cure": shlex.join(["eoslog", "maintain", follower.url]),
        },
        {
            "name": "Open transactions",
            "value": len(state.open_transactions),
            "high": False,
            "text": "entries from the beginning of the oldest one on cannot be retired",
            "cure": shlex.join(["eoslog", "transactions", "find-hanging", follower.url]),
        },
    ]


# -- Objects ----------------------------------------------------------------------------------------------


def _counting(follower: Follower) -> Job:
    job: Job = follower.memory.setdefault("count", Job(lambda job: _count(follower, job), follower.now_ms))
    return job


def _count(follower: Follower, job: Job) -> dict[str, Any]:
    objects: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    count = 0
    for info in follower.store.list(""):
        kind = _kind(info.name)
        objects[kind] += 1
        sizes[kind] += info.size
        count += 1
        if count % 1000 == 0:
            job.at("objects", count, 0)
    return {
        "objects": count,
        "bytes": sum(sizes.values()),
        "kinds": [{"kind": kind, "objects": objects[kind], "bytes": sizes[kind]} for kind in sorted(objects)],
    }


def _kind(name: str) -> str:
    if name.startswith(paths.SNAPSHOTS):
        return "snapshots"
    if name.startswith(paths.INDEX):
        return "index pages"
    if name.startswith(paths.LOG):
        return "entries"
    if name.startswith(paths.DATA):
        return "data files"
    if name.startswith(paths.TABLES):
        return "segments" if paths.is_segment(name) else "tables"
    return "other"
