"""What a request can ask of the log: one immutable value per action. See docs/design/0001-protocol.md.

Every action carries what it assumes (ids, epochs, numbers, start offsets), so that a rule can refuse it
without knowing who sent it. Fields are only ever added, with defaults: older entries keep their meaning.
"""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.protocol.index import IndexRow
from spark_eos.protocol.types import RULES, ProducerStamp, StagedFile

__all__ = [
    "TO_THE_END",
    "Action",
    "AdvanceLogStart",
    "AlterLog",
    "AlterTopic",
    "AppendBatches",
    "CommitMicroBatch",
    "CommitOffsets",
    "CreateLog",
    "CreateTopic",
    "DeleteOffsets",
    "DeleteTopic",
    "EndTransaction",
    "Entry",
    "ExpireOffsets",
    "ExpireProducers",
    "ExpireTransaction",
    "ExpireTransactionalIds",
    "InitProducer",
    "JoinGroup",
    "LeaveGroup",
    "Membership",
    "PartitionOffset",
    "RaiseStagingFloor",
    "ReplaceSegments",
    "Request",
    "SourceProgress",
    "SyncGroup",
]


class PartitionOffset(NamedTuple):
    """An offset of one partition of one incarnation of a topic."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    metadata: str = ""


class CreateLog(NamedTuple):
    """The first action of entry 0, and of no other: the log has an identity from now on.

    Behind every entry whose number is a multiple of ``snapshot_interval`` indexes are sealed, and a snapshot
    may be taken. Entries lie in folders of ``entries_per_folder`` each; 0: all in one, as in the first logs.
    """

    log_id: str
    snapshot_interval: int = 200
    entries_per_folder: int = 0


class CreateTopic(NamedTuple):
    """A new topic. ``schema`` is an Arrow schema (IPC bytes), or None for a Kafka-shaped topic."""

    name: str
    topic_id: str
    partitions: int
    config: tuple[tuple[str, str], ...] = ()
    schema: bytes | None = None


class AlterTopic(NamedTuple):
    """More partitions, other settings, or a further schema version; None leaves a thing as it is."""

    name: str
    topic_id: str
    partitions: int | None = None
    config: tuple[tuple[str, str], ...] | None = None
    schema: bytes | None = None


class DeleteTopic(NamedTuple):
    """The topic and its offsets are gone; a new one of the same name is another topic."""

    name: str
    topic_id: str


class InitProducer(NamedTuple):
    """A producer, or a new run of one, takes its id at this epoch and fences every older epoch (KIP-98).

    ``run_id`` registers a Spark query run; a run that was registered once and is no longer the current one
    can never come back.
    """

    producer_id: int
    epoch: int
    transactional_id: str | None
    timeout_ms: int
    run_id: str | None = None


class AppendBatches(NamedTuple):
    """Rows of staged files get the next offsets of their partitions, in the order in which they are listed.

    ``topics`` gives the incarnation (topic id) that each file was written for.
    """

    producer: ProducerStamp
    topics: tuple[tuple[str, str], ...]
    files: tuple[StagedFile, ...]


class Membership(NamedTuple):
    """In whose name a group's offsets are committed (KIP-447): a member, and the generation it has synced to."""

    member_id: str
    generation: int
    instance_id: str | None = None


class CommitOffsets(NamedTuple):
    """A consumer group's positions; with a producer they wait for the end of its transaction.

    ``member`` is None where the group has no members: a consumer with assigned partitions.
    """

    group: str
    offsets: tuple[PartitionOffset, ...]
    producer: ProducerStamp | None = None
    member: Membership | None = None


class DeleteOffsets(NamedTuple):
    """A group forgets what it committed for these partitions (topic, number); all of them if none are named."""

    group: str
    partitions: tuple[tuple[str, int], ...] = ()


class JoinGroup(NamedTuple):
    """A consumer takes part in a group, or says anew what it subscribes to.

    ``assignors`` are the names of the assignments it knows, the one it likes best first. ``instance_id``
    makes it a static member, which takes the place of its predecessor (KIP-345).
    """

    group: str
    member_id: str
    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    session_timeout_ms: int
    instance_id: str | None = None
    client_id: str = ""


class SyncGroup(NamedTuple):
    """A member has let go of what the assignment of this generation takes from it."""

    group: str
    member_id: str
    generation: int


class LeaveGroup(NamedTuple):
    """Members go: by their own call, by an administrator's, or because their heartbeats stopped.

    ``silent_ms`` is for how long the member that removes them has seen no heartbeat of theirs, by its own monotonic
    clock; -1 where no wait was needed.
    """

    group: str
    members: tuple[str, ...]
    silent_ms: int = -1


