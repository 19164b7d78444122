"""The options of ``format("eoslog")`` as the source and the sink use them: several options become one value.

Each option, with its default and range, is a row of `spark_eos.config.source.SOURCE` or `spark_eos.config.sink.SINK`.

Nothing is accepted and then ignored: an option that means nothing where it is given is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from spark_eos.config.compression import LEVELS, Compression, level_option
from spark_eos.config.isolation import Isolation
from spark_eos.config.reader import OptionReader, expected
from spark_eos.config.source import SOURCE
from spark_eos.config.values import MAX_INT, Integer
from spark_eos.errors import ConfigError
from spark_eos.log.time_travel import time_ms
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.option_names import is_known_to, of_table, read_options
from spark_eos.spark.source.offsets import (
    Kind,
    OffsetSpec,
    Strategy,
    loads,
    parse_offsets_json,
    parse_timestamps_json,
)
from spark_eos.storage import NO_SETTINGS, Settings, settings_of, split_settings

__all__ = ["SinkOptions", "SourceOptions", "parse_any_source", "parse_sink", "parse_source"]

_EARLIEST = OffsetSpec("earliest")
_LATEST = OffsetSpec("latest")
_NO_OPTIONS = (
    "no path is given: it is the log, a folder or URL; give .load(url), .start(url) or .save(url). Spark hands a "
    "Python data source no option of a catalog's table; they are given with each statement: {}"
)
_ASSIGN_EXAMPLE = '{"flights": [0, 1]}'


@dataclass(frozen=True)
class SourceOptions:
    """What to read, checked. ``ending``, ``version_as_of`` (an entry) and ``timestamp_as_of_ms`` are for batches.

    Exactly one of ``subscribe`` (topics), ``subscribe_pattern`` (a regular expression for whole names) and
    ``assign`` (partitions by topic, in order) is not None. ``starting_option`` is the option that ``starting`` was
    given by, None where it is the default.
    """

    path: str
    subscribe: tuple[str, ...] | None = None
    subscribe_pattern: str | None = None
    assign: dict[str, tuple[int, ...]] | None = None
    starting: OffsetSpec = _LATEST
    starting_option: str | None = None
    ending: OffsetSpec = _LATEST
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    include_metadata: bool = False
    isolation_level: Isolation = Isolation.READ_COMMITTED
    group_id: str | None = None
    version_as_of: int | None = None
    timestamp_as_of_ms: int | None = None
    settings: Settings = NO_SETTINGS

    @property
    def named_topics(self) -> frozenset[str]:
        """The topics that ``subscribe`` or ``assign`` names."""
        return frozenset(self.subscribe or self.assign or ())


@dataclass(frozen=True)
class SinkOptions:
    """Where to write, checked. ``checkpoint_location`` is None where it comes from Spark's configuration.

    The other fields are options, under their names.
    """

    path: str
    topic: str | None = None
    transactional_id: str | None = None
    group_id: str | None = None
    processing_guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once"
    num_partitions: int = 1
    auto_create_topics_enable: bool = True
    row_format: Literal["kafka", "typed"] | None = None
    checkpoint_location: str | None = None
    allow_state_loss: bool = False
    compression: Compression | None = None
    partitioner_class: str | None = None
    include_headers: bool = True
    auto_maintenance_enable: bool = True
    settings: Settings = NO_SETTINGS
    checkpoint_settings: Settings = NO_SETTINGS


def parse_any_source(options: Mapping[str, str]) -> SourceOptions:
    """The options of a stream or a batch, for Spark's question after the columns, which does not say whose they are.

    Raises `ConfigError` for what neither could take: this is the earliest call that can tell, at ``load()``.
    """
    options = of_table(options)
    rest, _ = split_settings(options)
    read_options(rest, "source")
    refused: ConfigError | None = None
    for streaming in (True, False):
        try:
            return parse_source(options, streaming=streaming)
        except ConfigError as error:
            if refused is None or not is_known_to(rest, "stream source"):
                refused = error  # The error is of the use whose options these are.
    assert refused is not None
    raise refused


def parse_source(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """The options of a source. Raises `ConfigError`, naming the option, its value and what is expected."""
    rest, settings = split_settings(options)
    given = read_options(rest, "stream source" if streaming else "batch source")
    selection = replace(_selection(given), settings=settings)
    starting = _starting(given, streaming=streaming)
    ending = _LATEST if streaming else _ending(given)
    for bound, wanted in (("starting", starting), ("ending", ending)):
        for at in (*wanted.offsets, *wanted.timestamps_ms):
            _check_selected(_option_of(given, bound), at, selection)
    group_id: str | None = given["group.id"]
    if starting.kind == "committed" and group_id is None:
        raise ConfigError(
            "option startingOffsets='committed' needs option group.id: the offsets committed by that group; "
            "a sink commits under its own group.id, or else under its transactional.id"
        )
    if group_id is not None and starting.kind != "committed" and not streaming:
        raise ConfigError(
            f"option group.id={group_id!r} has no effect: a batch read commits no offsets, and reads those of a group "
            "with startingOffsets=committed alone. Leave it out, or set that"
        )
    version, moment = given["versionAsOf"], _moment(given)
    if version is not None and moment is not None:
        raise ConfigError("options versionAsOf and timestampAsOf contradict each other; keep one of them")
    return replace(
        selection,
        starting=starting,
        starting_option=option if (option := _option_of(given, "starting")) in given else None,
        ending=ending,
        max_offsets_per_trigger=given["maxOffsetsPerTrigger"],
        min_partitions=given["minPartitions"],
        max_records_per_partition=given["maxRecordsPerPartition"],
        isolation_level=given["isolation.level"],
        group_id=group_id,
        version_as_of=version,
        timestamp_as_of_ms=moment,
    )


def parse_sink(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """The options of a sink. Raises `ConfigError`, naming the option, its value and what is expected."""
    rest, settings = split_settings(options)
    given = read_options(rest, "stream sink" if streaming else "batch sink")
    path, checkpoint = _path(given), given["checkpointLocation"]
    own, others = settings_of(path, settings), settings_of(checkpoint or "", settings)
    for name in settings:
        if name not in own and name not in others:
            raise ConfigError(
                f"option {name} is a setting of an object store that neither the path nor the checkpointLocation is "
                "in; leave it out"
            )
    return SinkOptions(
        path=path,
        topic=given["topic"],
        transactional_id=given["transactional.id"],
        group_id=given["group.id"],
        allow_state_loss=given["allowStateLoss"],
        processing_guarantee=given["processing.guarantee"],
        num_partitions=given["num.partitions"],
        row_format=given["row.format"],
        auto_create_topics_enable=given["auto.create.topics.enable"],
        checkpoint_location=checkpoint,
        compression=_compression(given),
        partitioner_class=given["partitioner.class"],
        include_headers=given["includeHeaders"],
        auto_maintenance_enable=given["auto.maintenance.enable"],
        settings=own,
        checkpoint_settings=others,
    )


def _compression(given: OptionReader) -> Compression | None:
    """Of several options one value. A level for a codec that is not chosen would have no effect."""
    codec = given["compression.type"]
    for other in LEVELS:
        if level_option(other) in given and other != codec:
            raise ConfigError(
                f"option {level_option(other)} has no effect without compression.type={other}: set that, or leave "
                "the level out"
            )
    return Compression.chosen(codec, given.values)


def _selection(given: OptionReader) -> SourceOptions:
    """What decides on the rows' columns and is the same in streams and batches."""
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name in given]
    if not chosen and "path" not in given:
        raise ConfigError(_NO_OPTIONS.format("SELECT ... FROM t WITH (path = '...', subscribe = '...')"))
    if len(chosen) != 1:
        found = f"options {' and '.join(chosen)} are given" if chosen else "a source has to say what it reads"
        raise ConfigError(f"{found}; give exactly one of subscribe, subscribePattern and assign")
    return SourceOptions(
        path=_path(given),
        subscribe=_subscribe(given["subscribe"]),
        subscribe_pattern=_pattern(given["subscribePattern"]),
        assign=_assign(given["assign"]),
        include_headers=given["includeHeaders"],
        include_metadata=given["includeMetadata"],
        fail_on_data_loss=given["failOnDataLoss"],
    )


