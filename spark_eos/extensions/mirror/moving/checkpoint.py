"""A Spark job moves from Kafka to the log: where its query goes on, from the checkpoint of Spark's Kafka source."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from spark_eos.errors import CheckpointMismatchError, ConfigError, KafkaTimeoutError, OffsetOutOfRangeError
from spark_eos.extensions.mirror.groups import maps_of
from spark_eos.extensions.mirror.moving.spark_files import SparkFiles
from spark_eos.extensions.mirror.offset_map import current
from spark_eos.log.log import Log

Unfinished: TypeAlias = Literal["refuse", "redo", "skip"]
"""What becomes of a micro-batch that Spark has begun and not noted as done: see `stands_at`."""

Reads: TypeAlias = Callable[[str | None], dict[tuple[str, int], int] | None]
"""Makes offsets by topic and partition of a source's line in a checkpoint; None of a line of another source."""

_EARLIEST = -2
_AGAIN_S = 0.2


class StandingJob(NamedTuple):
    """Where a query stands, after ``batch_id``: the next offset, by topic and partition."""

    batch_id: int
    offsets: dict[tuple[str, int], int]


def stands_at(
    checkpoint: SparkFiles,
    reads: Reads | None = None,
    *,
    source: str | None = None,
    batch: int | None = None,
    unfinished: Unfinished = "refuse",
    without_state: bool = False,
) -> StandingJob:
    """Where the query of a checkpoint goes on. Raises `CheckpointMismatchError` if that is not sure.

    ``reads`` makes offsets of a line of the checkpoint, None of one of another source; the default is `kafka_offsets`.
    ``batch`` is the newest batch, where the checkpoint's files cannot be listed. A batch that was begun and is not done
    may be in the sink or not. ``redo`` goes on before it, ``skip`` after it.
    """
    if checkpoint.stateful() and not without_state:
        raise CheckpointMismatchError(
            f"the query of {checkpoint!r} has state (an aggregation, a join, dropDuplicates), which is in the "
            "checkpoint and does not move: with a new one it begins empty, and results would be wrong. Compute "
            "everything again there (startingOffsets=earliest, another output), or accept that with "
            "--without-state"
        )
    last = checkpoint.last_batch() if batch is None else batch
    if batch is not None and checkpoint.offsets(batch + 1) is not None:
        raise CheckpointMismatchError(
            f"{checkpoint!r} has micro-batch {batch + 1}: --batch {batch} is not the newest"
        )
    if last is None:
        raise CheckpointMismatchError(
            f"{checkpoint!r} has no micro-batch: the query has read nothing. Start it on the other side "
            "with the startingOffsets that it had"
        )
    if not checkpoint.finished(last):
        if unfinished == "refuse":
            raise CheckpointMismatchError(
                f"micro-batch {last} of {checkpoint!r} was begun and is not noted as done: its rows may be in the "
                "sink, or not. Start the job as it was once more, with trigger(availableNow=True): Spark repeats the "
                "batch and ends by itself. If the job cannot run any more, look into its sink, and give --unfinished "
                "redo if the sink has nothing of the batch, or --unfinished skip if it has all of it"
            )
        last -= unfinished == "redo"
    if last < 0:
        raise CheckpointMismatchError(
            f"{checkpoint!r} has no micro-batch that is done: start the query there as it was started here"
        )
    ends = checkpoint.require_offsets(last).offsets
    return StandingJob(
        last, _offsets(ends, reads or kafka_offsets, source, f"{checkpoint!r}, micro-batch {last}")
    )


def _offsets(
    ends: Mapping[str, str | None], reads: Reads, source: str | None, where: str
) -> dict[tuple[str, int], int]:
    by_source = {name: offsets for name, text in ends.items() if (offsets := reads(text)) is not None}
    if source is None and len(by_source) > 1:
        raise ConfigError(
            f"{where} has the sources {', '.join(by_source)}: give one with --source, and call this for each"
        )
    name = next(iter(by_source), None) if source is None else source
    if name is None or name not in by_source:
        raise CheckpointMismatchError(
            f"{where} has no offsets of a source that can move{'' if source is None else f' under the name {source}'}: "
            f"its sources are {', '.join(ends)}. From Kafka to the log moves what reads format('kafka'), and with "
            "--back what reads this log by format('eoslog')"
        )
    return by_source[name]


