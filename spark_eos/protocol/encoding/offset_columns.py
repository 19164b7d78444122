"""Offsets of many partitions in few bytes: partitions whose numbers follow one another are named once.

An entry or a snapshot may have offsets of 100,000 partitions. As columns of numbers they take a tenth of the bytes and
of the time of a record for each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from spark_eos.protocol.types import MAX_PARTITIONS, PartitionOffset, SourceProgress


def runs_of(keys: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """Partitions, by topic id and number, as runs of numbers that follow one another."""
    runs: list[dict[str, Any]] = []
    topic_id, expected = None, -1
    for key in keys:
        if key != (topic_id, expected):
            topic_id = key[0]
            runs.append({"topic_id": topic_id, "first": key[1], "count": 0})
        runs[-1]["count"] += 1
        expected = key[1] + 1
    return runs


def read_runs(runs: Sequence[dict[str, Any]], expected: int | None = None) -> list[tuple[str, int]]:
    """The reverse of `runs_of`; ``expected`` are as many as there must be.

    Raises `ValueError` for counts that cannot be, before anything is made of them.
    """
    check_runs(runs, expected)
    return [
        (run["topic_id"], number)
        for run in runs
        for number in range(run["first"], run["first"] + run["count"])
    ]


def check_runs(runs: Sequence[dict[str, Any]], expected: int | None = None) -> None:
    """Raise `ValueError` for runs of more partitions than a topic can have, or that are not ``expected`` together.

    A count is a few bytes in a file. What is made of it may take any memory.
    """
    for run in runs:
        if not 0 <= run["count"] <= MAX_PARTITIONS:
            raise ValueError(f"a run of {run['count']} partitions; up to {MAX_PARTITIONS} are possible")
    total = sum(run["count"] for run in runs)
    if expected is not None and total != expected:
        raise ValueError(f"runs of {total} partitions for {expected} values")


def offset_columns(offsets: Sequence[PartitionOffset]) -> dict[str, Any]:
    """Offsets as `values.OFFSETS`."""
    runs: list[dict[str, Any]] = []
    before: tuple[str | None, str, int] = (None, "", -1)
    for topic, topic_id, partition, _, _ in offsets:
        if (topic, topic_id, partition) != before:
            runs.append({"topic": topic, "topic_id": topic_id, "first": partition, "count": 0})
        runs[-1]["count"] += 1
        before = (topic, topic_id, partition + 1)
    metadata = [at.metadata for at in offsets]
    return {
        "runs": runs,
        "offsets": [at.offset for at in offsets],
        "metadata": metadata if any(metadata) else [],
    }


def read_offsets(columns: dict[str, Any]) -> tuple[PartitionOffset, ...]:
    """The reverse of `offset_columns`. Raises `ValueError` if the columns do not fit together."""
    offsets = columns["offsets"]
    metadata = columns["metadata"] or [""] * len(offsets)
    check_runs(columns["runs"], len(offsets))
    keys = [
        (run["topic"], run["topic_id"], number)
        for run in columns["runs"]
        for number in range(run["first"], run["first"] + run["count"])
    ]
    return tuple(
        [
            PartitionOffset(topic, topic_id, number, offset, text)
            for (topic, topic_id, number), offset, text in zip(keys, offsets, metadata, strict=True)
        ]
    )


def offsets_text(offsets: Iterable[PartitionOffset]) -> str:
    """Offsets as the canonical text of a source's position, in the form of Spark's Kafka connector."""
    nested: dict[str, dict[str, int]] = {}
    for at in offsets:
        nested.setdefault(at.topic, {})[str(at.partition)] = at.offset
    return json.dumps(nested)


def source_columns(source: SourceProgress) -> dict[str, Any]:
    """A source as `values.SOURCES`."""
    fields = {**source._asdict()}
    for name in ("start", "end"):
        offsets = fields[f"{name}_offsets"]
        is_text = bool(offsets) and fields[name] == offsets_text(offsets)
        fields[f"{name}_is_text"] = is_text
        fields[f"{name}_offsets"] = offset_columns(offsets)
        if is_text:
            fields[name] = None
    return fields


def read_source(fields: dict[str, Any]) -> SourceProgress:
    """The reverse of `source_columns`."""
    start, end = read_offsets(fields["start_offsets"]), read_offsets(fields["end_offsets"])
    return SourceProgress(
        offsets_text(start) if fields["start_is_text"] else fields["start"],
        offsets_text(end) if fields["end_is_text"] else fields["end"],
        fields["group"],
        start,
        end,
        fields["name"],
    )
