"""Records that retention should have deleted long ago: no maintenance runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from spark_eos.errors import ConfigError
from spark_eos.log.topics import config_value
from spark_eos.maintenance.retention import SLACK_MS
from spark_eos.monitoring.troubles.trouble import LOG, Trouble, age, in_one_line
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import Partition, State, Topic


def of_retention(state: State, now_ms: int) -> Iterator[Trouble]:
    """Topics whose oldest records have been past ``retention.ms`` for too long."""
    limit_ms = setting(state, "health.retention.delay.max.ms")
    late = {name: _late_ms(state, topic, now_ms) for name, topic in sorted(state.topics.items())}
    names = sorted((name for name in late if late[name] > limit_ms), key=lambda name: -late[name])
    if names:
        yield Trouble(
            "note",  # Records may have been written today with times of long ago: they go at the next run.
            "retention behind",
            f"records are past retention.ms for up to {age(late[names[0]])}, and were not deleted, of "
            f"{in_one_line(f'topic {name!r}' for name in names)}: no maintenance runs, or they came with times of long "
            "ago",
            "guide/maintenance.md",
            (("maintain", LOG, "--only", "retention", "--dry-run"),),
            (("maintain", LOG),),
            "let eoslog maintain run from cron, or with --watch; raise retention.ms, if they are to stay",
        )


def _late_ms(state: State, topic: Topic, now_ms: int) -> int:
    """For how long its oldest records are past their time; 0 if `eoslog maintain` would not delete them now."""
    try:
        retention_ms = config_value(topic, "retention.ms", int)
        if retention_ms < 0 or "delete" not in config_value(topic, "cleanup.policy", tuple):
            return 0
    except ConfigError:  # Maintenance names a stored setting that is none.
        return 0
    partitions = (state.partitions[topic.topic_id, number] for number in range(topic.partitions))
    times = (time_ms for partition in partitions if (time_ms := _oldest_ms(partition)) is not None)
    oldest_ms = min(times, default=now_ms)
    # Of a quiet log it deletes nothing by the clock alone.
    if min(now_ms, state.timestamp_ms + SLACK_MS) - oldest_ms <= retention_ms:
        return 0
    return now_ms - oldest_ms - retention_ms


def _oldest_ms(partition: Partition) -> int | None:
    """The time of the newest record of the first stretch that retention deletes as a whole."""
    for page in partition.index.pages:
        if page.next_offset > partition.start:
            return page.max_timestamp_ms
    row = next(iter(partition.index.tail.since(partition.start).rows(0)), None)
    if row is None or row.next_offset > partition.last_stable_offset:
        return None
    return row.max_timestamp_ms
