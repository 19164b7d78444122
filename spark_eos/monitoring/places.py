"""Who reads a log, and up to where: groups, Spark queries, and publications, from the log's state alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from immutables import Map

from spark_eos.protocol.actions.topics import TOPIC_DELETED
from spark_eos.protocol.publication import Publication
from spark_eos.protocol.state import CommittedOffset, Event, Partition, PartitionKey, Query, State

Kind = Literal["group", "query", "publication"]

_NO_OFFSETS: Map[tuple[str, int], CommittedOffset] = Map()


class Place(NamedTuple):
    """A reader's place in a partition, before it is measured. ``begins``: without an offset it reads from the start."""

    kind: Kind
    name: str
    topic: str
    key: PartitionKey
    group: str | None
    committed: int | None
    begins: bool = False


def places(state: State) -> Iterator[Place]:
    """All readers with their places, sorted."""
    names = {topic.topic_id: name for name, topic in state.topics.items()}
    queries: dict[tuple[str, str, int], Place] = {}
    for name in sorted(state.queries, key=lambda name: _last_commit(state, name)):
        for place in _of_query(state, name, state.queries[name]):
            # Of two queries that have ended at the same offsets, the later one goes on there.
            queries[place.group or "", place.topic, place.key[1]] = place
    all_places = list(queries.values())
    for group in {*state.offsets, *state.groups}:
        for topic, key, committed in _of_group(state, names, group):
            if (group, topic, key[1]) not in queries:
                all_places.append(Place("group", group, topic, key, group, committed))
    for publication in state.publications.values():
        all_places += _of_publication(state, publication)
    yield from sorted(all_places, key=lambda place: (place.kind, place.name, place.topic, place.key[1]))


def consumer_groups(state: State) -> set[str]:
    """The groups of consumers. Where only a Spark query commits there is the query, and no group."""
    of_queries = {
        (place.group, place.topic, place.key[1])
        for name, query in state.queries.items()
        for place in _of_query(state, name, query)
    }
    groups = {*state.offsets, *state.groups}
    return groups - {
        group
        for group in {group for group, _, _ in of_queries if group}
        if all((group, *at) in of_queries for at in state.offsets.get(group, _NO_OFFSETS))
        and not (group in state.groups and state.groups[group].members)
    }


def deleted_sources(state: State, query: Query) -> dict[str, Event]:
    """The topics of this log that the query has read, with their deletions; one of the same name may be there.

    Only as long as the trail has the deletion, and the query's group is there and has not gone on in the new topic:
    else the query was given up, or has a successor.
    """
    ids = {topic.topic_id for topic in state.topics.values()}
    names = {
        end.topic
        for source in query.sources
        if (offsets := state.offsets.get(source.group or "")) is not None
        for end in source.end_offsets
        if end.topic_id not in ids and end.topic not in {topic for topic, _ in offsets}
    }
    return {event.name: event for event in state.trail if event.what == TOPIC_DELETED and event.name in names}


def _last_commit(state: State, transactional_id: str) -> tuple[int, int]:
    """What is larger for the query that has committed later."""
    producer = state.producer_of(transactional_id)
    return (-1, -1) if producer is None else (producer.last_ms, producer.producer_id)


def _of_query(state: State, name: str, query: Query) -> Iterator[Place]:
    """Where the query's last micro-batch ended, as far as groups still stand there; the earliest one in a partition."""
    by_partition: dict[tuple[str, int], Place] = {}
    for source in query.sources:
        for end in source.end_offsets:
            group = source.group or ""
            committed = state.offset_of(group, end.topic, end.partition)
            at = (end.topic, end.partition)
            if committed is None or (committed.topic_id, committed.offset) != (end.topic_id, end.offset):
                continue
            if at not in by_partition or end.offset < (by_partition[at].committed or 0):
                key = (end.topic_id, end.partition)
                by_partition[at] = Place("query", name, end.topic, key, group, end.offset)
    yield from by_partition.values()


def _of_group(
    state: State, names: dict[str, str], group: str
) -> Iterator[tuple[str, PartitionKey, int | None]]:
    """The partitions with a committed offset, and those that members hold."""
    offsets = state.offsets.get(group, _NO_OFFSETS)
    for (topic, partition), committed in offsets.items():
        yield topic, (committed.topic_id, partition), committed.offset
    group_state = state.groups.get(group)
    keys = (
        {key for member in group_state.members.values() for key in member.held}
        if group_state is not None
        else set()
    )
    for key in keys:
        if (names[key[0]], key[1]) not in offsets:
            yield names[key[0]], key, None


def _of_publication(state: State, publication: Publication) -> Iterator[Place]:
    version = publication.published
    for topic, topic_id in publication.topics:
        for number in range(state.topics[topic].partitions):
            pin = None if version is None else version.pins.get((topic_id, number))
            committed = None if pin is None else pin.end
            yield Place(
                "publication", publication.name, topic, (topic_id, number), None, committed, begins=True
            )


def range_of(place: Place, partition: Partition) -> tuple[int | None, int]:
    """The offsets that the reader has before it; None if that is not known."""
    if place.committed is None:
        return (partition.start if place.begins else None), partition.last_stable_offset
    return max(place.committed, partition.start), partition.readable_end(place.committed)