def kafka_offsets(text: str | None) -> dict[tuple[str, int], int] | None:
    """The offsets in a line of Spark's Kafka source; None if it is a line of another source."""
    if text is None:
        return None
    topics = json.loads(text)
    if not isinstance(topics, dict) or not topics or any(name.startswith("@") for name in topics):
        return None
    offsets = {}
    for name, partitions in topics.items():
        if not isinstance(partitions, dict):
            return None
        for number, offset in partitions.items():
            if not number.isdecimal() or type(offset) is not int or offset < 0:
                return None
            offsets[name, int(number)] = offset
    return offsets


def log_offsets(log: Log) -> Reads:
    """The same for lines of the source ``eoslog`` that read this log."""
    state = log.follow()

    def reads(text: str | None) -> dict[tuple[str, int], int] | None:
        value = json.loads(text or "null")
        meta = value.pop("@eoslog", None) if isinstance(value, dict) else None
        if not isinstance(meta, dict) or "topics" not in meta:
            return None
        if meta.get("log") != log.log_id:
            raise CheckpointMismatchError(
                f"the checkpoint belongs to log {meta.get('log')}, but {log.url} is log {log.log_id}"
            )
        for name, topic_id in meta["topics"].items():
            topic = state.topics.get(name)
            if topic is None or topic.topic_id != topic_id:
                raise CheckpointMismatchError(
                    f"topic {name!r} was deleted, or deleted and created again, since the checkpoint was written"
                )
        return kafka_offsets(json.dumps(value))

    return reads


def starting_offsets(
    log: Log,
    mirror: str,
    job: StandingJob,
    *,
    timeout_s: float,
    accept_loss: bool = False,
) -> dict[str, dict[str, int]]:
    """The same place in the log, as ``startingOffsets`` has it. Waits until the mirror is there.

    Partitions that the query has not seen are read from their beginning.
    """
    deadline = log.clock.monotonic() + timeout_s
    while True:
        state = log.follow()
        maps = maps_of(log, state, mirror)
        starts: dict[str, dict[str, int]] = {}
        waits = None
        for at, offset in sorted(job.offsets.items()):
            if at not in maps:
                if offset == 0:
                    continue
                raise ConfigError(
                    f"the query has read {at[0]}-{at[1]} of Kafka, which mirror {mirror!r} does not mirror: add the "
                    "topic to eoslog mirror in"
                )
            position, offsets = maps[at]
            place = offsets.resume(offset)
            if place is None:
                waits = f"{at[0]}-{at[1]} up to offset {offset}"
                break
            left_out = offsets.others(0, place)
            if left_out is not None and not accept_loss:
                raise OffsetOutOfRangeError(
                    f"the query has read {at[0]}-{at[1]} of Kafka up to offset {offset}, which is {place} in the log, "
                    f"but a producer of the log wrote the record {left_out} before that, which the query would never "
                    "read: producers moved before this job. To leave such records out, give --accept-loss"
                )
            starts.setdefault(position.target, {})[str(at[1])] = place
        if waits is None:
            break
        if log.clock.monotonic() >= deadline:
            raise KafkaTimeoutError(
                f"the query has read {waits}, which is not mirrored yet. Look whether eoslog mirror in runs. Spark "
                "reads uncommitted records unless kafka.isolation.level says otherwise: then it may be ahead of an "
                "open transaction, whose end the mirror waits for"
            )
        log.clock.sleep(_AGAIN_S)
    for position in current(state, mirror):
        if position.target in starts:
            for number in range(state.topics[position.target].partitions):
                starts[position.target].setdefault(str(number), _EARLIEST)
    return {
        name: dict(sorted(numbers.items(), key=lambda at: int(at[0]))) for name, numbers in starts.items()
    }
