"""From what a user asks for (``startingOffsets``, ``endingOffsets``, timestamps) to offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spark_eos.errors import (
    ConfigError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from spark_eos.extending import needed
from spark_eos.log.data.planner import end_offset, partition_of
from spark_eos.log.log import Log
from spark_eos.log.topics import config_value
from spark_eos.protocol.actions.offsets import is_pending
from spark_eos.protocol.state import Partition
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.options import SourceOptions
from spark_eos.spark.source.offsets import EARLIEST, LATEST, OffsetSpec


def starting_positions(
    options: SourceOptions, log: Log, partitions: Sequence[TopicPartition], *, default: int = LATEST
) -> dict[TopicPartition, int]:
    """Where reading begins, for each partition.

    ``default`` is for partitions that a user's JSON does not name. Without a committed offset ``committed``
    begins at the earliest, so that a job can be written once and started any number of times.
    """
    spec = options.starting
    if spec.kind == "table":
        spec, default = _of_table(options, log, partitions), EARLIEST
    _check_exist(spec, partitions)
    return {at: _start(options, spec, log, at, default) for at in partitions}


def ending_positions(
    options: SourceOptions, log: Log, starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where a batch read ends (exclusive), for each partition; never before its start."""
    spec = options.ending
    _check_exist(spec, tuple(starts))
    ends = {}
    for at, start in starts.items():
        end = _end(options, spec, log, at)
        if end < start:
            raise ConfigError(f"{at} would be read from offset {start} to {end}: it ends before it starts")
        ends[at] = end
    return ends


def wanted_ranges(
    options: SourceOptions, log: Log, partitions: Sequence[TopicPartition]
) -> list[tuple[TopicPartition, int, int]]:
    """What a batch read reads: partition, first offset and end (exclusive), in order; a partition may have several."""
    if options.offset_ranges is None:
        starts = starting_positions(options, log, partitions, default=EARLIEST)
        ends = ending_positions(options, log, starts)
        return [(at, start, ends[at]) for at, start in sorted(starts.items())]
    for name, topic_id in options.ranged_ids.items():
        topic = log.state.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            raise UnknownTopicOrPartitionError(
                f"topic {name!r} was deleted{' and created again' if topic else ''} since this read was planned: its "
                "records are gone. Make the DataFrame again, by read_table or with other offsetRanges"
            )
        if options.version_as_of is None and "compact" in config_value(topic, "cleanup.policy", tuple):
            raise ConfigError(
                f"topic {name!r} is compacted by now: records of these offsetRanges may be gone. Make the DataFrame "
                "again by read_table, or give versionAsOf"
            )
    _check_named(options.offset_ranges, partitions)
    all_ranges = []
    for at, ranges in options.offset_ranges.items():
        partition, last = _bounds(options, log, at)
        for pair in ranges:
            first, end = (_resolve(options, at, offset, partition, last) for offset in pair)
            all_ranges.append((at, first, end))
    return all_ranges


def _of_table(options: SourceOptions, log: Log, partitions: Sequence[TopicPartition]) -> OffsetSpec:
    """The ends of a version of a table. Partitions that are newer than it are read from their beginning."""
    stamped_version = needed("table_versions", "eoslog", "option startingTable")
    table = options.starting.table
    assert table is not None, "a start of this kind has a table"
    native, stamp = stamped_version(table, options.starting.table_version, options.settings)
    version = f"version {native} of table {table}"
    if stamp.log_id != log.log_id:
        raise ConfigError(
            f"option startingTable: {version} was published by log {stamp.log_id}, but {log.url} is log {log.log_id}: "
            "its offsets mean other records there. Give the path of the log that published it"
        )
    topic = log.state.topics.get(stamp.topic)
    if topic is None or topic.topic_id != stamp.topic_id:
        raise UnknownTopicOrPartitionError(
            f"option startingTable: {version} is of topic {stamp.topic!r}, which was deleted"
            f"{' and created again' if topic else ''} since: its offsets mean nothing any more. Publish the topic again"
        )
    other_topics = sorted({at.topic for at in partitions} - {stamp.topic})
    if other_topics:
        raise ConfigError(
            f"option startingTable: {version} is of topic {stamp.topic!r}, but the source reads "
            f"{', '.join(other_topics)}, too: where that begins is not said. Read each topic with a source of its own, "
            "and its own table"
        )
    ends = {TopicPartition(stamp.topic, number): end for number, (_, end) in stamp.offsets.items()}
    return OffsetSpec("specific", offsets={at: ends[at] for at in partitions if at in ends})


