"""Where reading starts and ends, of the several options that say so.

They are ranked as Spark's Kafka source ranks them: a timestamp for all partitions, timestamps by partition, offsets. Of
those that are given the first one holds, and what the others say does not count. Kafka knows no tables: with
``startingTable`` the others are refused.
"""

from __future__ import annotations

from spark_eos.config.isolation import Isolation
from spark_eos.config.reader import OptionReader, expected_error
from spark_eos.config.source import SOURCE
from spark_eos.errors import ConfigError
from spark_eos.spark.source.offsets import (
    Kind,
    OffsetSpec,
    Strategy,
    parse_offsets_json,
    parse_timestamps_json,
)

_EARLIEST, _LATEST = OffsetSpec("earliest"), OffsetSpec("latest")

DEFAULT_END = _LATEST
"""The end of a read that no option limits, and the start of a stream."""


def option_of(options: OptionReader, bound: str) -> str:
    """The option that says where reading starts (``starting``) or ends: of those that are given the first in rank."""
    names = (f"{bound}Table", f"{bound}Timestamp", f"{bound}OffsetsByTimestamp", f"{bound}Offsets")
    return next((name for name in names if name in options), f"{bound}Offsets")


def starting(options: OptionReader, *, streaming: bool) -> OffsetSpec:
    """Where reading starts. Raises `ConfigError`."""
    option = option_of(options, "starting")
    if option == "startingTable":
        return _at_table(options)
    if "startingTableVersion" in options:
        raise ConfigError(
            "option startingTableVersion has no effect without startingTable: give both, or none"
        )
    if option != "startingOffsets":
        return _by_timestamp(options, option, options["startingOffsetsByTimestampStrategy"] or "error")
    words: tuple[Kind, ...] = ("earliest", "latest", "committed") if streaming else ("earliest", "committed")
    default = _LATEST if streaming else _EARLIEST
    return _by_offset(options, option, words, default, earliest=True, latest=streaming)


def ending(options: OptionReader) -> OffsetSpec:
    """Where a batch read ends. Raises `ConfigError`."""
    option = option_of(options, "ending")
    if option != "endingOffsets":
        return _by_timestamp(options, option, "latest")
    return _by_offset(options, option, ("latest",), _LATEST, earliest=False, latest=True)


def check_whole(options: OptionReader, ends: OffsetSpec) -> None:
    """Raise `ConfigError` if wholeTransactions contradicts another option; ``ends`` is what `ending` has given."""
    if not options["wholeTransactions"]:
        return
    if options["isolation.level"] is not Isolation.READ_COMMITTED:
        option = "isolation.level"
    elif ends != DEFAULT_END:
        option = option_of(options, "ending")
    elif "offsetRanges" in options:
        option = "offsetRanges"
    else:
        return
    raise ConfigError(
        f"options wholeTransactions and {option} contradict each other: wholeTransactions says where reading ends, and "
        "that is never in an open transaction. Keep one of them"
    )


def _by_offset(
    options: OptionReader,
    option: str,
    words: tuple[Kind, ...],
    default: OffsetSpec,
    *,
    earliest: bool,
    latest: bool,
) -> OffsetSpec:
    text: str | None = options[option]
    if text is None:
        return default
    for word in words:
        if text.lower() == word:
            return OffsetSpec(word)
    if not text.startswith("{"):
        raise expected_error(
            SOURCE, option, text, f'{", ".join(words)} or offsets as JSON, such as {{"flights": {{"0": 23}}}}'
        )
    offsets = parse_offsets_json(option, text, earliest_allowed=earliest, latest_allowed=latest)
    return OffsetSpec("specific", offsets=offsets)


def _at_table(options: OptionReader) -> OffsetSpec:
    for option in ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets"):
        if option in options:
            raise ConfigError(
                f"options startingTable and {option} contradict each other: both say where reading begins. Keep one"
            )
    return OffsetSpec("table", table=options["startingTable"], table_version=options["startingTableVersion"])


def _by_timestamp(options: OptionReader, option: str, strategy: Strategy) -> OffsetSpec:
    if options[option] is None:
        raise ConfigError(f"option {option} cannot be read")  # Its value is a problem already.
    if option.endswith("ByTimestamp"):
        times = parse_timestamps_json(option, options[option])
        return OffsetSpec("timestamp", timestamps_ms=times, strategy=strategy)
    return OffsetSpec("timestamp", timestamp_ms=options[option], strategy=strategy)
