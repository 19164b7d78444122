"""Assignors: which member of a group reads which partitions, as Kafka's consumers do it. Pure functions.

Each of them gives every partition of a subscribed topic that exists to exactly one of the topic's
subscribers. They depend on nothing else, not even on the order of the mappings, so that every process
that applies an entry comes to the same assignment. Static members come first, by instance id; then the others,
by member id (Kafka's ``MemberInfo``): a static member that restarts under another member id keeps its place.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Subscriber(NamedTuple):
    """A member of a group: what it subscribes to, and what it was assigned before (topic, number)."""

    topics: tuple[str, ...]
    instance_id: str | None = None
    owned: tuple[tuple[str, int], ...] = ()


Assignment = dict[str, tuple[tuple[str, int], ...]]
"""Sorted (topic, number) by member id; every member is in it."""

Assignor = Callable[[Mapping[str, Subscriber], Mapping[str, int]], Assignment]
"""Subscribers by member id, number of partitions by topic -> assignment."""

_Held = dict[str, set[tuple[str, int]]]


def assign_range(subscribers: Mapping[str, Subscriber], partitions: Mapping[str, int]) -> Assignment:
    """Consecutive partitions of each topic by itself; the first members get one more.

    So members of the same subscription get the same numbers of topics of the same size.
    """
    held: _Held = {member: set() for member in subscribers}
    for topic, members in _by_topic(subscribers, partitions).items():
        share, extra = divmod(partitions[topic], len(members))
        start = 0
        for place, member in enumerate(members[: partitions[topic]]):
            end = start + share + (place < extra)
            held[member].update((topic, number) for number in range(start, end))
            start = end
    return _sorted(held)


def assign_round_robin(subscribers: Mapping[str, Subscriber], partitions: Mapping[str, int]) -> Assignment:
    """All partitions, topic by topic, dealt out in turn; members without a subscription are passed over."""
    held: _Held = {member: set() for member in subscribers}
    places = {member: place for place, member in enumerate(_in_order(subscribers))}
    turn = 0
    for topic, members in _by_topic(subscribers, partitions).items():
        position = bisect_left(members, turn, key=places.__getitem__)
        for number in range(partitions[topic]):
            member = members[(position + number) % len(members)]
            held[member].add((topic, number))
            turn = (places[member] + 1) % len(places)
    return _sorted(held)


def assign_sticky(subscribers: Mapping[str, Subscriber], partitions: Mapping[str, int]) -> Assignment:
    """As even as the subscriptions allow, and as much as possible where it was (KIP-54, KIP-429).

    With equal subscriptions the numbers of partitions differ by one at most, and a member that had no more
    than its share keeps all it had. With others, no single partition could move to make the numbers more
    even. A partition that several members claim to have had counts for none of them.
    """
    by_topic = _by_topic(subscribers, partitions)
    owned = _valid(subscribers, partitions)
    held: _Held = {member: set(share) for member, share in owned.items()}
    groups = {id(members): members for members in by_topic.values()}
    equal = len(groups) == 1
    if equal:
        held.update(_shares(next(iter(groups.values())), owned, sum(partitions[topic] for topic in by_topic)))
    loads = {member: len(share) for member, share in held.items()}
    assigned: set[tuple[str, int]] = set().union(*held.values())
    heap: list[tuple[int, int, str]] = []
    last: list[str] | None = None
    # Topics with few subscribers come first: then the others still have a choice.
    for topic in sorted(by_topic, key=lambda topic: (len(by_topic[topic]), topic)):
        if by_topic[topic] is not last:
            last = by_topic[topic]
            heap = [(loads[member], place, member) for place, member in enumerate(last)]
            heapq.heapify(heap)
        for number in range(partitions[topic]):
            if (topic, number) not in assigned:
                load, place, member = heap[0]
                held[member].add((topic, number))
                loads[member] = load + 1
                heapq.heapreplace(heap, (load + 1, place, member))
    uneven = not equal
    while uneven:
        uneven = False
        for topic, members in by_topic.items():
            uneven |= _level(topic, members, held, owned, loads)
    return _sorted(held)


ASSIGNORS: dict[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "cooperative-sticky": assign_sticky,
}
"""By the names that Kafka's members exchange."""