def _check_exist(spec: OffsetSpec, partitions: Sequence[TopicPartition]) -> None:
    """Partitions that the option names must exist. `parse_source` has checked that their topics are selected."""
    _check_named((*spec.offsets, *spec.timestamps_ms), partitions)


def _check_named(option_partitions: Iterable[TopicPartition], partitions: Sequence[TopicPartition]) -> None:
    for at in option_partitions:
        if at not in partitions:
            raise UnknownTopicOrPartitionError(
                f"an offset is given for {at}, which does not exist; this source reads "
                f"{', '.join(map(str, partitions)) or 'nothing'}"
            )


def _start(options: SourceOptions, spec: OffsetSpec, log: Log, at: TopicPartition, default: int) -> int:
    partition, end = _bounds(options, log, at)
    if spec.kind == "earliest":
        return partition.start
    if spec.kind == "latest":
        return end
    if spec.kind == "committed":
        return _committed(options, log, at, partition)
    if spec.kind == "specific":
        return _resolve(options, at, spec.offsets.get(at, default), partition, end)
    timestamp_ms = spec.timestamps_ms.get(at, spec.timestamp_ms)
    if timestamp_ms is None:
        return end if default == LATEST else partition.start
    first_record = log.offset_for_time(at, timestamp_ms, options.isolation_level)
    if first_record is not None:
        return first_record[0]
    if spec.strategy == "latest":
        return end
    raise OffsetOutOfRangeError(
        f"{at} has no record at or after timestamp {timestamp_ms} ms; set startingOffsetsByTimestampStrategy=latest "
        "to begin at its end"
    )


def _end(options: SourceOptions, spec: OffsetSpec, log: Log, at: TopicPartition) -> int:
    partition, end = _bounds(options, log, at)
    if spec.kind == "specific":
        return _resolve(options, at, spec.offsets.get(at, LATEST), partition, end)
    if spec.kind == "timestamp":
        timestamp_ms = spec.timestamps_ms.get(at, spec.timestamp_ms)
        if timestamp_ms is not None:
            first_record = log.offset_for_time(at, timestamp_ms, options.isolation_level)
            return end if first_record is None else first_record[0]
    return end


def _bounds(options: SourceOptions, log: Log, at: TopicPartition) -> tuple[Partition, int]:
    partition = partition_of(log.state, at)
    return partition, end_offset(partition, options.isolation_level)


def _resolve(options: SourceOptions, at: TopicPartition, offset: int, partition: Partition, end: int) -> int:
    if offset == EARLIEST:
        return partition.start
    if offset == LATEST:
        return end
    if partition.start <= offset <= end:
        return offset
    if options.fail_on_data_loss:
        raise OffsetOutOfRangeError(
            f"offset {offset} of {at} is out of range: it has {partition.start} to {end}. Give one inside, or set "
            "failOnDataLoss=false to take the nearest"
        )
    return min(max(offset, partition.start), end)


def _committed(options: SourceOptions, log: Log, at: TopicPartition, partition: Partition) -> int:
    group = options.group_id
    assert group is not None, "parse_source requires it with startingOffsets=committed"
    state = log.state
    if is_pending(state, group, at.topic, at.partition):
        raise UnstableOffsetCommitError(
            f"the offset of group {group!r} for {at} is part of an open transaction: try again when it has ended"
        )
    committed = state.offset_of(group, at.topic, at.partition)
    if committed is None or committed.topic_id != state.topics[at.topic].topic_id:
        return partition.start
    end = end_offset(partition, options.isolation_level)
    if partition.start <= committed.offset <= end or not options.fail_on_data_loss:
        return min(max(committed.offset, partition.start), end)
    raise OffsetOutOfRangeError(
        f"group {group!r} has committed offset {committed.offset} for {at}, which has {partition.start} to {end} now: "
        "records that the group has not read are gone. Set failOnDataLoss=false to go on without them"
    )