def _path(given: OptionReader) -> str:
    path: str | None = given["path"]
    if path is None:
        raise ConfigError(_NO_OPTIONS.format("INSERT INTO t WITH (path = '...', topic = '...') ..."))
    return path


def _subscribe(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise expected(SOURCE, "subscribe", text, "topics, separated by commas, such as 'flights,delays'")
    return topics


def _pattern(text: str | None) -> str | None:
    if text is not None:
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise expected(
                SOURCE, "subscribePattern", text, f"a regular expression for topics' names ({error})"
            ) from error
    return text


def _assign(text: str | None) -> dict[str, tuple[int, ...]] | None:
    if text is None:
        return None
    what = f"partitions by topic as JSON, such as {_ASSIGN_EXAMPLE}"
    try:
        found = loads(text)
    except ValueError as error:
        raise expected(SOURCE, "assign", text, f"{what} ({error})") from error
    if not isinstance(found, dict) or not found:
        raise expected(SOURCE, "assign", text, what)
    for topic, numbers in found.items():
        if not isinstance(numbers, list) or not numbers:
            raise expected(SOURCE, "assign", text, f"{what}; topic {topic!r} has no list of partitions")
        for number in numbers:
            if type(number) is not int or not 0 <= number <= MAX_INT:
                raise expected(
                    SOURCE, "assign", text, f"{what}; {number!r} of topic {topic!r} is not a partition"
                )
    return {topic: tuple(sorted(set(found[topic]))) for topic in sorted(found)}


def _starting(given: OptionReader, *, streaming: bool) -> OffsetSpec:
    strategy: Strategy | None = given["startingOffsetsByTimestampStrategy"]
    option = _option_of(given, "starting")
    if strategy is not None and option == "startingOffsets":
        raise ConfigError(
            "option startingOffsetsByTimestampStrategy needs startingTimestamp or startingOffsetsByTimestamp"
        )
    if option != "startingOffsets":
        return _by_timestamp(given, option, strategy or "error")
    words: tuple[Kind, ...] = ("earliest", "latest", "committed") if streaming else ("earliest", "committed")
    default = _LATEST if streaming else _EARLIEST
    return _by_offset(given, option, words, default, earliest=True, latest=streaming)


def _ending(given: OptionReader) -> OffsetSpec:
    option = _option_of(given, "ending")
    if option != "endingOffsets":
        return _by_timestamp(given, option, "latest")
    return _by_offset(given, option, ("latest",), _LATEST, earliest=False, latest=True)


def _moment(given: OptionReader) -> int | None:
    """Delta's timestampAsOf: a date or a time; or, as in startingTimestamp, milliseconds."""
    text: str | None = given["timestampAsOf"]
    if text is None:
        return None
    try:
        return Integer(0).parse(text) if text.isdigit() else time_ms(text)
    except (ValueError, OverflowError) as error:
        what = (
            "a date or time such as 2026-11-21 or 2026-11-21T16:30:00.000Z (UTC unless it says otherwise), or"
        )
        raise expected(SOURCE, "timestampAsOf", text, f"{what} milliseconds since 1970") from error


def _option_of(given: OptionReader, bound: str) -> str:
    """The one option that says where reading starts, or ends."""
    names = (f"{bound}Offsets", f"{bound}Timestamp", f"{bound}OffsetsByTimestamp")
    chosen = [name for name in names if name in given]
    if len(chosen) > 1:
        raise ConfigError(f"options {' and '.join(chosen)} contradict each other; keep one of them")
    return chosen[0] if chosen else names[0]


def _by_offset(
    given: OptionReader,
    option: str,
    words: tuple[Kind, ...],
    default: OffsetSpec,
    *,
    earliest: bool,
    latest: bool,
) -> OffsetSpec:
    text: str | None = given[option]
    if text is None:
        return default
    for word in words:
        if text.lower() == word:
            return OffsetSpec(word)
    if not text.startswith("{"):
        raise expected(
            SOURCE, option, text, f'{", ".join(words)} or offsets as JSON, such as {{"flights": {{"0": 23}}}}'
        )
    offsets = parse_offsets_json(option, text, earliest_allowed=earliest, latest_allowed=latest)
    return OffsetSpec("specific", offsets=offsets)


def _by_timestamp(given: OptionReader, option: str, strategy: Strategy) -> OffsetSpec:
    if option.endswith("ByTimestamp"):
        times = parse_timestamps_json(option, given[option])
        return OffsetSpec("timestamp", timestamps_ms=times, strategy=strategy)
    return OffsetSpec("timestamp", timestamp_ms=given[option], strategy=strategy)


def _check_selected(option: str, at: TopicPartition, shape: SourceOptions) -> None:
    """What an option says of a partition that is not read would be ignored."""
    if shape.assign is not None:
        selected, how = at.partition in shape.assign.get(at.topic, ()), "assign"
    elif shape.subscribe is not None:
        selected, how = at.topic in shape.subscribe, "subscribe"
    else:
        selected, how = re.fullmatch(shape.subscribe_pattern or "", at.topic) is not None, "subscribePattern"
    if not selected:
        raise ConfigError(
            f"option {option} names partition {at.partition} of topic {at.topic!r}, which option {how} does "
            "not select; leave it out, or select it"
        )
