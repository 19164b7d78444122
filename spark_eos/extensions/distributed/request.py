"""The one request that commits a transaction: pure, from its token and receipts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_eos.errors import InvalidRequestError, StagedFileExpiredError
from spark_eos.extensions.distributed.receipt import GroupOffsets, StagedReceipt
from spark_eos.extensions.distributed.token import TransactionToken
from spark_eos.protocol.actions import (
    Action,
    AppendBatches,
    CommitOffsets,
    EndTransaction,
    PartitionOffset,
    SetAppVersion,
)
from spark_eos.protocol.actions.app_versions import is_committed
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.state import State
from spark_eos.protocol.types import StagedFile


def files_of(receipts: Sequence[StagedReceipt]) -> tuple[StagedFile, ...]:
    """All files, in the order of the receipts: rows of a partition get their offsets in this order."""
    return tuple(staged for receipt in receipts for staged in receipt.files)


def has_version(state: State, token: TransactionToken) -> bool:
    """Whether the version of the job is in the log, or a later one; False for a transaction without one."""
    version = _version(token)
    return bool(version) and is_committed(state, version[0])


def actions_of(token: TransactionToken, receipts: Sequence[StagedReceipt]) -> tuple[Action, ...]:
    """The version, the rows, the offsets, and the end: applied as a whole or not at all.

    Raises `InvalidRequestError` if two receipts commit different offsets of a partition.
    """
    stamp, files = token.stamp, files_of(receipts)
    names = {staged.topic for staged in files}
    topics = sorted({pair for receipt in receipts for pair in receipt.topics if pair[0] in names})
    return (
        *_version(token),
        *((AppendBatches(stamp, tuple(topics), files),) if files else ()),
        *(
            CommitOffsets(group_offsets.group, group_offsets.offsets, stamp, group_offsets.member)
            for group_offsets in _merged(offsets for receipt in receipts for offsets in receipt.offsets)
        ),
        EndTransaction(stamp, commit=True),
    )


def check_age(state: State, receipts: Sequence[StagedReceipt]) -> None:
    """Raise `StagedFileExpiredError` with the tasks whose files vacuum may have removed."""
    old = [
        receipt.task
        for receipt in receipts
        if any(staged_at(staged.file.name) < state.staging_floor for staged in receipt.files)
    ]
    if old:
        raise StagedFileExpiredError(
            f"the files of tasks {', '.join(old[:20])} ({len(old)} in all) were staged before entry "
            f"{state.staging_floor}, the staging floor, and may have been removed by vacuum. Nothing was committed. "
            "Run these tasks again with the same token, and commit with their new receipts. If a transaction takes "
            "longer than vacuum's --min-age, raise that"
        )


def _version(token: TransactionToken) -> tuple[SetAppVersion, ...]:
    if token.txn_app_id is None or token.txn_version is None:
        return ()
    return (SetAppVersion(token.txn_app_id, token.txn_version),)


def _merged(offsets: Iterable[GroupOffsets]) -> list[GroupOffsets]:
    """One for each group."""
    by_group: dict[str, tuple[GroupOffsets, dict[tuple[str, str, int], PartitionOffset]]] = {}
    for group_offsets in offsets:
        first, places = by_group.setdefault(group_offsets.group, (group_offsets, {}))
        if first.member != group_offsets.member:
            raise InvalidRequestError(
                f"two receipts commit offsets of group {group_offsets.group!r} as different members: {first.member} "
                f"and {group_offsets.member}. Nothing was committed. Let one task commit the offsets of a group with "
                "members"
            )
        for at in group_offsets.offsets:
            earlier = places.setdefault((at.topic, at.topic_id, at.partition), at)
            if earlier != at:
                raise InvalidRequestError(
                    f"two receipts commit different offsets of group {group_offsets.group!r} for "
                    f"{at.topic}-{at.partition}: {earlier.offset} and {at.offset}. Nothing was committed. Let one task "
                    "read a partition"
                )
    return [first._replace(offsets=tuple(places.values())) for first, places in by_group.values()]
