"""The life cycles that are recorded: rows that arrive, and drivers that live one after the other.

A tuple ``("a", 3)`` lets three rows arrive in source a; a dict is the life of a driver (see `driver.live`). The moment
``failing``: the call has done its work, and fails. ``own``: the life needs a process of its own, because it is killed
or configured when Spark starts.
"""

from __future__ import annotations

__all__ = ["CYCLES", "SHORT", "cycles_of"]

NOW = {"sources": ["a"], "trigger": "availableNow"}
ON = {"sources": ["a"], "trigger": "0 seconds"}
BOTH = {"sources": ["a", "b"]}
EVOLVING = {
    "named": True,
    "conf": {
        "spark.sql.streaming.offsetLog.formatVersion": "2",
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    },
}


def trap(who, call, do, moment="before", batch=None, **more):
    return {"who": who, "call": call, "do": do, "moment": moment, "batch": batch, **more}


def killed(who, call, moment="before", batch=None, **life):
    return {**NOW, **life, "own": True, "traps": [trap(who, call, "kill", moment, batch)]}


def failing(who, call, moment="before", batch=None, times=1, **life):
    return {**NOW, **life, "traps": [trap(who, call, "fail", moment, batch)] * times}


def arriving(call, start, **life):
    return {**life, "start": start, "traps": [trap("source a", call, "feed", "after", source="a", rows=2)]}


