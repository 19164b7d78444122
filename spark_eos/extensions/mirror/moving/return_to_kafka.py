"""Clients move from the log back to Kafka, while a mirror to Kafka runs: where they go on there, and what is left."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from spark_eos.errors import (
    ConfigError,
    GroupNotEmptyError,
    IllegalStateError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
)
from spark_eos.errors.counting import counted
from spark_eos.extensions.mirror.moving.checks import SEALED_BYTES
from spark_eos.extensions.mirror.notes import note_of
from spark_eos.extensions.mirror.offset_map import OffsetMap, current
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
from spark_eos.extensions.mirror.out.out_map import OutMap, read_positions
from spark_eos.extensions.mirror.out.translation import Brought, whole_offset
from spark_eos.log.log import Log
from spark_eos.log.topics import config_value
from spark_eos.protocol.state import State

_AGAIN_S = 0.3


class WayBack:
    """Where readers of the log go on in Kafka, as of the moment at which this is made."""

    def __init__(self, log: Log, target: KafkaTarget, mirror: str) -> None:
        self._log = log
        self._target = target
        self._mirror = mirror
        self.state: State = log.follow()
        self.sent = {sent.topic: sent for sent in read_positions(target, log, mirror).values()}
        note = note_of(self.state, mirror)
        self._reverses = None if note is None else note.reverses
        brought = () if self._reverses is None else current(self.state, self._reverses)
        self._brought = {(position.target_id, position.partition): position for position in brought}

    def has_sent(self, topic: str, number: int, offset: int) -> bool:
        """Whether all of the log before the offset is in Kafka."""
        following = self.sent[topic].next
        return number < len(following) and offset <= following[number]

    def place(self, topic: str, number: int, offset: int, *, accept_loss: bool = False) -> int:
        """Kafka's offset for a reader that has read the log before ``offset``.

        Raises `OffsetOutOfRangeError` if there is none, or if the reader would leave out records of Kafka's producers.
        """
        sent = self.sent[topic]
        offsets = OutMap(
            self._target, self._mirror, sent.kafka, number, (sent.ends[number], sent.next[number])
        )
        in_kafka = offsets.to_kafka(offset)
        assert in_kafka is not None, "has_sent was asked before"
        brought, last = self._brought_at(sent.topic_id, number, offset), -1
        if brought is not None:
            last = offsets.last_before(offset)
        place = whole_offset(offset, (in_kafka.offset, last), brought)
        if place is None:
            assert brought is not None, "without it every offset has a place"
            raise OffsetOutOfRangeError(
                f"at offset {offset} of {topic}-{number} it has read records that lie in Kafka after others that it "
                f"has not read: it can move once it has read the log up to offset {brought.end}. Nothing was committed"
            )
        if accept_loss:
            return place
        left_out = self._first_foreign(
            sent.kafka, number, offsets, 0 if brought is None else brought.kafka_end, place
        )
        if left_out is not None:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {topic}-{number} is {place} in Kafka, but a producer in Kafka wrote the record "
                f"{left_out} before that, which would never be read: producers moved back before this reader. Nothing "
                "was committed. To leave such records out, give --accept-loss"
            )
        return place

    def _brought_at(self, topic_id: str, number: int, offset: int) -> Brought | None:
        position = self._brought.get((topic_id, number))
        if position is None:
            return None
        end = max(position.log_end, 0)
        offsets = OffsetMap(self._log, self.state, self._reverses or "", position)
        place = offsets.to_kafka(min(offset, end))
        assert place is not None, "it does not lie after the end"
        return Brought(end, position.offset, place.offset)

    def _first_foreign(self, kafka: str, number: int, offsets: OutMap, first: int, end: int) -> int | None:
        """The first record of Kafka from ``first`` to ``end - 1`` that the mirror has not sent."""
        while first < end:
            sent = offsets.sent(first, end)
            after = sent[-1][1] if sent else end
            ranges = iter(sent)
            low, high = next(ranges, (end, end))
            with closing(self._target.records(kafka, number, first, min(after, end))) as records:
                for offset, _ in records:
                    while offset >= high:
                        low, high = next(ranges, (end, end))
                    if offset < low:
                        return offset
            first = after
        return None


def _of_group(back: WayBack, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    """What a group has committed in the log, of topics that the mirror sends."""
    return {
        at: (committed.offset, committed.metadata)
        for at, committed in sorted(back.state.offsets.get(group, {}).items())
        if at[0] in back.sent and committed.topic_id == back.sent[at[0]].topic_id
    }


def move_group_back(
    log: Log, target: KafkaTarget, mirror: str, group: str, *, timeout_s: float, accept_loss: bool = False
) -> list[tuple[str, int, int, str, int]]:
    """Commit in Kafka where the group stands in the log: log's topic, partition and offset, Kafka's topic and offset.

    Waits until the mirror is there. Raises `GroupNotEmptyError` if the group has members on either side, and
    `OffsetOutOfRangeError` if there is no such place in Kafka.
    """

    def late(back: WayBack) -> str | None:
        _check_is_empty(back.state, target, group)
        for at, (offset, _) in _of_group(back, group).items():
            if not back.has_sent(*at, offset):
                return f"{at[0]}-{at[1]} up to offset {offset}"
        return None

    _check_is_empty(log.follow(), target, group)
    back = _waited(log, target, mirror, late, timeout_s, f"group {group!r} has read")
    committed = _of_group(back, group)
    if not committed:
        raise ConfigError(
            f"group {group!r} has committed no offset in the log for a topic of mirror out {mirror!r}: look at the "
            "name (eoslog groups list)"
        )
    kafka_offsets = {at: offset for at, (offset, _) in target.offsets_of(group).items()}
    rows, moves = [], []
    for (topic, number), (offset, metadata) in committed.items():
        kafka = back.sent[topic].kafka
        place = back.place(topic, number, offset, accept_loss=accept_loss)
        if kafka_offsets.get((kafka, number), -1) < place:
            moves.append((kafka, number, place, metadata))
        rows.append((topic, number, offset, kafka, max(place, kafka_offsets.get((kafka, number), -1))))
    if moves:
        target.move_group(group, moves)
    after = WayBack(log, target, mirror)
    _check_is_empty(after.state, target, group)
    if _of_group(after, group) != committed:
        raise IllegalStateError(
            f"group {group!r} has committed offsets in the log while it moved: a consumer reads there. Stop it, and "
            "call this again before a consumer starts in Kafka"
        )
    return rows


def _check_is_empty(state: State, target: KafkaTarget, group: str) -> None:
    group_state = state.groups.get(group)
    if group_state is not None and group_state.members:
        raise GroupNotEmptyError(
            f"group {group!r} has {counted(len(group_state.members), 'member')} in the log: it would read there and in "
            "Kafka. Stop its consumers first, and remove those that were killed (eoslog groups remove-members)"
        )
    if target.has_members(group):
        raise GroupNotEmptyError(
            f"group {group!r} has members in Kafka: a consumer was started there too early. Stop it, and call this "
            "again"
        )


def start_in_kafka(
    log: Log,
    target: KafkaTarget,
    mirror: str,
    positions: Mapping[tuple[str, int], int],
    *,
    timeout_s: float,
    accept_loss: bool = False,
) -> dict[str, dict[str, int]]:
    """Where a query that stands at these offsets of the log goes on in Kafka, as ``startingOffsets`` has it."""

    def late(back: WayBack) -> str | None:
        for (topic, number), offset in sorted(positions.items()):
            if topic not in back.sent:
                raise ConfigError(
                    f"the query has read {topic}-{number} of the log, which mirror out {mirror!r} does not send"
                )
            if not back.has_sent(topic, number, offset):
                return f"{topic}-{number} up to offset {offset}"
        return None

    back = _waited(log, target, mirror, late, timeout_s, "the query has read")
    starts: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(positions.items()):
        of_topic = starts.setdefault(back.sent[topic].kafka, {})
        of_topic[str(number)] = back.place(topic, number, offset, accept_loss=accept_loss)
    return starts


def _waited(
    log: Log,
    target: KafkaTarget,
    mirror: str,
    late: Callable[[WayBack], str | None],
    timeout_s: float,
    who: str,
) -> WayBack:
    """The first moment at which nothing is ``late``."""
    deadline = log.clock.monotonic() + timeout_s
    while True:
        back = WayBack(log, target, mirror)
        unsent = late(back)
        if unsent is None:
            return back
        if log.clock.monotonic() >= deadline:
            raise KafkaTimeoutError(
                f"{who} {unsent}, which is not in Kafka yet. Look whether eoslog mirror out runs"
            )
        log.clock.sleep(_AGAIN_S)


def _ends(state: State, topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int]]:
    """The end and the last stable offset of each partition."""
    return {
        (name, number): (at.end, at.last_stable_offset)
        for name in topics
        if name in state.topics
        for number in range(state.topics[name].partitions)
        for at in (state.partitions[state.topics[name].topic_id, number],)
    }


def _unsent(back: WayBack, ends: Mapping[tuple[str, int], tuple[int, int]]) -> list[str]:
    texts = []
    for (name, number), (end, stable) in sorted(ends.items()):
        if back.has_sent(name, number, end):
            continue
        following = back.sent[name].next
        sent_offset = following[number] if number < len(following) else 0
        if sent_offset >= stable:
            texts.append(f"{name}-{number}: a transaction of the log is open from offset {stable} on")
        else:
            texts.append(f"{name}-{number} is sent up to offset {sent_offset}, and ends at {end} in the log")
    return texts


def records_left(log: Log, target: KafkaTarget, mirror: str) -> list[str]:
    """What of the log is not in Kafka."""
    back = WayBack(log, target, mirror)
    return _unsent(back, _ends(back.state, [*back.sent]))


def unsealed(log: Log, target: KafkaTarget, mirror: str) -> list[str]:
    """The topics of the log that take records."""
    back = WayBack(log, target, mirror)
    return [
        name
        for name in sorted(back.sent)
        if name in back.state.topics
        and config_value(back.state.topics[name], "max.message.bytes", int) > SEALED_BYTES
    ]


def wait_until_sent(
    log: Log, target: KafkaTarget, mirror: str, topics: Sequence[str], timeout_s: float
) -> int:
    """Wait until all that the log has now is in Kafka; the number of partitions. Raises `KafkaTimeoutError`."""
    back = WayBack(log, target, mirror)
    missing_topics = sorted({*topics} - {*back.sent})
    if missing_topics:
        raise ConfigError(f"mirror out {mirror!r} does not send topic {missing_topics[0]!r} of the log")
    ends = _ends(back.state, topics or [*back.sent])
    deadline = log.clock.monotonic() + timeout_s
    while unsent := _unsent(back, ends):
        if log.clock.monotonic() >= deadline:
            lines = "\n".join(f"  - {line}" for line in unsent)
            raise KafkaTimeoutError(
                f"after {timeout_s:g} seconds Kafka has not all that the log has:\n{lines}\nStart no producer in Kafka "
                "yet. Look whether eoslog mirror out runs, end open transactions, and call this again"
            )
        log.clock.sleep(_AGAIN_S)
        back = WayBack(log, target, mirror)
    return len(ends)


def groups_left(log: Log, target: KafkaTarget, mirror: str, ignored: str) -> list[str]:
    """What is wrong with groups of the log: they read there still, or stand in Kafka before where they stood."""
    back = WayBack(log, target, mirror)
    problems = []
    for group in sorted(back.state.offsets):
        committed = _of_group(back, group)
        if not committed or (ignored and re.fullmatch(ignored, group)):
            continue
        members = back.state.groups.get(group)
        if members is not None and members.members:
            problems.append(
                f"group {group} has {counted(len(members.members), 'member')} in the log: it reads there"
            )
            continue
        kafka_offsets = {at: offset for at, (offset, _) in target.offsets_of(group).items()}
        partitions_behind = [
            f"{topic}-{number}"
            for (topic, number), (offset, _) in committed.items()
            if not _has_moved(back, kafka_offsets, topic, number, offset)
        ]
        if partitions_behind:
            problems.append(
                f"group {group} has not moved ({', '.join(partitions_behind)}): eoslog mirror group --back"
            )
    return problems


def _has_moved(
    back: WayBack, kafka_offsets: Mapping[tuple[str, int], int], topic: str, number: int, offset: int
) -> bool:
    at = kafka_offsets.get((back.sent[topic].kafka, number))
    if at is None or not back.has_sent(topic, number, offset):
        return False
    try:
        return back.place(topic, number, offset, accept_loss=True) <= at
    except OffsetOutOfRangeError:
        return False
