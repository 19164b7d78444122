"""The options of ``format("eoslog")`` as the source and the sink use them: several options become one value.

Each option, with its default and range, is a row of `spark_eos.config.source.SOURCE` or `spark_eos.config.sink.SINK`.

Nothing is accepted and then ignored: an option that means nothing where it is given is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from spark_eos.config.compression import BY_DEFAULT, LEVELS, Compression, level_option
from spark_eos.config.isolation import Isolation
from spark_eos.config.option import Use
from spark_eos.config.reader import OptionReader, Problems
from spark_eos.config.sink import TOPIC_OPTIONS
from spark_eos.config.source import SOURCE
from spark_eos.config.store import (
    is_store_option,
    only_store_options,
    read_store_options,
    without_store_options,
)
from spark_eos.errors import ConfigError, EosLogError, InvalidRequestError
from spark_eos.spark.option_names import of_both, of_table, read_options
from spark_eos.spark.source.bounds import DEFAULT_END, check_whole, ending, option_of, starting
from spark_eos.spark.source.offsets import OffsetSpec
from spark_eos.spark.source.selection import (
    Ranges,
    assign,
    columns,
    moment,
    offset_ranges,
    pattern,
    ranged_ids,
    subscribe,
)
from spark_eos.spark.version import HAS_READ_LIMITS, SPARK
from spark_eos.storage import NO_SETTINGS, Settings, log_settings_of, settings_of

_NO_OPTIONS = (
    "no path is given: it is the log, a folder or URL; give .load(url), .start(url) or .save(url). Spark hands a "
    "Python data source no option of a catalog's table; they are given with each statement: {}"
)


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
    starting: OffsetSpec = DEFAULT_END
    starting_option: str | None = None
    ending: OffsetSpec = DEFAULT_END
    offset_ranges: Ranges | None = None
    ranged_ids: Mapping[str, str] = field(default_factory=dict)
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = SOURCE["maxTriggerDelay"].default
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    include_metadata: bool = False
    columns: tuple[str, ...] | None = None
    where: str | None = None
    filter_pushdown: bool = False
    isolation_level: Isolation = Isolation.READ_COMMITTED
    whole_transactions: bool = False
    group_id: str | None = None
    version_as_of: int | None = None
    timestamp_as_of_ms: int | None = None
    row_format: Literal["kafka", "typed"] | None = None
    mode: Literal["failfast", "permissive"] = "failfast"
    schema_registry_url: str | None = None
    schema_registry_basic_auth_user_info: str | None = field(default=None, repr=False)
    settings: Settings = NO_SETTINGS

    @property
    def named_topics(self) -> frozenset[str]:
        """The topics that ``subscribe`` or ``assign`` names."""
        return frozenset(self.subscribe or self.assign or ())


@dataclass(frozen=True)
class SinkOptions:
    """Where to write, checked. ``checkpoint_location`` is None where it comes from Spark's configuration.

    ``topic_config`` has settings of a topic, by name, as text. The other fields are options, under their names.
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
    compression: Compression | None = BY_DEFAULT
    partitioner_class: str | None = None
    max_request_size: int | None = None
    include_headers: bool = True
    merge_schema: bool = False
    auto_maintenance_enable: bool = True
    errors_deadletterqueue_topic_name: str | None = None
    topic_config: tuple[tuple[str, str], ...] = ()
    txn_app_id: str | None = None
    txn_version: int | None = None
    settings: Settings = NO_SETTINGS
    checkpoint_settings: Settings = NO_SETTINGS


def parse_any_source(
    options: Mapping[str, str], also: Callable[[SourceOptions], object] | None = None
) -> SourceOptions:
    """The options of a stream or a batch, for Spark's question after the columns, which does not say whose they are.

    Raises `ConfigError` for what neither could take, with all that is wrong in a stream and in a batch: this is the
    earliest call that can tell, at ``load()``. What ``also`` would refuse after that is in the same error.
    """
    options = of_table(options)
    problems_of: dict[bool, Problems] = {}
    for streaming in (True, False):
        problems = problems_of[streaming] = Problems()
        parsed = _source(options, problems, streaming=streaming, any_source=True)
        if not problems.texts:
            return parsed
        decisive = {"path", "subscribe", "subscribePattern", "assign"}
        if also is not None and not any(name in decisive or is_store_option(name) for name in problems.texts):
            try:
                also(parsed)
            except InvalidRequestError as error:
                problems.add("the topics", str(error))
            except EosLogError:
                pass  # Not what was asked for is wrong. The options are.
    raise ConfigError(of_both(problems_of[True].texts, problems_of[False].texts))