CYCLES = {
    "first-batch": [("a", 3), NOW],
    "restart": [("a", 3), NOW, ("a", 2), NOW],
    "restart-without-news": [("a", 3), NOW, NOW],
    "nothing-to-read": [NOW, ("a", 2), NOW],
    "idle": [("a", 3), {**ON, "steps": ["process", "arrive a 2", "process"]}],
    "idle-from-the-beginning": [{**ON, "steps": ["arrive a 2", "process", "arrive a 1", "process"]}],
    "latest": [
        ("a", 3),
        {**ON, "start": "latest", "steps": ["arrive a 2", "process", "arrive a 1", "process"]},
    ],
    "arrivals-in-the-first-batch": [("a", 3), arriving("initialOffset", "latest", **ON, steps=["process"])],
    "arrivals-after-the-first-look": [
        ("a", 3),
        arriving("latestOffset", "earliest", **ON, steps=["process"]),
    ],
    "limits": [("a", 5), {**NOW, "limit": 2}, ("a", 1), {**NOW, "limit": 2}],
    "limits-of-a-running-query": [("a", 5), {**ON, "limit": 2, "steps": ["process"]}],
    "once": [("a", 5), {**NOW, "trigger": "once", "limit": 2}],
    "killed-before-first-plan": [("a", 3), killed("source a", "latestOffset"), ("a", 2), NOW],
    "killed-after-offsets-0": [("a", 3), killed("source a", "partitions"), ("a", 2), NOW],
    "killed-twice-after-offsets-0": [
        *[("a", 3), killed("source a", "partitions"), ("a", 2), killed("sink", "commit"), ("a", 2), NOW],
    ],
    "killed-after-offsets-1": [
        *[("a", 3), NOW, ("a", 2), killed("source a", "partitions", batch=1), ("a", 2), NOW],
    ],
    "killed-after-offsets-1-running": [
        *[("a", 3), NOW, ("a", 2), killed("source a", "commit"), ("a", 2), {**ON, "steps": ["process"]}],
    ],
    "killed-after-commit-0": [("a", 3), killed("sink", "commit", "after"), ("a", 2), NOW],
    "killed-after-commit-1": [("a", 3), NOW, ("a", 2), killed("sink", "commit", "after"), ("a", 2), NOW],
    "killed-in-a-task": [("a", 3), NOW, ("a", 2), killed("source a", "read"), NOW],
    "two-tasks": [("a", 5), {**NOW, "tasks": 2}, ("a", 2), {**NOW, "tasks": 2}],
    "no-tasks": [("a", 5), {**NOW, "tasks": 0}, ("a", 2), {**NOW, "tasks": 0}],
    "second-task-failed": [("a", 4), failing("source a", "read", times=1, tasks=2)],
    "failed-commit-0": [("a", 3), failing("sink", "commit"), ("a", 2), NOW],
    "failed-commit-1": [("a", 3), NOW, ("a", 2), failing("sink", "commit", "failing"), ("a", 2), NOW],
    "failed-read": [("a", 3), failing("source a", "read")],
    "failed-write": [("a", 3), failing("sink", "write", "failing")],
    "failed-task": [("a", 3), failing("sink", "write", times=2), ("a", 2), NOW],
    "users-mistake-in-batch-0": [("a", 3), {**NOW, "shape": "mistake"}, ("a", 2), NOW],
    "failed-initial-offset": [("a", 3), failing("source a", "initialOffset"), NOW],
    "failed-second-initial-offset": [
        *[("a", 3), failing("source a", "initialOffset", batch=0), ("a", 2), NOW],
    ],
    "failed-latest-offset": [("a", 3), NOW, ("a", 2), failing("source a", "latestOffset"), NOW],
    "failed-plan-0": [("a", 3), failing("source a", "partitions"), ("a", 2), NOW],
    "failed-plan-1": [("a", 3), NOW, ("a", 2), failing("source a", "partitions", batch=1), ("a", 2), NOW],
    "failed-writer": [("a", 3), failing("sink", "streamWriter"), ("a", 2), NOW],
    "stopped-in-the-middle": [
        ("a", 3),
        {
            **ON,
            "traps": [trap("source a", "read", "hang", batch=1)],
            "steps": ["process", "arrive a 2", "until hangs 1", "stop"],
        },
        ("a", 2),
        {**ON, "steps": ["process"]},
    ],
    "union": [("a", 3), ("b", 2), {**NOW, **BOTH}, ("b", 2), {**NOW, **BOTH}],
    "union-running": [("a", 3), {**ON, **BOTH, "steps": ["process", "arrive b 2", "process"]}],
    "union-killed": [("a", 3), ("b", 2), killed("source b", "partitions", **BOTH), ("a", 2), {**NOW, **BOTH}],
    "twice-in-one-query": [("a", 3), {**NOW, "shape": "twice"}, ("a", 2), {**NOW, "shape": "twice"}],
    "in-two-queries": [("a", 3), {**NOW, "checkpoints": ["checkpoint", "other"]}],
    "foreach-batch": [("a", 3), {**NOW, "shape": "foreachBatch"}, ("a", 2), {**NOW, "shape": "foreachBatch"}],
    "counts": [("a", 3), {**NOW, "shape": "count"}, ("a", 2), {**NOW, "shape": "count"}],
    "windows": [("a", 9), {**NOW, "shape": "windows"}, ("a", 3), {**NOW, "shape": "windows"}],
    "windows-running": [
        *[("a", 9), {**ON, "shape": "windows", "steps": ["process", "arrive a 3", "process"]}],
    ],
    "killed-in-a-batch-without-data": [
        ("a", 9),
        killed("sink", "commit", batch=1, shape="windows"),
        {**NOW, "shape": "windows"},
    ],
    "connect": [
        ("a", 3),
        {**NOW, "own": True, "connect": True},
        ("a", 2),
        {**NOW, "own": True, "connect": True},
    ],
    "source-added-and-removed": [
        ("a", 3),
        {**NOW, **EVOLVING},
        *[("a", 2), ("b", 2)],
        {**NOW, **EVOLVING, **BOTH},
        *[("a", 1), ("b", 1)],
        {**NOW, **EVOLVING, "sources": ["b"]},
    ],
    "killed-while-a-source-is-added": [
        ("a", 3),
        {**NOW, **EVOLVING},
        *[("a", 2), ("b", 2)],
        killed("source b", "partitions", **EVOLVING, **BOTH),
        *[("a", 1), ("b", 1)],
        {**NOW, **EVOLVING, **BOTH},
    ],
}

SHORT = ("arrivals-in-the-first-batch", "killed-after-offsets-0", "failed-commit-1")
"""What every run of the tests records again: each needs a few seconds."""

SINCE_4_2 = {
    *("source-added-and-removed", "killed-while-a-source-is-added"),
    "killed-in-a-batch-without-data",
}
"""Before, sources have no names, and an AvailableNow run is one micro-batch."""


def cycles_of(spark):
    """The life cycles that a minor version can live."""
    return [name for name in CYCLES if spark != "4.1" or name not in SINCE_4_2]
