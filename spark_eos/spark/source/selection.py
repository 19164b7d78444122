"""The values of the options that say which topics, partitions and what moment of a log a source reads.

Each function takes the text of an option, or None where it was not given, and raises `ConfigError` for what is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from spark_eos.config.reader import OptionReader, expected_error
from spark_eos.config.source import SOURCE
from spark_eos.config.values import MAX_INT, MAX_LONG, Integer
from spark_eos.errors import ConfigError
from spark_eos.log.time_travel import time_ms
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.source.offsets import loads, partition_number

Ranges: TypeAlias = "dict[TopicPartition, tuple[tuple[int, int], ...]]"

_ASSIGN_EXAMPLE = '{"flights": [0, 1]}'
_RANGES_EXAMPLE = '{"flights": {"0": [[0, 100], [200, 300]]}}'
_ID = "id"
"""Beside the partitions of a topic: its id, if the ranges mean nothing in another topic of that name."""

_OTHER_BOUNDS = (
    *("startingTable", "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
)


def subscribe(text: str | None) -> tuple[str, ...] | None:
    """The topics of ``subscribe``, in order, each once."""
    if text is None:
        return None
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise expected_error(
            SOURCE, "subscribe", text, "topics, separated by commas, such as 'flights,delays'"
        )
    return topics


def columns(options: OptionReader) -> tuple[str, ...] | None:
    """The names of option ``columns``. Raises `ConfigError`, also for what it makes superfluous."""
    text: str | None = options["columns"]
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    twice = [name for name in names if names.count(name) > 1]
    if not all(names) or twice:
        why = f"; {twice[0]!r} is there twice" if twice and twice[0] else ""
        raise expected_error(SOURCE, "columns", text, f"names, separated by commas, such as 'key,value'{why}")
    for option, shown in (("includeHeaders", "headers"), ("includeMetadata", "_offset")):
        if option in options:
            raise ConfigError(
                f"option columns says which columns are read, so option {option} has no effect: leave that out, and "
                f"name what you want of it, such as {shown}, in columns"
            )
    return names


def pattern(text: str | None) -> str | None:
    """The regular expression of ``subscribePattern``."""
    if text is not None:
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise expected_error(
                SOURCE, "subscribePattern", text, f"a regular expression for topics' names ({error})"
            ) from error
    return text


def assign(text: str | None) -> dict[str, tuple[int, ...]] | None:
    """The partitions of ``assign``, by topic."""
    if text is None:
        return None
    form = f"partitions by topic as JSON, such as {_ASSIGN_EXAMPLE}"
    try:
        by_topic = loads(text)
    except ValueError as error:
        raise expected_error(SOURCE, "assign", text, f"{form} ({error})") from error
    if not isinstance(by_topic, dict) or not by_topic:
        raise expected_error(SOURCE, "assign", text, form)
    for topic, numbers in by_topic.items():
        if not isinstance(numbers, list) or not numbers:
            raise expected_error(SOURCE, "assign", text, f"{form}; topic {topic!r} has no list of partitions")
        for number in numbers:
            if type(number) is not int or not 0 <= number <= MAX_INT:
                raise expected_error(
                    SOURCE, "assign", text, f"{form}; {number!r} of topic {topic!r} is not a partition"
                )
    return {topic: tuple(sorted(set(by_topic[topic]))) for topic in sorted(by_topic)}


def moment(options: OptionReader) -> int | None:
    """Delta's timestampAsOf: a date or a time; or, as in startingTimestamp, milliseconds."""
    text: str | None = options["timestampAsOf"]
    if text is None:
        return None
    try:
        return Integer(0).parse(text) if text.isdigit() else time_ms(text)
    except (ValueError, OverflowError) as error:
        form = (
            "a date or time such as 2026-11-21 or 2026-11-21T16:30:00.000Z (UTC unless it says otherwise), or"
        )
        raise expected_error(SOURCE, "timestampAsOf", text, f"{form} milliseconds since 1970") from error


def offset_ranges(options: OptionReader) -> Ranges | None:
    """The ranges of option ``offsetRanges``, in the order of topics and partitions; None: it was not given.

    Raises `ConfigError`, also for another option that says where reading begins or ends.
    """
    text: str | None = options["offsetRanges"]
    if text is None:
        return None
    for option in _OTHER_BOUNDS:
        if option in options:
            raise ConfigError(
                f"options offsetRanges and {option} contradict each other: offsetRanges says where reading begins and "
                "ends. Keep one of them"
            )
    try:
        return dict(sorted(_by_partition(loads(text))))
    except (ValueError, AttributeError) as error:
        raise expected_error(
            SOURCE, "offsetRanges", text, f"ranges by partition as JSON, such as {_RANGES_EXAMPLE} ({error})"
        ) from error


def ranged_ids(options: OptionReader) -> dict[str, str]:
    """The ids of topics that option ``offsetRanges``, which `offset_ranges` has read, gives beside the ranges."""
    text: str | None = options["offsetRanges"]
    by_topic = {} if text is None else loads(text)
    return {topic: partitions[_ID] for topic, partitions in by_topic.items() if _ID in partitions}


def _by_partition(by_topic: Any) -> Iterator[tuple[TopicPartition, tuple[tuple[int, int], ...]]]:
    for topic, partitions in by_topic.items():
        for key, ranges in partitions.items():
            if key == _ID and type(ranges) is str:
                continue
            number = partition_number(key)
            if number is None:
                raise ValueError(f"{key!r} of topic {topic!r} is not a partition")
            yield TopicPartition(topic, number), _ranges(ranges, f"partition {key} of topic {topic!r}")


def _ranges(value: Any, where: str) -> tuple[tuple[int, int], ...]:
    ranges: list[tuple[int, int]] = []
    for pair in value if isinstance(value, list) else [value]:
        if not isinstance(pair, list) or [type(number) for number in pair] != [int, int]:
            raise ValueError(f"{where} has {pair!r}; expected ranges [first, end] of whole numbers")
        if not (ranges[-1][1] if ranges else 0) <= pair[0] <= pair[1] <= MAX_LONG:
            raise ValueError(
                f"{where} has {pair!r}; expected ranges [first, end] that rise and do not overlap"
            )
        ranges.append((pair[0], pair[1]))
    return tuple(ranges)
