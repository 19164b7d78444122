"""Groups that new members join again and again, so that the others are interrupted all the time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from spark_eos.monitoring.troubles.trouble import LOG, Trouble, age, in_one_line
from spark_eos.protocol.rules.joins import MEMBER_JOINED
from spark_eos.protocol.state import State

_LATELY_MS = 3_600_000

_OFTEN = 20
_TIMES_ALL = 4
"""So often in an hour, and so often for each member: two deployments restart each member twice."""


def of_rebalances(state: State, now_ms: int) -> Iterator[Trouble]:
    """Groups whose members come and go, of the last hour."""
    for name in sorted(state.groups):
        events = [
            event
            for event in state.trail
            if (event.what, event.name) == (MEMBER_JOINED, name) and event.timestamp_ms >= now_ms - _LATELY_MS
        ]
        writers: Counter[str] = Counter()
        for event in events:
            writers[event.writer] += event.times
        times, members = writers.total(), len(state.groups[name].members)
        for_ms = now_ms - min((event.first_ms for event in events), default=now_ms)
        # An event may have begun before the hour: what counts is how often it is in one.
        if times * _LATELY_MS < max(_OFTEN, _TIMES_ALL * members) * max(for_ms, _LATELY_MS):
            continue
        clients = in_one_line(f"{client!r} {count:,} times" for client, count in writers.most_common())
        yield Trouble(
            "warning",
            "rebalances",
            f"new members have joined group {name!r} {times:,} times in {age(for_ms)} beside others, last "
            f"{age(now_ms - events[-1].timestamp_ms)} ago ({clients}): each time partitions change hands",
            "runbooks/rebalances.md",
            (
                ("groups", "describe", LOG, "--group", name, "--members"),
                ("audit", LOG, "--name", name),
            ),
            (),
            "find out why they leave: a program that crashes and is started again, or that polls less often than "
            "max.poll.interval.ms; a member with a group.instance.id may be started again without a rebalance",
            name,
        )
