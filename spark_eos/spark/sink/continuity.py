"""Whether a checkpoint's offset may be gone on from: with this log, these topics, and these options."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from spark_eos.errors import (
    CheckpointMismatchError,
    ConfigError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.apply import is_in_history
from spark_eos.protocol.state import EMPTY

if TYPE_CHECKING:
    from spark_eos.log.log import Log
    from spark_eos.protocol.state import State
    from spark_eos.protocol.types import TopicPartition
    from spark_eos.spark.options import SourceOptions
    from spark_eos.spark.source.offsets import HistoryPoint, SourceOffset

_LOG = logging.getLogger(__name__)


def check_continues(offset: SourceOffset, options: SourceOptions, log: Log, state: State) -> None:
    """Raise unless ``offset`` belongs to this log, to the topics that are there now, and to these options.

    Raises `CheckpointMismatchError`, `ConfigError`, `UnknownTopicOrPartitionError` for a topic that was deleted, or
    `OffsetOutOfRangeError` for a log that was put back from a copy, as Kafka's clients find a log that was truncated
    (KIP-320).
    """
    if offset.log_id != log.log_id:
        raise CheckpointMismatchError(
            f"the checkpoint belongs to log {offset.log_id}, but {log.url} is log {log.log_id}: the checkpoint "
            "was pointed at another log, or the log was replaced. Use the right path, or a new checkpoint"
        )
    if offset.read is not None:
        _check_history(offset.read, options, log, state)
    for name, topic_id in offset.topic_ids.items():
        topic = state.topics.get(name)
        if topic is not None and topic.topic_id != topic_id:
            raise CheckpointMismatchError(
                f"topic {name!r} was deleted and created again since this checkpoint was written: its offsets "
                "mean other records now. Start from a new checkpoint to read the new topic"
            )
        if topic is None and options.fail_on_data_loss:
            raise UnknownTopicOrPartitionError(
                f"topic {name!r} of the checkpoint is no longer in the log {log.url}: records may be lost. Set "
                "failOnDataLoss=false to go on without it"
            )
    for at in offset.positions:
        if at.topic in state.topics and not _selects(options, at):
            raise _deselected(options, at, offset)
    if options.starting_option is not None and options.starting.text != offset.begins:
        raise ConfigError(
            f"option {options.starting_option} says {options.starting.text}, but the query of this checkpoint began "
            f"with {offset.begins}, and goes on where it stands: the option would have no effect. Leave it out, or "
            "start from a new checkpoint to read from elsewhere"
        )


def _check_history(read: HistoryPoint, options: SourceOptions, log: Log, state: State) -> None:
    """Whether the entry is in the log's history. Of one that is more than 1,024 entries old that is not known."""
    newest = state if state.seq >= read.entry else log.follow()
    lineage = bytes.fromhex(read.lineage)
    if newest.seq >= read.entry and is_in_history(newest, replace(EMPTY, seq=read.entry, lineage=lineage)):
        return
    what = (
        f"the checkpoint is ahead of the log: its query has read all up to entry {read.entry}, which is not in the "
        f"history of {log.url} any more. The log was put back from a copy of an earlier time"
    )
    if options.fail_on_data_loss:
        raise OffsetOutOfRangeError(
            f"{what}. Records that were written since may have offsets that the query has read before, and would be "
            "passed over. Start from a new checkpoint: with startingOffsets=committed, if the output is in this log, "
            "else with those up to which the output has its records. Or set failOnDataLoss=false to go on at the "
            "offsets of this checkpoint"
        )
    _LOG.warning("%s: this query goes on at the offsets of its checkpoint (failOnDataLoss=false)", what)


def _selects(options: SourceOptions, at: TopicPartition) -> bool:
    if options.assign is not None:
        return at.partition in options.assign.get(at.topic, ())
    if options.subscribe is not None:
        return at.topic in options.subscribe
    return re.fullmatch(options.subscribe_pattern or "", at.topic) is not None


def _deselected(options: SourceOptions, at: TopicPartition, offset: SourceOffset) -> CheckpointMismatchError:
    option = "assign" if options.assign is not None else "subscribe"
    option = "subscribePattern" if options.subscribe_pattern is not None else option
    topics = ", ".join(sorted({partition.topic for partition in offset.positions}))
    return CheckpointMismatchError(
        f"by the checkpoint this source reads {at} (its topics are {topics}), which option {option} leaves out now: "
        "the option was changed, or the sources of the query are in another order than before. Give them as they were. "
        "To go on without it, start from a new checkpoint with startingOffsets=committed, the same group.id, and "
        "another transactional.id for the sink"
    )
