"""The nouns of the protocol: values without behaviour, shared by actions, state and rules."""

from __future__ import annotations

from typing import NamedTuple

NO_SEQUENCE = -1
"""Base sequence of a batch that is not deduplicated by sequence (a Spark micro-batch has its batch id)."""

ADMIN, RETENTION = "admin", "retention"
"""Names of writers. The trail has what an administrator does, and not what retention does all the time."""

MAX_METADATA_BYTES = 4096
"""Longest metadata of a committed offset, in UTF-8 bytes (Kafka's offset.metadata.max.bytes)."""

EARLIEST_MS = -62_135_596_800_000
LATEST_MS = 253_402_300_799_999
"""The first millisecond of the year 1, the last one of the year 9999: so far Python's and Spark's calendars go."""

MAX_PARTITIONS = 100_000
"""Of a topic."""

MAX_NUMBER = 2**62
"""The largest number that a request may carry: the sum of two such numbers still has 64 bits."""

RULES = 1
"""The rules by which entries are judged that this version writes.

An entry keeps the outcome it had: one that an earlier release wrote is judged by the rules of its day, unless an entry
before it was written by later ones.
"""


class TopicPartition(NamedTuple):
    """A partition of a topic.

    Attributes
    ----------
    topic
        The name of the topic.
    partition
        The number of the partition, from 0.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndMetadata(NamedTuple):
    """A committed offset of a group.

    Attributes
    ----------
    offset
        The next offset to read.
    metadata
        The committer's own text, up to 4096 bytes in UTF-8.
    """

    offset: int
    metadata: str = ""


class ProducerStamp(NamedTuple):
    """The writer of a batch: producer id, its epoch, and the number of its transaction (-1 outside of one).

    The number is what Kafka lacks: an end of transaction names it, so a delayed one can never decide a
    later transaction of the same epoch (KAFKA-17754).
    """

    producer_id: int
    epoch: int
    number: int = -1


NO_PRODUCER = ProducerStamp(-1, -1, -1)


class Decider(NamedTuple):
    """The transaction of another log that decides a prepared one (docs/design/0014).

    ``history`` is the lineage of that log before the entry that named the followers: a log that was put back, and went
    on with the same numbers, has another one. ``seq`` is an entry that the log had then. ``url`` is where it was.
    """

    log_id: str
    url: str
    producer_id: int
    epoch: int
    number: int
    history: bytes
    seq: int

    def __str__(self) -> str:
        return f"transaction {self.number} of producer {self.producer_id} in log {self.log_id} ({self.url})"


class Follower(NamedTuple):
    """A log that does what a transaction of this log decides. ``transactional_id`` is that of its producer there."""

    log_id: str
    url: str
    transactional_id: str


class FileRef(NamedTuple):
    """One data file: Arrow IPC, or Parquet if maintenance has sealed it.

    ``name`` is the object's name in the store; its last part begins with the base seq, the log position at
    which the writer started. ``schema_version`` is the version of the topic's schema the rows have (0 for
    Kafka-shaped topics). ``omitted`` are the stored columns of that schema which this file leaves out: all
    null, or, for the timestamp, the same in every row and given by the batch's ``max_timestamp_ms``.
    ``offsets``: there may be offsets without a row between those of the rows. An Arrow file's first column says then
    how many before each row (`spark_eos.log.data.layout.SKIPPED`); a Parquet file always has the offsets themselves.
    ``footer``: of a Parquet file, how many bytes at its end, after the last row group, ``footer_crc`` their CRC32C;
    0: an Arrow file.
    """

    name: str
    size: int
    schema_version: int
    omitted: tuple[str, ...] = ()
    offsets: bool = False
    footer: int = 0
    footer_crc: int = 0

    @property
    def is_parquet(self) -> bool:
        """Whether it is a Parquet file."""
        return self.footer > 0

    @property
    def body(self) -> int:
        """Of a Parquet file: the bytes of all of its row groups. They lie between 4 bytes of magic and the footer."""
        return self.size - self.footer - 4


class BatchRef(NamedTuple):
    """Rows of one partition inside one file: whole Arrow record batches, one after the other, or one row group.

    ``position`` and ``length`` are bytes of the file, ``crc`` the CRC32C over them. ``base_sequence`` is
    the producer's sequence number of the first row, or `NO_SEQUENCE`.
    """

    partition: int
    count: int  # type: ignore[assignment]
    position: int
    length: int
    crc: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    base_sequence: int = NO_SEQUENCE


class StagedFile(NamedTuple):
    """A file that is durable, and the rows in it that wait for their offsets."""

    topic: str
    file: FileRef
    batches: tuple[BatchRef, ...]


class PartitionOffset(NamedTuple):
    """An offset of one partition of one incarnation of a topic."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    metadata: str = ""


class PinnedRange(NamedTuple):
    """The offsets ``start`` to ``end - 1`` of a partition, of which a version of a table has all records.

    ``pages`` is the checksum (`spark_eos.protocol.encoding.index_pages.checksum`) of the index pages that hold any of
    them (`spark_eos.protocol.actions.publishing.versions.pages_of`).
    """

    topic_id: str
    partition: int
    start: int
    end: int
    pages: int


class Membership(NamedTuple):
    """The member of a group that commits offsets, and the generation to which it has synced (KIP-447)."""

    member_id: str
    generation: int
    instance_id: str | None = None


class SourceProgress(NamedTuple):
    """From where to where one source of a Spark micro-batch was read.

    ``start`` and ``end`` are canonical JSON text. A ``start`` of None is unknown: the first batch of a source of
    another format. For sources that read this very log, ``group`` is the consumer group, and the offsets are given by
    partition as well. ``name`` is what Spark's offset log calls the source from its version 2 on (the user's name, or a
    number); None: the source is known by its place in the plan.
    """

    start: str | None
    end: str | None
    group: str | None = None
    start_offsets: tuple[PartitionOffset, ...] = ()
    end_offsets: tuple[PartitionOffset, ...] = ()
    name: str | None = None


class TrailNote(NamedTuple):
    """What an action has done, for people: ``what`` it did to ``name``; ``text`` says more."""

    what: str
    name: str
    text: str = ""
