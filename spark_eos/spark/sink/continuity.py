"""Whether a checkpoint's offset may be gone on from: with this log, these topics, and these options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spark_eos.errors import CheckpointMismatchError, ConfigError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from spark_eos.log.log import Log
    from spark_eos.protocol.state import State
    from spark_eos.protocol.types import TopicPartition
    from spark_eos.spark.options import SourceOptions
    from spark_eos.spark.source.offsets import SourceOffset


def check_continues(offset: SourceOffset, options: SourceOptions, log: Log, state: State) -> None:
    """Raise unless ``offset`` belongs to this log, to the topics that are there now, and to these options.

    Raises `CheckpointMismatchError`, `ConfigError`, or `UnknownTopicOrPartitionError` for a topic that was deleted.
    """
    if offset.log_id != log.log_id:
        raise CheckpointMismatchError(
            f"the checkpoint belongs to log {offset.log_id}, but {log.url} is log {log.log_id}: the checkpoint "
            "was pointed at another log, or the log was replaced. Use the right path, or a new checkpoint"
        )
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
