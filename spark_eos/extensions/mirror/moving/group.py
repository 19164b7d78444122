"""A consumer group moves from Kafka to the log."""

from __future__ import annotations

from functools import partial

from spark_eos.errors import (
    ConfigError,
    GroupNotEmptyError,
    IllegalStateError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
)
from spark_eos.errors.counting import counted
from spark_eos.extensions.mirror.groups import Translation, maps_of, moves, passed_over, translations
from spark_eos.extensions.mirror.moving.checks import mirrored
from spark_eos.extensions.mirror.moving.kafka_state import KafkaState
from spark_eos.log.log import Log

_AGAIN_S = 0.2


def move_group(
    log: Log, kafka: KafkaState, mirror: str, group: str, *, timeout_s: float, accept_loss: bool = False
) -> list[Translation]:
    """Commit in the log where the group stands in Kafka. Waits until the mirror is there.

    Raises `GroupNotEmptyError` if the group has members on either side, and `OffsetOutOfRangeError` if it would leave
    out records that producers of the log have written, unless ``accept_loss``.
    """
    kafka.partitions_of(mirrored(log, mirror))
    _check_is_empty(kafka, group)
    committed = kafka.offsets_of(group)
    deadline = log.clock.monotonic() + timeout_s
    while True:
        state = log.follow()
        offsets = translations(state, maps_of(log, state, mirror), group, committed)
        waits = [translation for translation in offsets if translation.place is None]
        if not waits:
            break
        if log.clock.monotonic() >= deadline:
            raise KafkaTimeoutError(
                f"group {group!r} has read {waits[0].name} up to offset {waits[0].offset}, which is not mirrored yet: "
                "nothing was committed. Look whether eoslog mirror in runs; a group that reads uncommitted records may "
                "be ahead of an open transaction, whose end the mirror waits for"
            )
        log.clock.sleep(_AGAIN_S)
    if not offsets:
        raise ConfigError(
            f"group {group!r} has committed no offset in Kafka for a topic of mirror {mirror!r}: look at the name "
            "(kafka-consumer-groups.sh --list); a consumer that has committed nothing begins by auto.offset.reset"
        )
    losses = [translation for translation in offsets if translation.left_out is not None]
    if losses and not accept_loss:
        raise OffsetOutOfRangeError(
            f"group {group!r} cannot move: {passed_over(losses[0])}. Nothing was committed. To leave these records "
            "out, give --accept-loss; to read them, and records of Kafka after them a second time, reset the group "
            f"there (eoslog groups reset-offsets --to-offset {losses[0].left_out})"
        )
    places = [translation.place for translation in offsets if translation.place is not None]
    if any(not translation.has_moved for translation in offsets):
        log.commit(partial(moves, group=group, places=places), writer="mirror groups", alone=True)
        state = log.follow()
        offsets = translations(state, maps_of(log, state, mirror), group, committed)
    if any(
        not translation.has_moved for translation in offsets
    ):  # `moves` leaves a group with members alone.
        raise GroupNotEmptyError(
            f"group {group!r} has members in the log, and stands there before where it stood in Kafka: a consumer was "
            "started on the log too early. Nothing was committed. Stop it, remove it from the group if it was killed "
            "(eoslog groups remove-members), and call this again"
        )
    _check_is_empty(kafka, group)
    if kafka.offsets_of(group) != committed:
        raise IllegalStateError(
            f"group {group!r} has committed offsets in Kafka while it moved: a consumer reads there. Stop it, and call "
            "this again before a consumer starts on the log"
        )
    return offsets


def _check_is_empty(kafka: KafkaState, group: str) -> None:
    if members := kafka.members(group):
        raise GroupNotEmptyError(
            f"group {group!r} has {counted(members, 'member')} in Kafka: it would read there and in the log. Stop its "
            "consumers first; one that was killed is a member until its session.timeout.ms is over"
        )