def parse_source(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """The options of a source. Raises `ConfigError` with all that do not fit, each with what is expected."""
    problems = Problems()
    parsed = _source(options, problems, streaming=streaming)
    problems.check()
    return parsed


def _source(
    raw_options: Mapping[str, str], problems: Problems, *, streaming: bool, any_source: bool = False
) -> SourceOptions:
    """The options of a source, without those that have problems."""
    settings = _settings(raw_options, problems)
    source_options = without_store_options(raw_options)
    use: Use = "stream source" if streaming else "batch source"
    options = read_options(source_options, use, problems, any_source=any_source)
    selection = replace(_selection(options, problems), settings=settings)
    start, end = option_of(options, "starting"), option_of(options, "ending")
    begins = ends = DEFAULT_END
    with problems.about(start):
        begins = starting(options, streaming=streaming)
        _check_selected(start, begins, selection)
    if not streaming:
        with problems.about(end):
            ends = ending(options)
            _check_selected(end, ends, selection)
    if "startingOffsetsByTimestampStrategy" in options and start in ("startingTable", "startingOffsets"):
        problems.add(
            "startingOffsetsByTimestampStrategy",
            "option startingOffsetsByTimestampStrategy needs startingTimestamp or startingOffsetsByTimestamp",
        )
    with problems.about("group.id"):
        _check_group(options, begins, streaming=streaming)
    with problems.about("minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay"):
        _check_triggers(options)
    with problems.about("wholeTransactions"):
        check_whole(options, ends)
    moment_ms = ranges = None
    with problems.about("timestampAsOf"):
        moment_ms = moment(options)
    with problems.about("offsetRanges"):
        ranges = offset_ranges(options)
        selection = replace(selection, ranged_ids=ranged_ids(options))
        _check_selected("offsetRanges", OffsetSpec("specific", dict.fromkeys(ranges or (), 0)), selection)
    if "versionAsOf" in options and "timestampAsOf" in options:
        problems.add(
            "versionAsOf", "options versionAsOf and timestampAsOf contradict each other; keep one of them"
        )
    return replace(
        selection,
        starting=begins,
        starting_option=start if start in options else None,
        ending=ends,
        offset_ranges=ranges,
        max_offsets_per_trigger=options["maxOffsetsPerTrigger"],
        min_offsets_per_trigger=options["minOffsetsPerTrigger"],
        max_trigger_delay_ms=options["maxTriggerDelay"],
        min_partitions=options["minPartitions"],
        max_records_per_partition=options["maxRecordsPerPartition"],
        filter_pushdown=options["filterPushdown"],
        isolation_level=options["isolation.level"],
        whole_transactions=options["wholeTransactions"],
        group_id=options["group.id"],
        version_as_of=options["versionAsOf"],
        timestamp_as_of_ms=moment_ms,
    )


def parse_sink(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """The options of a sink. Raises `ConfigError` with all that do not fit, each with what is expected."""
    problems = Problems()
    parsed = read_sink(options, problems, streaming=streaming)
    problems.check()
    return parsed


def read_sink(raw_options: Mapping[str, str], problems: Problems, *, streaming: bool) -> SinkOptions:
    """The options of a sink, without those that have problems; the path is empty then."""
    settings = _settings(raw_options, problems)
    use: Use = "stream sink" if streaming else "batch sink"
    options = read_options(without_store_options(raw_options), use, problems)
    path = _path(options, problems)
    checkpoint = options["checkpointLocation"]
    of_log, of_checkpoint = log_settings_of(path, settings), settings_of(checkpoint or "", settings)
    for name in settings:
        if path and name not in of_log and name not in of_checkpoint:
            problems.add(
                name,
                f"option {name} is a setting of an object store that neither the path nor the checkpointLocation is "
                "in; leave it out",
            )
    with problems.about("txnAppId", "txnVersion"):
        _check_version(options)
    return SinkOptions(
        path=path,
        topic=options["topic"],
        transactional_id=options["transactional.id"],
        group_id=options["group.id"],
        allow_state_loss=options["allowStateLoss"],
        processing_guarantee=options["processing.guarantee"],
        num_partitions=options["num.partitions"],
        row_format=options["row.format"],
        auto_create_topics_enable=options["auto.create.topics.enable"],
        checkpoint_location=checkpoint,
        compression=_compression(options, problems),
        partitioner_class=options["partitioner.class"],
        max_request_size=options["max.request.size"],
        include_headers=options["includeHeaders"],
        errors_deadletterqueue_topic_name=options["errors.deadletterqueue.topic.name"],
        merge_schema=options["mergeSchema"],
        auto_maintenance_enable=options["auto.maintenance.enable"],
        topic_config=_topic_config(options),
        txn_app_id=options["txnAppId"],
        txn_version=options["txnVersion"],
        settings=of_log,
        checkpoint_settings=of_checkpoint,
    )


def _settings(options: Mapping[str, str], problems: Problems) -> Settings:
    """The settings of an object store among the options."""
    return Settings(read_store_options(only_store_options(options), problems))


def _check_group(options: OptionReader, begins: OffsetSpec, *, streaming: bool) -> None:
    group = options["group.id"]
    if begins.kind == "committed" and group is None:
        raise ConfigError(
            "option startingOffsets='committed' needs option group.id: the offsets committed by that group; "
            "a sink commits under its own group.id, or else under its transactional.id"
        )
    if group is not None and begins.kind != "committed" and not streaming:
        raise ConfigError(
            f"option group.id={group!r} has no effect: a batch read commits no offsets, and reads those of a group "
            "with startingOffsets=committed alone. Leave it out, or set that"
        )


def _check_triggers(options: OptionReader) -> None:
    least, most = options["minOffsetsPerTrigger"], options["maxOffsetsPerTrigger"]
    if least is not None and not HAS_READ_LIMITS:
        raise ConfigError(
            f"option minOffsetsPerTrigger needs Spark 4.2 or later: Spark {SPARK} does not tell a source whether a run "
            "ends with what is there (AvailableNow), so that one that waits could leave records unread. Leave it out, "
            "or trigger less often: trigger(processingTime='1 minute')"
        )
    if least is not None and most is not None and least > most:
        raise ConfigError(
            f"option minOffsetsPerTrigger={least} is higher than maxOffsetsPerTrigger={most}: give a lower one"
        )
    if "maxTriggerDelay" in options and "minOffsetsPerTrigger" not in options:
        raise ConfigError(
            "option maxTriggerDelay has no effect without minOffsetsPerTrigger: it is how long a micro-batch waits "
            "for so many offsets. Set that, or leave it out"
        )


def _topic_config(options: OptionReader) -> tuple[tuple[str, str], ...]:
    """The settings of a topic among the options of a sink, as text."""
    return tuple((name, options.text(name)) for name in TOPIC_OPTIONS if name in options)


def _check_version(options: OptionReader) -> None:
    """Delta's pair: one without the other has no effect there, and is refused here."""
    if ("txnAppId" in options) != ("txnVersion" in options):
        has, lacks = ("txnAppId", "txnVersion") if "txnAppId" in options else ("txnVersion", "txnAppId")
        raise ConfigError(
            f"option {has} has no effect without {lacks}: a write is known as a repetition by the name of the job "
            "(txnAppId) and the number of the write (txnVersion). Give both, or none"
        )


def _compression(options: OptionReader, problems: Problems) -> Compression | None:
    """Of several options one value. A level for a codec that is not chosen would have no effect."""
    codec = options["compression.type"]
    for name in LEVELS:
        option = level_option(name)
        if option in options and option != level_option(codec) and "compression.type" not in problems.texts:
            problems.add(
                option,
                f"option {option} has no effect without compression.type={name}: set that, or leave the level out",
            )
    return Compression.chosen(codec, options.values)


def _selection(options: OptionReader, problems: Problems) -> SourceOptions:
    """What decides on the rows' columns and is the same in streams and batches."""
    names = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if not names and "path" not in options:
        text = _NO_OPTIONS.format("SELECT ... FROM t WITH (path = '...', subscribe = '...')")
        problems.add("path", text)
    elif len(names) != 1:
        problem = f"options {' and '.join(names)} are given" if names else "a source has to say what it reads"
        problems.add("subscribe", f"{problem}; give exactly one of subscribe, subscribePattern and assign")
    selection = SourceOptions(
        path=_path(options, problems),
        include_headers=options["includeHeaders"],
        include_metadata=options["includeMetadata"],
        row_format=options["row.format"],
        mode=options["mode"],
        where=options["where"],
        schema_registry_url=options["schema.registry.url"],
        schema_registry_basic_auth_user_info=options["schema.registry.basic.auth.user.info"],
        fail_on_data_loss=options["failOnDataLoss"],
    )
    with problems.about("columns"):
        selection = replace(selection, columns=columns(options))
    with problems.about("subscribe"):
        selection = replace(selection, subscribe=subscribe(options["subscribe"]))
    with problems.about("subscribePattern"):
        selection = replace(selection, subscribe_pattern=pattern(options["subscribePattern"]))
    with problems.about("assign"):
        return replace(selection, assign=assign(options["assign"]))
    return selection


def _path(options: OptionReader, problems: Problems) -> str:
    path: str | None = options["path"]
    if path is None:
        problems.add("path", _NO_OPTIONS.format("INSERT INTO t WITH (path = '...', topic = '...') ..."))
    return path or ""


def _check_selected(option: str, bound: OffsetSpec, selection: SourceOptions) -> None:
    """What an option says of partitions that are not read would be ignored."""
    if (selection.assign, selection.subscribe, selection.subscribe_pattern) == (None, None, None):
        return  # That is a problem already.
    left_out, how = [], "subscribePattern"
    for at in (*bound.offsets, *bound.timestamps_ms):
        if selection.assign is not None:
            selected, how = at.partition in selection.assign.get(at.topic, ()), "assign"
        elif selection.subscribe is not None:
            selected, how = at.topic in selection.subscribe, "subscribe"
        else:
            selected = re.fullmatch(selection.subscribe_pattern or "", at.topic) is not None
        if not selected:
            left_out.append(f"partition {at.partition} of topic {at.topic!r}")
    if left_out:
        raise ConfigError(
            f"option {option} names {', '.join(left_out)}, which option {how} does not select; leave it out, or "
            "select it"
        )