EAGER: frozenset[str] = frozenset({"range", "roundrobin"})
"""Those with which a member gives up all its partitions before it gets new ones (KIP-429)."""


def _in_order(subscribers: Mapping[str, Subscriber]) -> list[str]:
    def key(member: str) -> tuple[bool, str, str]:
        instance = subscribers[member].instance_id
        return instance is None, instance or "", member

    return sorted(subscribers, key=key)


def _by_topic(subscribers: Mapping[str, Subscriber], partitions: Mapping[str, int]) -> dict[str, list[str]]:
    """The subscribers of each topic that exists and has any, in order; topics by name.

    Topics of the same subscribers share one list: in most groups all members subscribe to the same.
    """
    topic_names = frozenset(partitions)
    by_topics: dict[frozenset[str], list[str]] = {}
    for member in _in_order(subscribers):
        by_topics.setdefault(topic_names.intersection(subscribers[member].topics), []).append(member)
    places = {member: place for place, member in enumerate(_in_order(subscribers))}
    parts: dict[str, list[int]] = {}
    for number, topics in enumerate(by_topics):
        for topic in topics:
            parts.setdefault(topic, []).append(number)
    lists = list(by_topics.values())
    merged: dict[tuple[int, ...], list[str]] = {}
    for numbers in parts.values():
        if tuple(numbers) not in merged:
            members = [member for number in numbers for member in lists[number]]
            merged[tuple(numbers)] = sorted(members, key=places.__getitem__)
    return {topic: merged[tuple(parts[topic])] for topic in sorted(parts)}


def _valid(subscribers: Mapping[str, Subscriber], partitions: Mapping[str, int]) -> _Held:
    """What each member had, still subscribes to, and no other member claims."""
    claims: Counter[tuple[str, int]] = Counter()
    for subscriber in subscribers.values():
        claims.update(set(subscriber.owned))
    return {
        member: {
            at
            for at in subscriber.owned
            if claims[at] == 1 and at[0] in subscriber.topics and 0 <= at[1] < partitions.get(at[0], 0)
        }
        for member, subscriber in subscribers.items()
    }


def _shares(members: list[str], owned: _Held, total: int) -> _Held:
    """What each of the equal members keeps: its share at most, and only so many of them one more."""
    share, extra = divmod(total, len(members))
    shares: _Held = {}
    for member in members:
        limit = share
        if extra and len(owned[member]) > share:
            limit += 1
            extra -= 1
        shares[member] = set(sorted(owned[member])[:limit])
    return shares


def _level(topic: str, members: list[str], held: _Held, owned: _Held, loads: dict[str, int]) -> bool:
    """Move partitions of one topic from its fullest to its emptiest subscribers. Whether any moved.

    What a member got only now goes first, then the highest number. A member that takes one never has to give one up
    in the same call: it was the emptiest.
    """
    numbers_of: dict[str, list[tuple[bool, int]]] = {}
    places = {member: place for place, member in enumerate(members)}
    for member in members:
        numbers = [(at not in owned[member], at[1]) for at in held[member] if at[0] == topic]
        if numbers:
            numbers_of[member] = sorted(numbers)
    full = [(-loads[member], places[member], member) for member in numbers_of]
    empty = [(loads[member], places[member], member) for member in members]
    heapq.heapify(full)
    heapq.heapify(empty)
    moved = False
    while full:
        high, place, giver = full[0]
        if -high != loads[giver] or not numbers_of[giver]:
            heapq.heappop(full)
            if numbers_of[giver]:
                heapq.heappush(full, (-loads[giver], place, giver))
            continue
        low, place, taker = empty[0]
        if low != loads[taker]:
            heapq.heapreplace(empty, (loads[taker], place, taker))
            continue
        if -high - low <= 1:
            break
        _, number = numbers_of[giver].pop()
        held[giver].remove((topic, number))
        held[taker].add((topic, number))
        loads[giver] -= 1
        loads[taker] += 1
        moved = True
    return moved


def _sorted(held: _Held) -> Assignment:
    return {member: tuple(sorted(partitions)) for member, partitions in held.items()}
