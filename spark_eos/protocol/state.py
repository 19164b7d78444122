"""The state of a log: a pure function of its entries, and immutable, so that a reader keeps what it read.

All maps are persistent (``immutables.Map``, and `PackedMap` of what there may be very many): a new state shares all
that did not change with the old one.
Their order of iteration is not defined; code that writes a state down sorts.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from immutables import Map

from spark_eos.protocol.index import Index, IndexPage
from spark_eos.protocol.packed_map import Layout, PackedMap, part_of_name, part_of_number
from spark_eos.protocol.publication import Publication
from spark_eos.protocol.types import (
    RULES,
    Decider,
    Follower,
    OffsetAndMetadata,
    ProducerStamp,
    SourceProgress,
)

PartitionKey = tuple[str, int]
"""A partition by the id of its topic, not by the name: a topic created again shares nothing with the old."""


class TransactionState(Enum):
    """What the last transaction of a producer came to (the names of Kafka's coordinator, KIP-98).

    The prepare states of Kafka's coordinator do not exist: here the decision and its markers are one entry.
    ``PREPARED`` is a transaction that waits for the decision of another system (KIP-939), for which Kafka has no state.
    """

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARED = "Prepared"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


_OPEN = frozenset({TransactionState.ONGOING, TransactionState.PREPARED})


class Topic(NamedTuple):
    """A topic. ``schemas`` are the versions of its Arrow schema (IPC bytes); empty: Kafka-shaped."""

    name: str
    topic_id: str
    partitions: int
    config: Map[str, str]
    schemas: tuple[bytes, ...]


NO_OPEN: Map[int, int] = Map()
"""No open transaction in a partition, for all partitions."""

_NO_ABORTED: Map[tuple[int, int], bool] = Map()


class Partition(NamedTuple):
    """A partition: offsets ``start`` to ``end - 1``. A tuple: an entry may make 100,000 of them.

    ``open`` maps producer ids to the first offset of their open transaction here. ``aborted`` holds
    (producer id, transaction number) of the aborted transactions that have batches here.
    """

    start: int = 0
    end: int = 0
    index: Index = Index()  # type: ignore[assignment]
    open: Map[int, int] = NO_OPEN
    aborted: Map[tuple[int, int], bool] = _NO_ABORTED

    @property
    def last_stable_offset(self) -> int:
        """The LSO, exclusive: the first offset of the oldest open transaction, else the end."""
        return min(self.open.values(), default=self.end)

    def readable_end(self, offset: int) -> int:
        """Up to where a reader gets that goes on at ``offset``: one beyond the LSO reads uncommitted records, too."""
        stable = self.last_stable_offset
        return self.end if offset > stable else stable


class SequenceRange(NamedTuple):
    """One batch that a producer wrote to a partition: its sequence numbers and where they landed."""

    epoch: int
    number: int
    first: int
    last: int
    base_offset: int


class PreparedTransaction(NamedTuple):
    """The newest transaction of a producer that was prepared (KIP-939).

    ``epoch`` is the one at which it was prepared: no other transaction of the producer has it in its token.
    ``committed`` is how it ended (None: it has not). ``decider`` is the transaction of another log that it follows.
    """

    epoch: int
    committed: bool | None = None
    decider: Decider | None = None


class Decision(NamedTuple):
    """The newest transaction of a producer that decides for other logs (docs/design/0014).

    ``history`` is the log's lineage before the entry that named ``followers``. ``committed`` is how it ended (None: it
    has not). ``waiting`` are the ids of the logs whose end of it was not noted yet.
    """

    epoch: int
    number: int
    history: bytes
    followers: tuple[Follower, ...]
    waiting: tuple[str, ...]
    committed: bool | None = None


class Producer(NamedTuple):
    """A producer id: the epoch that may write with it now, and how far it has come.

    ``number`` is the number of its newest transaction, in the state ``transaction``. ``touched`` are the
    partitions of the open one, ``pending`` the offsets that wait for its end, by (group, topic, partition).
    ``sequences`` are the last five batches by partition (Kafka's window), as numbers (`window`). ``runs`` are
    the Spark query runs that were registered, oldest first; the last one is the current one ("": a client that is
    no query run has taken over since). ``started_seq`` is the entry in which the open transaction began, or a later
    one (-1: none is open). ``prepared`` is the newest transaction that was prepared, if there was one, ``decision`` the
    newest one that decides for other logs.
    """

    producer_id: int
    epoch: int
    transactional_id: str | None = None
    timeout_ms: int = 0
    number: int = -1
    transaction: TransactionState = TransactionState.EMPTY
    started_ms: int = -1
    last_ms: int = -1
    touched: Map[PartitionKey, bool] = Map()
    pending: Map[tuple[str, str, int], CommittedOffset] = Map()
    sequences: Map[PartitionKey, tuple[int, ...]] = Map()
    runs: tuple[str, ...] = ()
    started_seq: int = -1
    prepared: PreparedTransaction | None = None
    decision: Decision | None = None

    @property
    def is_open(self) -> bool:
        """Whether its newest transaction has not ended: it is ongoing, or prepared."""
        return self.transaction in _OPEN

    @property
    def has_timeout(self) -> bool:
        """Whether its newest transaction ends by itself, once it is open for too long: it is not prepared."""
        return self.transaction is TransactionState.ONGOING

    @property
    def follows(self) -> Decider | None:
        """The transaction of another log that decides its open one, which is prepared then."""
        return (
            self.prepared.decider if self.prepared and self.transaction is TransactionState.PREPARED else None
        )

    @property
    def is_awaited(self) -> bool:
        """Whether other logs follow its newest decision, and not all of them are known to have done so."""
        return self.decision is not None and bool(self.decision.waiting)

    @property
    def stamp(self) -> ProducerStamp:
        """Producer id, epoch and number of the newest transaction."""
        return ProducerStamp(self.producer_id, self.epoch, self.number)

    def window(self, key: PartitionKey) -> tuple[SequenceRange, ...]:
        """The last five batches that it wrote to a partition with sequence numbers, oldest first."""
        return tuple(map(SequenceRange._make, zip(*[iter(self.sequences.get(key, ()))] * 5, strict=True)))

    @property
    def run_id(self) -> str | None:
        """The current Spark query run; None also if a client without one has taken over."""
        return (self.runs[-1] or None) if self.runs else None


class CommittedOffset(NamedTuple):
    """A committed offset of a group, and the incarnation of the topic it was committed for.

    ``number`` is the place of its commit among all of the log (`State.offset_commits`).
    """

    topic_id: str
    offset: int
    metadata: str
    timestamp_ms: int
    number: int

    @property
    def public(self) -> OffsetAndMetadata:
        """What clients see of it."""
        return OffsetAndMetadata(self.offset, self.metadata)


class Member(NamedTuple):
    """A consumer of a group.

    ``generation`` is the last one it has synced to, and so the one in which it may commit. ``held`` are the
    partitions it may read now, sorted: never another member's, even if the newest assignment says so. ``joined_ms`` is
    the log's time at which it became a member.
    """

    member_id: str
    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    session_timeout_ms: int
    instance_id: str | None = None
    client_id: str = ""
    generation: int = -1
    held: tuple[PartitionKey, ...] = ()
    joined_ms: int = -1


class Group(NamedTuple):
    """The members of a consumer group, and which of them should read which partitions.

    ``generation`` rises with every change of members, subscriptions or partitions. ``assignment`` is that of
    the newest generation, by member id; a member gets of it what no other member holds any more.
    ``empty_since_ms`` is -1 while there are members.
    """

    generation: int = 0
    assignor: str = ""
    members: Map[str, Member] = Map()
    assignment: Map[str, tuple[PartitionKey, ...]] = Map()
    empty_since_ms: int = -1

    @property
    def status(self) -> str:
        """Kafka's names: ``Empty``, ``PreparingRebalance`` while members have yet to sync, ``Stable``."""
        if not self.members:
            return "Empty"
        synced = all(member.generation == self.generation for member in self.members.values())
        return "Stable" if synced else "PreparingRebalance"


class Query(NamedTuple):
    """The last micro-batch that was committed under a transactional id.

    ``former`` are the sources that the query once had, each as it ended.
    """

    query_id: str
    batch_id: int
    sources: tuple[SourceProgress, ...]
    former: tuple[SourceProgress, ...] = ()
    stateful: bool = False


class AppVersion(NamedTuple):
    """The last version that a batch job has committed (`SetAppVersion`), and when."""

    version: int
    timestamp_ms: int


class DataBefore(NamedTuple):
    """Where the data files were before they began to be moved (`MoveData`), as long as something of them is there.

    ``url`` as `State.data_url`, ``begun_ms`` the log's time at which the move began, ``copied_at`` the entry since
    which all files are at the new place (-1: they may be at the old one alone; `DataCopied`).
    """

    url: str
    begun_ms: int
    copied_at: int = -1


class Event(NamedTuple):
    """What an administrator, or an expiry, has done to the log, or one producer to another one.

    ``what`` was done to ``name``, by ``writer``, at ``timestamp_ms`` of the log's time, in ``entry``; ``text`` says
    more. What happens again and again is one event: ``times`` is how often, ``first_ms`` when it began; the rest is of
    the last time (`spark_eos.protocol.rules.trail`).
    """

    entry: int
    timestamp_ms: int
    writer: str
    what: str
    name: str
    text: str
    times: int
    first_ms: int


class State(NamedTuple):
    """Everything the log knows after entry ``seq`` (-1: no log yet).

    ``offsets`` are those that groups committed, ``groups`` the consumers that subscribed in their names.
    ``offset_commits`` is how often offsets were committed: each commit has the next number, also one that waits for the
    end of a transaction.
    ``snapshot_interval`` and ``entries_per_folder`` are as the log was created (`CreateLog`).
    ``rules`` are those by which requests are judged now. ``lineage`` is a digest of all entries: two states with the
    same one have the same history. ``lineages`` are the first bytes of
    the newest ones (`spark_eos.protocol.rules.apply.is_in_history`). ``time_resets`` is how often the log's
    time was set back (`ResetLogTime`). ``app_versions`` are by the job (``txnAppId``) and the id of the topic, or "".
    ``encrypted_at`` is the entry since which data files are encrypted (-1: they are not), ``encryption_key_id`` the key
    of new files then (`MarkEncrypted`).
    ``data_url`` is where data files are (empty: beside the entries), ``data_placed_at`` the entry that says so (-1:
    none; `PlaceData`, `MoveData`). ``data_before`` is the place from which they are being moved.
    ``trail`` is what happened in the last days, for people: nothing is decided by it.
    No new publication gets an epoch or a sequence up to ``publication_floor``: a dropped one may have had it.
    """

    seq: int = -1
    rules: int = RULES
    lineage: bytes = b""
    lineages: bytes = b""
    log_id: str = ""
    timestamp_ms: int = 0
    time_resets: int = 0
    next_producer_id: int = 0
    staging_floor: int = 0
    snapshot_interval: int = 200
    entries_per_folder: int = 0
    config: Map[str, str] = Map()
    topics: Map[str, Topic] = Map()
    partitions: Map[PartitionKey, Partition] = Map()
    producers: PackedMap[int, Producer] = PackedMap(Layout(part_of_number))
    transactional_ids: PackedMap[str, int] = PackedMap(Layout(part_of_name))
    open_transactions: Map[int, bool] = Map()
    offsets: Map[str, Map[tuple[str, int], CommittedOffset]] = Map()
    offset_commits: int = 0
    groups: Map[str, Group] = Map()
    queries: Map[str, Query] = Map()
    app_versions: Map[tuple[str, str], AppVersion] = Map()
    publications: Map[str, Publication] = Map()
    publication_floor: int = 0
    encrypted_at: int = -1
    encryption_key_id: str = ""
    data_url: str = ""
    data_placed_at: int = -1
    data_before: DataBefore | None = None
    trail: tuple[Event, ...] = ()

    def producer_of(self, transactional_id: str) -> Producer | None:
        """The producer that holds ``transactional_id``, if there is one."""
        producer_id = self.transactional_ids.get(transactional_id)
        return None if producer_id is None else self.producers[producer_id]

    def offset_of(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """What ``group`` has committed for a partition, if anything."""
        offsets = self.offsets.get(group)
        return None if offsets is None else offsets.get((topic, partition))

    def sealed_pages(self) -> Iterator[IndexPage]:
        """The index pages of all partitions, then those that only publications pin; not the pages inside of others."""
        page_ids: set[int] = set()
        for key in sorted(self.partitions):  # No order of a hash map may be seen.
            yield from self.partitions[key].index.pages
        for name in sorted(self.publications):
            for version in self.publications[name].versions:
                for key in sorted(version.pins):
                    own = self.partitions[key].index.pages
                    page_ids.update(map(id, own))
                    for page in version.pins[key].pages:
                        if id(page) not in page_ids:
                            page_ids.add(id(page))
                            yield page

    def publications_of(self, topic_id: str) -> list[Publication]:
        """The publications of a topic, by name."""
        publications = [
            publication
            for publication in self.publications.values()
            if any(topic_id == id_ for _, id_ in publication.topics)
        ]
        return sorted(publications, key=lambda publication: publication.name)


EMPTY = State()
