"""Which word may follow a word: every pair was recorded with Spark, and no other ever was (tests/spark_calls).

`spark_calls` tells what the words are. A pair that is not here is an order that Spark has never been seen to keep.
"""

from __future__ import annotations

__all__ = ["AFTER", "BEFORE_4_2", "ORDERS"]

AFTER: dict[str, frozenset[str]] = {
    "the query begins: on a new checkpoint": frozenset(["the reader is made"]),
    "the reader is made": frozenset(["getDefaultReadLimit", "prepareForTriggerAvailableNow"]),
    "getDefaultReadLimit": frozenset(
        [
            "a writer is planned",
            "initialOffset, a batch is planned",
            "initialOffset, no batch is planned",
            "initialOffset, no batch is planned, failed",
            "latestOffset from the last end",
            "latestOffset from the last end, failed",
            "partitions from the last end",
            "the query fails",
        ]
    ),
    "initialOffset, no batch is planned": frozenset(["latestOffset from the beginning"]),
    "latestOffset from the beginning": frozenset(["reportLatestOffset"]),
    "reportLatestOffset": frozenset(
        [
            "commit",
            "initialOffset, a batch is planned",
            "initialOffset, a batch is planned, failed",
            "latestOffset from the last end",
            "the query ends",
        ]
    ),
    "initialOffset, a batch is planned": frozenset(
        ["partitions from the beginning", "partitions from the beginning, failed"]
    ),
    "partitions from the beginning": frozenset(["a reader for the tasks is planned", "a writer is planned"]),
    "a reader for the tasks is planned": frozenset(
        [
            "a writer is planned",
            "partitions from the beginning",
            "partitions from the last end",
            "task: reader arrives",
            "the query fails",
        ]
    ),
    "a writer is planned": frozenset(["task: reader arrives", "task: writer arrives"]),
    "task: reader arrives": frozenset(["task: read", "task: writer arrives"]),
    "task: read": frozenset(
        ["latestOffset from the last end", "task: write, failed", "task: writer arrives"]
    ),
    "task: writer arrives": frozenset(
        [
            "task: read, failed",
            "task: reader arrives",
            "task: write",
            "task: write, failed",
            "the committer makes a writer",
        ]
    ),
    "task: write": frozenset(
        ["task: reader arrives", "task: writer arrives", "the committer makes a writer"]
    ),
    "the committer makes a writer": frozenset(["sink abort", "sink commit", "sink commit, failed"]),
    "sink commit": frozenset(["latestOffset from the last end", "the query ends"]),
    "latestOffset from the last end": frozenset(["reportLatestOffset"]),
    "commit": frozenset(
        ["a writer is planned", "partitions from the last end", "partitions from the last end, failed"]
    ),
    "partitions from the last end": frozenset(["a reader for the tasks is planned", "a writer is planned"]),
    "prepareForTriggerAvailableNow": frozenset(["getDefaultReadLimit"]),
    "the query begins: all is done": frozenset(["the reader is made"]),
    "sink commit, failed": frozenset(["the committer makes a writer"]),
    "sink abort": frozenset(["the query fails"]),
    "the query begins: batch 0 is not done": frozenset(["the reader is made"]),
    "the query begins: a later batch is not done": frozenset(["the reader is made"]),
    "initialOffset, no batch is planned, failed": frozenset(["the query fails"]),
    "latestOffset from the last end, failed": frozenset(["the query fails"]),
    "partitions from the beginning, failed": frozenset(["the query fails"]),
    "partitions from the last end, failed": frozenset(["the query fails"]),
    "task: read, failed": frozenset(["task: write, failed"]),
    "task: write, failed": frozenset(
        ["task: reader arrives", "task: writer arrives", "the committer makes a writer", "the reader is made"]
    ),
    "initialOffset, a batch is planned, failed": frozenset(["the query fails"]),
}

_NOT_BEFORE_4_2 = {
    "getDefaultReadLimit",
    "initialOffset, no batch is planned",
    "latestOffset from the beginning",
    "reportLatestOffset",
    "latestOffset from the last end",
    "prepareForTriggerAvailableNow",
    "initialOffset, no batch is planned, failed",
    "latestOffset from the last end, failed",
}

BEFORE_4_2: dict[str, frozenset[str]] = {
    **{word: words for word, words in AFTER.items() if word not in _NOT_BEFORE_4_2},
    "the reader is made": frozenset(
        ["latestOffset, from where is not said", "partitions of nothing, at the newest end"]
    ),
    "latestOffset, from where is not said": frozenset(
        [
            "commit",
            "initialOffset, a batch is planned",
            "initialOffset, a batch is planned, failed",
            "latestOffset, from where is not said",
            "the query ends",
        ]
    ),
    "task: read": frozenset(["task: write, failed", "task: writer arrives", "the query ends"]),
    "sink commit": frozenset(["latestOffset, from where is not said", "the query ends"]),
    "partitions of nothing, at the newest end": frozenset(
        [
            "initialOffset, a batch is planned",
            "latestOffset, from where is not said",
            "latestOffset, from where is not said, failed",
            "partitions from the last end",
        ]
    ),
    "latestOffset, from where is not said, failed": frozenset(["the query fails"]),
}
"""Spark 4.1: a source is told neither the start nor a limit, and hears at a restart where the newest batch ends."""

ORDERS = {"4.1": BEFORE_4_2, "4.2": AFTER, "4.3": AFTER}
"""By the minor version of Spark."""
