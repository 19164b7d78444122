"""The committed offsets of consumer groups, for the admin client: set, reset and deleted.

What an administrator does comes after the offsets that open transactions carry, and stays when they commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from immutables import Map

from spark_eos.clients.admin.base import WRITER, AdminBase, places
from spark_eos.clients.admin.groups import required_group
from spark_eos.clients.consumer.offset_resets import Reset, at_time, chosen_offset, offsets_at
from spark_eos.clients.validation import as_partition, as_partitions
from spark_eos.errors import ConfigError, GroupNotEmptyError
from spark_eos.log.data.planner import partition_of
from spark_eos.protocol.actions import Action, CommitOffsets, DeleteOffsets, PartitionOffset
from spark_eos.protocol.state import State
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition


class GroupOffsetsAdmin(AdminBase):
    """The calls about committed offsets of groups."""

    def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """List the committed offsets of a group.

        Parameters
        ----------
        group
            The id of the group.

        Returns
        -------
        dict of TopicPartition to OffsetAndMetadata
            Empty for an unknown group, as in Kafka.
        """
        offsets = self._log().follow().offsets.get(group)
        return {TopicPartition(*at): offset.public for at, offset in sorted((offsets or Map()).items())}

    def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Commit offsets for a group without members.

        Parameters
        ----------
        group
            The id of the group.
        offsets
            The next offset to read, by partition.

        Raises
        ------
        ConfigError
            The id is empty.
        UnknownMemberIdError
            The group has members.
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        """
        if not group:
            raise ConfigError("alter_group_offsets needs the id of a group")
        log = self._log()
        action = CommitOffsets(group, places(log, offsets))
        log.commit(lambda _state: (action,), writer=WRITER)

    def reset_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition | str] | None = None,
        *,
        to_earliest: bool = False,
        to_latest: bool = False,
        to_current: bool = False,
        to_offset: int | None = None,
        shift_by: int | None = None,
        to_datetime: int | datetime | None = None,
        by_duration: str | timedelta | None = None,
        dry_run: bool = False,
    ) -> dict[TopicPartition, int]:
        """Move a group without members to other offsets (KIP-122). Give exactly one of the ways.

        Offsets out of range become the nearest one in range.

        Parameters
        ----------
        group
            The id of the group.
        partitions
            Partitions, or names of topics for all of their partitions. None: all that the group committed.
        to_earliest
            To the first offset.
        to_latest
            To the last stable offset.
        to_current
            To the committed offset, else to the last stable one.
        to_offset
            To this offset.
        shift_by
            This number of offsets forward from the committed one; negative: back.
        to_datetime
            To the first record at or after this time: milliseconds since 1970 (UTC), or a datetime with its time zone.
            Without such a record, to the last stable offset.
        by_duration
            As ``to_datetime``, this long before now: a timedelta or ISO-8601 text, such as ``PT12H``.
        dry_run
            Compute the offsets, and change nothing.

        Returns
        -------
        dict of TopicPartition to int
            The new offsets.

        Raises
        ------
        GroupNotEmptyError
            The group has members.
        GroupIdNotFoundError
            The log knows no such group, and ``partitions`` is None.
        ConfigError
            The id is empty, not exactly one way is given, or its value is malformed.
        InvalidRequestError
            ``shift_by`` is given, and nothing is committed for a partition.
        UnknownTopicOrPartitionError
            The log has no such topic or partition.

        Examples
        --------
        >>> from spark_eos import Admin, Producer
        >>> with Producer("memory://reset") as producer:
        ...     futures = [producer.send("orders", b"x") for _ in range(3)]
        >>> Admin("memory://reset").reset_group_offsets("billing", ["orders"], to_latest=True)
        {TopicPartition(topic='orders', partition=0): 3}
        """
        if not group:
            raise ConfigError("reset_group_offsets needs the id of a group")
        reset = Reset(
            to_earliest, to_latest, to_current, to_offset, shift_by, to_datetime, by_duration
        ).check()
        log = self._log()
        time_ms = at_time(reset, lambda: log.time.record_ms(log.state))
        state = log.follow()
        if not dry_run:
            state = log.end_overdue()  # The latest offset is the last stable one.
        targets = _expanded_partitions(state, group, partitions)
        # The incarnations that are meant: a topic that is deleted and created again meanwhile is refused.
        topic_ids = {at.topic: state.topics[at.topic].topic_id for at in targets}
        time_offsets = {} if time_ms is None else offsets_at(log, targets, time_ms)

        def choose(state: State) -> dict[TopicPartition, int]:
            current = state.groups.get(group)
            if current is not None and current.members:
                raise GroupNotEmptyError(
                    f"group {group!r} cannot be reset while it has members ({len(current.members)}): stop them, or "
                    "remove those whose processes are gone (eoslog groups remove-members)"
                )
            return {at: chosen_offset(reset, state, group, at, time_offsets) for at in targets}

        if dry_run or not targets:
            return choose(state)
        chosen: dict[TopicPartition, int] = {}

        def propose(state: State) -> tuple[Action, ...]:
            chosen.update(choose(state))
            return (
                CommitOffsets(
                    group,
                    tuple(
                        PartitionOffset(at.topic, topic_ids[at.topic], at.partition, offset)
                        for at, offset in chosen.items()
                    ),
                ),
            )

        log.commit(propose, writer=WRITER, alone=True)
        return chosen

    def delete_group(self, group: str) -> None:
        """Forget a group and its committed offsets.

        Parameters
        ----------
        group
            The id of the group.

        Raises
        ------
        GroupIdNotFoundError
            The log knows no such group.
        GroupNotEmptyError
            The group has members.
        """
        self._forget(group, ())

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition | str]
    ) -> list[TopicPartition]:
        """Forget the committed offsets of a group for some partitions.

        Parameters
        ----------
        group
            The id of the group.
        partitions
            Partitions, or names of topics for all of their partitions.

        Returns
        -------
        list of TopicPartition
            The partitions for which the group had committed an offset.

        Raises
        ------
        GroupIdNotFoundError
            The log knows no such group.
        GroupNotEmptyError
            Members of the group subscribe to the topic.
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        """
        targets = _expanded_partitions(self._log().follow(), group, partitions)
        return self._forget(group, tuple((at.topic, at.partition) for at in targets)) if targets else []

    def _forget(self, group: str, partitions: tuple[tuple[str, int], ...]) -> list[TopicPartition]:
        log = self._log()
        # Also one that a deleted topic has left without offsets can go.
        state = log.follow()
        if partitions or group not in state.offsets:
            required_group(state, group)
        gone: list[TopicPartition] = []

        def propose(state: State) -> tuple[Action, ...]:
            committed = state.offsets.get(group, ())
            gone[:] = [at for at in as_partitions(partitions) if at in committed]
            return (DeleteOffsets(group, partitions),) if group in {*state.offsets, *state.groups} else ()

        log.commit(propose, writer=WRITER, alone=True)
        return gone


def _expanded_partitions(
    state: State, group: str, partitions: Iterable[TopicPartition | str] | None
) -> list[TopicPartition]:
    """Partitions, sorted, where topics stand for all of theirs; default: those with committed offsets."""
    if partitions is None:
        required_group(state, group)
        return sorted(TopicPartition(*at) for at in state.offsets.get(group, ()))
    targets: set[TopicPartition] = set()
    # A single one, not its letters.
    for item in [partitions] if isinstance(partitions, (str, TopicPartition)) else partitions:
        if isinstance(item, str):
            partition_of(state, TopicPartition(item, 0))
            targets.update(TopicPartition(item, number) for number in range(state.topics[item].partitions))
        else:
            targets.add(at := as_partition(item))
            partition_of(state, at)
    return sorted(targets)
