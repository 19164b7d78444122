"""The newest entries over time, by kind of writer: what the strip above the history shows, and its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from spark_eos.extensions.ui.areas.history import oldest_entry, shown_entries
from spark_eos.extensions.ui.areas.kinds import KINDS
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question

_ENTRIES = 200
"""Entries that a strip shows."""

_STEPS = 40
"""Steps of time that they are put into."""


def strip(follower: Follower, question: Question) -> Answer:
    """The entries up to ``until`` (the newest) in equal steps of time; each counts once for each kind of its writers.

    It reads what the history reads, so new entries cost no further request while both are looked at.
    """
    state = follower.state
    until = min(question.number("until", state.seq), state.seq)
    first = max(until - _ENTRIES + 1, oldest_entry(follower))
    rows = [row for row in shown_entries(follower, first, until) if "time" in row][::-1]
    times = [row["time"] for row in rows]
    begin, end = min(times, default=0), max(times, default=0)
    step_ms = max(-(-(end - begin + 1) // _STEPS), 1)
    steps: dict[int, list[Answer]] = {}
    for row in rows:
        steps.setdefault((row["time"] - begin) // step_ms, []).append(row)
    return {
        "first": first,
        "until": until,
        "begin_ms": begin,
        "step_ms": step_ms,
        "steps": _STEPS,
        "kinds": [kind for kind in KINDS if any(kind in row["kinds"] for row in rows)],
        "rows": [_step(at, begin + at * step_ms, steps[at]) for at in sorted(steps)],
    }


def _step(at: int, time_ms: int, rows: Iterable[Answer]) -> Answer:
    seqs = [row["seq"] for row in rows]
    counts = Counter(kind for row in rows for kind in row["kinds"])
    return {"step": at, "time": time_ms, "first": min(seqs), "last": max(seqs), "counts": dict(counts)}
