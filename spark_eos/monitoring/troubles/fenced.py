"""Producers that were fenced lately with something open: by two programs of one id, or by one that crashes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from spark_eos.monitoring.troubles.trouble import LOG, Trouble, age
from spark_eos.protocol.rules.takeovers import FENCED, TIMED_OUT
from spark_eos.protocol.state import Event, State

_LATELY_MS = 3_600_000

_OFTEN = 3
"""An id whose producer was fenced so often in an hour is used by two programs at once, or by one that crashes."""

_OFTEN_ADVICE = (
    "if several programs have this id, give each its own; a program that crashes and is started again keeps its id: "
    "find out why it crashes"
)


def of_fencings(state: State, now_ms: int) -> Iterator[Trouble]:
    """Ids whose producer was fenced in the last hour with something open. Often is a fight, or a program that crashes.

    A program that ends and is started again, as cron does, has nothing open: that is a restart, and no trouble.
    """
    by_id: dict[str, list[Event]] = defaultdict(list)
    for event in state.trail:
        if event.what in {FENCED, TIMED_OUT} and event.timestamp_ms >= now_ms - _LATELY_MS:
            by_id[event.name].append(event)
    for name, events in sorted(by_id.items(), key=lambda item: -_times(item[1])):
        last, times = events[-1], _times(events)
        for_ms = now_ms - min(event.first_ms for event in events)
        often = f"{times:,} times in {age(for_ms)}" if times > 1 else "once"
        # An event may have begun before the hour: what counts is how often it is in one.
        is_often = times * _LATELY_MS >= _OFTEN * max(for_ms, _LATELY_MS)
        writers = (
            ", ".join(sorted({repr(event.writer) for event in events if event.writer}))
            or "a client without client.id"
        )
        when = f"last {age(now_ms - last.timestamp_ms)} ago in entry {last.entry:,} ({last.text})"
        if all(event.what == TIMED_OUT for event in events):
            text = (
                f"transactions of transactional.id {name!r} were open past their timeout, and aborted, "
                f"{often}, {when}"
            )
            advice = "if its program runs, make its transactions shorter, or raise its transaction.timeout.ms"
        else:
            text = (
                f"transactional.id {name!r} was fenced {often}, by {writers}, {when}: producers of an earlier "
                "epoch are zombies, and get PRODUCER_FENCED"
            )
            advice = _OFTEN_ADVICE if is_often else "stop the old program, if it runs on"
        yield Trouble(
            "warning" if is_often else "note",
            "fenced",
            text,
            "runbooks/zombie.md",
            (("audit", LOG, "--name", name),),
            (),
            advice,
            name,
        )


def _times(events: list[Event]) -> int:
    return sum(event.times for event in events)