class SourceProgress(NamedTuple):
    """From where to where one source of a Spark micro-batch was read.

    ``start`` and ``end`` are canonical JSON text; a ``start`` of None is unknown (the first
    batch of a source that is not ours). For sources that read this very log, ``group`` is the consumer
    group and the offsets are given by partition as well. ``name`` is what Spark's offset log calls the source from
    its version 2 on (the user's name, or a number); None: the source is known by its place in the plan.
    """

    start: str | None
    end: str | None
    group: str | None = None
    start_offsets: tuple[PartitionOffset, ...] = ()
    end_offsets: tuple[PartitionOffset, ...] = ()
    name: str | None = None


class CommitMicroBatch(NamedTuple):
    """Source offsets of a Spark micro-batch: accepted once, by the current run, where the last one ended.

    ``rules`` are those it is judged by, so that an older entry keeps the outcome it had. 1: only the last micro-batch
    under the same transactional id counts. 2: also what the same query committed under any other id, sources are known
    by their names, and state is not lost. ``stateful`` says whether the query keeps state in its checkpoint;
    ``state_loss`` that the user accepts to go on for a stateful query without its state.
    """

    transactional_id: str
    query_id: str
    run_id: str
    batch_id: int
    sources: tuple[SourceProgress, ...]
    rules: int = 1
    stateful: bool = False
    state_loss: bool = False


class EndTransaction(NamedTuple):
    """COMMIT or ABORT of exactly the transaction that ``producer`` names.

    Each of the partitions it touched gets a control batch.
    """

    producer: ProducerStamp
    commit: bool


class ExpireTransaction(NamedTuple):
    """The open transaction that ``producer`` names is aborted, after its producer was fenced (KAFKA-6119).

    ``waited_ms`` is for how long the one who says so has seen it open, by its own monotonic clock.
    """

    producer: ProducerStamp
    waited_ms: int


class ExpireProducers(NamedTuple):
    """Sequence numbers of producers that wrote nothing for ``producer.id.expiration.ms`` are forgotten."""

    producers: tuple[int, ...]


class ExpireTransactionalIds(NamedTuple):
    """Ids that were not used for ``transactional.id.expiration.ms`` are forgotten."""

    transactional_ids: tuple[str, ...]


class ExpireOffsets(NamedTuple):
    """Offsets (topic, number) of a group without members, older than ``offsets.retention.minutes``, go."""

    group: str
    partitions: tuple[tuple[str, int], ...]


class AlterLog(NamedTuple):
    """Settings of the whole log, replaced as a whole (what Kafka has as settings of its brokers)."""

    config: tuple[tuple[str, str], ...]


class ResetLogTime(NamedTuple):
    """The log's time goes back to ``timestamp_ms``, and every time in the state that lies behind it as well.

    For a log whose time a wrong clock has driven ahead; ``timestamp_ms`` is the time by the store's own clock.
    """

    timestamp_ms: int


TO_THE_END = -1
"""In place of an offset in `AdvanceLogStart`: up to the last stable offset, wherever it is by then."""


class AdvanceLogStart(NamedTuple):
    """Records below these offsets are no longer readable."""

    offsets: tuple[PartitionOffset, ...]


class ReplaceSegments(NamedTuple):
    """Sealed rows of a partition give way to others with the same records at the same offsets, or fewer of them.

    ``replaced`` is the checksum (`spark_eos.protocol.encoding.index_pages.checksum`) of the pieces from
    ``base_offset`` to ``next_offset``: of several requests that replace the same pieces, one wins. ``rows`` cover just
    these offsets. ``staged`` are the names of the files that were written for it; all others that the rows name were
    named by what is replaced.
    """

    topic: str
    topic_id: str
    partition: int
    base_offset: int
    next_offset: int
    replaced: int
    rows: tuple[IndexRow, ...]
    staged: tuple[str, ...] = ()


class RaiseStagingFloor(NamedTuple):
    """Files whose names carry a base seq below ``seq`` can no longer be committed (docs/design/0001)."""

    seq: int


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
    | ReplaceSegments
    | DeleteOffsets
    | JoinGroup
    | SyncGroup
    | LeaveGroup
    | ExpireTransaction
    | ExpireProducers
    | ExpireTransactionalIds
    | ExpireOffsets
    | AlterLog
    | ResetLogTime
)


class Request(NamedTuple):
    """Actions that happen together or not at all.

    ``request_id`` (16 random bytes) lets a writer recognise its own request after a lost reply; ``writer``
    says to people who it was. ``clock_checked``: the writer has compared ``timestamp_ms`` with the store's own clock,
    or with its own monotonic one since it saw the log's time.
    """

    request_id: bytes
    timestamp_ms: int
    actions: tuple[Action, ...]
    writer: str = ""
    clock_checked: bool = False


class Entry(NamedTuple):
    """One slot of the transaction log: requests, applied in order, each accepted or rejected by itself.

    ``previous`` is the lineage (`spark_eos.protocol.state.State.lineage`) of the state that the writer put it behind;
    empty where the writer did not say: an earlier version. ``rules`` are those it is judged by; they are not stored,
    but follow from the schema (`spark_eos.protocol.types.RULES`).
    """

    seq: int
    requests: tuple[Request, ...]
    previous: bytes = b""
    rules: int = RULES
