"""Actions: what a request can ask of the log. See docs/design/0001-protocol.md.

Each noun has a module: the action as an immutable value, its rule, and one call of `declare`, which says how it is
stored and everything else that other parts look up (`spark_eos.protocol.actions.declaration`). CONTRIBUTING.md has the
steps to add one.

Every action carries what it assumes (ids, epochs, numbers, start offsets), so that a rule can reject it without
knowing its sender. Fields are only ever added, with defaults: older entries keep their meaning.
"""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.protocol.actions.app_versions import SetAppVersion
from spark_eos.protocol.actions.appends import AppendBatches
from spark_eos.protocol.actions.data_place import DataCopied, DataMoved, MoveData, PlaceData
from spark_eos.protocol.actions.declaration import DECLARED
from spark_eos.protocol.actions.encryption import MarkEncrypted
from spark_eos.protocol.actions.expiry import (
    ExpireOffsets,
    ExpireProducers,
    ExpireTransaction,
    ExpireTransactionalIds,
)
from spark_eos.protocol.actions.groups import JoinGroup, LeaveGroup, SyncGroup
from spark_eos.protocol.actions.log import AlterLog, CreateLog
from spark_eos.protocol.actions.log_start import TO_THE_END, AdvanceLogStart
from spark_eos.protocol.actions.log_time import ResetLogTime
from spark_eos.protocol.actions.offsets import CommitOffsets, DeleteOffsets
from spark_eos.protocol.actions.producers import EndTransaction, InitProducer
from spark_eos.protocol.actions.publishing.publications import (
    CreatePublication,
    DropPublication,
    FencePublisher,
)
from spark_eos.protocol.actions.publishing.versions import BeginPublish, EndPublish
from spark_eos.protocol.actions.queries.microbatch import CommitMicroBatch
from spark_eos.protocol.actions.segments import ReplaceSegments
from spark_eos.protocol.actions.staging_floor import RaiseStagingFloor
from spark_eos.protocol.actions.topics import AlterTopic, CreateTopic, DeleteTopic
from spark_eos.protocol.actions.two_phase.prepare import PrepareTransaction
from spark_eos.protocol.actions.two_phase.several_logs import AddFollowers, FollowDecision, NoteFollowers
from spark_eos.protocol.types import RULES, Membership, PartitionOffset, PinnedRange, SourceProgress

__all__ = [
    "DECLARED",
    "TO_THE_END",
    "Action",
    "AddFollowers",
    "AdvanceLogStart",
    "AlterLog",
    "AlterTopic",
    "AppendBatches",
    "BeginPublish",
    "CommitMicroBatch",
    "CommitOffsets",
    "CreateLog",
    "CreatePublication",
    "CreateTopic",
    "DataCopied",
    "DataMoved",
    "DeleteOffsets",
    "DeleteTopic",
    "DropPublication",
    "EndPublish",
    "EndTransaction",
    "Entry",
    "ExpireOffsets",
    "ExpireProducers",
    "ExpireTransaction",
    "ExpireTransactionalIds",
    "FencePublisher",
    "FollowDecision",
    "InitProducer",
    "JoinGroup",
    "LeaveGroup",
    "MarkEncrypted",
    "Membership",
    "MoveData",
    "NoteFollowers",
    "PartitionOffset",
    "PinnedRange",
    "PlaceData",
    "PrepareTransaction",
    "RaiseStagingFloor",
    "ReplaceSegments",
    "Request",
    "ResetLogTime",
    "SetAppVersion",
    "SourceProgress",
    "SyncGroup",
]

Action = (
    CreateLog
    | CreateTopic
    | AlterTopic
    | DeleteTopic
    | InitProducer
    | AppendBatches
    | CommitOffsets
    | CommitMicroBatch
    | EndTransaction
    | AdvanceLogStart
    | RaiseStagingFloor
    | DeleteOffsets
    | JoinGroup
    | SyncGroup
    | LeaveGroup
    | ExpireTransaction
    | ExpireProducers
    | ExpireTransactionalIds
    | ExpireOffsets
    | AlterLog
    | ReplaceSegments
    | ResetLogTime
    | SetAppVersion
    | CreatePublication
    | FencePublisher
    | BeginPublish
    | EndPublish
    | DropPublication
    | MarkEncrypted
    | PrepareTransaction
    | AddFollowers
    | FollowDecision
    | NoteFollowers
    | PlaceData
    | MoveData
    | DataCopied
    | DataMoved
)


class Request(NamedTuple):
    """Actions that happen together or not at all.

    ``request_id`` (16 random bytes) lets a writer recognise its own request after a lost reply; ``writer``
    names the writer for people. ``clock_checked``: the writer has compared ``timestamp_ms`` with the store's own clock,
    or with its own monotonic one since it saw the log's time.
    """

    request_id: bytes
    timestamp_ms: int
    actions: tuple[Action, ...]
    writer: str = ""
    clock_checked: bool = False


class Entry(NamedTuple):
    """One slot of the transaction log: requests, applied in order, each accepted or rejected by itself.

    ``previous`` is the lineage (`spark_eos.protocol.state.State.lineage`) of the state that the writer applied
    it to; empty: the log begins here. ``rules`` are those it is judged by. They are not
    stored, but follow from the schema (`spark_eos.protocol.types.RULES`).
    """

    seq: int
    requests: tuple[Request, ...]
    previous: bytes = b""
    rules: int = RULES
