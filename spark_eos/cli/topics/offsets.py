"""``eoslog get-offsets``: the first, last, or newest offset of partitions, or the one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, at_most_one, open_log
from spark_eos.cli.output import print_json
from spark_eos.cli.parsing import Command
from spark_eos.cli.usage.completion import topic_names
from spark_eos.config.isolation import Isolation
from spark_eos.errors import UnknownTopicOrPartitionError
from spark_eos.protocol.types import EARLIEST_MS, TopicPartition

if TYPE_CHECKING:
    from spark_eos.log.log import Log
    from spark_eos.protocol.state import State

app = typer.Typer()

_NAMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL = -1, -2, -3, -4
_PATTERN = re.compile(r"([^:]*)(?::(?:([0-9]+)|([0-9]*)-([0-9]*)))?", re.ASCII)


@app.command("get-offsets", cls=Command)
def get_offsets(
    url: Url,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Only topics whose whole name matches (default: all topics).",
            autocompletion=topic_names,
        ),
    ] = None,
    partitions: Annotated[
        str | None, typer.Option(metavar="N[,N]", help="Only partitions with these numbers.")
    ] = None,
    topic_partitions: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC[:N],...",
            help="Partitions: orders:1,bills:0-3 (without 3),logs:2-,.*:-2; names are regular expressions.",
        ),
    ] = None,
    time: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Which offset: latest (-1), earliest (-2), max-timestamp (-3), or the first record at or after a "
            "time: milliseconds since 1970, or ISO 8601 (UTC unless it has a zone). Default: latest.",
            show_default=False,
        ),
    ] = "latest",
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Print offsets of partitions, as TOPIC:PARTITION:OFFSET.

    After the last colon is nothing if no record is that late. earliest-local (-4) is earliest here; latest-tiered (-5)
    and earliest-pending-upload (-6) find nothing, for there are no tiers.
    """
    at_most_one({"--topic-partitions": topic_partitions, "--topic": topic})
    at_most_one({"--topic-partitions": topic_partitions, "--partitions": partitions})
    when = _time(time)
    patterns = (
        _patterns(topic_partitions) if topic_partitions is not None else _one_pattern(topic, partitions)
    )
    log = open_log(url, command_config)
    state = log.follow()
    places = [
        TopicPartition(name, number)
        for name, topic_state in sorted(state.topics.items())
        for number in range(topic_state.partitions)
        if any(pattern.fullmatch(name) and number in numbers for pattern, numbers in patterns)
    ]
    if not places:
        from spark_eos.protocol.actions.topics import names_of_topics

        raise UnknownTopicOrPartitionError(
            f"{url}: no partition matches; its topics are {names_of_topics(state)}"
        )
    for at in places:
        offset = _offset(log, state, at, when)
        if as_json:
            print_json({**at._asdict(), "offset": offset})
        else:
            print(f"{at.topic}:{at.partition}:{'' if offset is None else offset}")


def _time(text: str) -> int:
    from spark_eos.log.time_travel import time_ms

    if text in _NAMES:
        return _NAMES[text]
    try:
        when = int(text) if re.fullmatch(r"-?[0-9]+", text) else time_ms(text)
    except ValueError:
        when = -7
    if when < -6:
        raise typer.BadParameter(
            f"{text!r} is not a time, and not one of {', '.join(_NAMES)}", param_hint="'--time'"
        )
    return when


class _Numbers:
    """The numbers of partitions from ``first`` to before ``end``."""

    def __init__(self, first: int = 0, end: int | None = None, listed: Iterable[int] | None = None) -> None:
        self._first, self._end = first, end
        self._listed = None if listed is None else frozenset(listed)

    def __contains__(self, number: int) -> bool:
        if self._listed is not None:
            return number in self._listed
        return self._first <= number and (self._end is None or number < self._end)


_Pattern = tuple["re.Pattern[str]", _Numbers]


def _one_pattern(topic: str | None, partitions: str | None) -> list[_Pattern]:
    numbers = _Numbers()
    if partitions is not None:
        try:
            numbers = _Numbers(listed=[int(part) for part in partitions.split(",")])
        except ValueError:
            raise typer.BadParameter(f"{partitions!r} is not N,N", param_hint="'--partitions'") from None
    return [(_compiled(".*" if topic is None else topic, "--topic"), numbers)]


def _patterns(text: str) -> list[_Pattern]:
    patterns = []
    for part in text.split(","):
        parsed = _PATTERN.fullmatch(part)
        if parsed is None:
            raise typer.BadParameter(
                f"{part!r} is not TOPIC, TOPIC:N, TOPIC:N-N, TOPIC:N- or TOPIC:-N",
                param_hint="'--topic-partitions'",
            )
        name, number, first, end = parsed.groups()
        numbers = (
            _Numbers(int(first or 0), int(end) if end else None)
            if number is None
            else _Numbers(listed=[int(number)])
        )
        patterns.append((_compiled(name or ".*", "--topic-partitions"), numbers))
    return patterns


def _compiled(pattern: str, option: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise typer.BadParameter(
            f"{pattern!r} is no regular expression: {error}", param_hint=f"'{option}'"
        ) from None


def _offset(log: Log, state: State, at: TopicPartition, when: int) -> int | None:
    partition = state.partitions[state.topics[at.topic].topic_id, at.partition]
    if when == _LATEST:
        return partition.end
    if when in {_EARLIEST, _EARLIEST_LOCAL}:
        return partition.start
    if when == _MAX_TIMESTAMP:
        return _newest(log, state, at)
    if when < 0:
        return None
    record = log.offset_for_time(at, when, Isolation.READ_UNCOMMITTED)
    return None if record is None else record[0]


def _newest(log: Log, state: State, at: TopicPartition) -> int | None:
    """The first record with the largest timestamp.

    Index pages and rows say which timestamp is the largest that their records can have. The search begins at the latest
    of these timestamps that a record has. A later record is left of a batch that has lost its own latest one.
    """
    index = state.partitions[state.topics[at.topic].topic_id, at.partition].index
    times = {page.max_timestamp_ms for page in index.pages} | {
        row.max_timestamp_ms for row in index.tail.rows(0)
    }
    newest, high = None, max(times, default=EARLIEST_MS)
    for time_ms in sorted({EARLIEST_MS, *times}, reverse=True):
        newest = log.offset_for_time(at, time_ms, Isolation.READ_UNCOMMITTED)
        if newest is not None:
            break
        high = time_ms - 1
    while newest is not None and newest[1] < high:
        middle = (newest[1] + high + 1) // 2
        later = log.offset_for_time(at, middle, Isolation.READ_UNCOMMITTED)
        if later is None:
            high = middle - 1
        else:
            newest = later
    return None if newest is None else newest[0]
