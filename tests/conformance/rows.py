"""The rows of docs/quality/conformance.md. A row is carried by tests, or says why it cannot apply.

A test carries a row by its marker: ``@pytest.mark.conformance("TransactionsTest.testBasicTransactions")``.
Rows of Kafka are named by class and method of apache/kafka (trunk; where trunk has dropped a method, the
newest version that had it).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BY_ID", "TABLES", "Row", "Section", "Table"]


@dataclass(frozen=True)
class Row:
    """One thing to show. ``shows`` is one line; ``cannot_apply`` stands in for tests."""

    id: str
    shows: str
    cannot_apply: str | None = None


@dataclass(frozen=True)
class Section:
    """Rows under one heading."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """Sections that answer one question."""

    title: str
    intro: str
    sections: tuple[Section, ...]


def _section(title: str, prefix: str, rows: dict[str, str], cannot_apply: str | None = None) -> Section:
    return Section(title, tuple(Row(prefix + name, shows, cannot_apply) for name, shows in rows.items()))


_KAFKA = Table(
    "Kafka's own tests",
    "What Kafka's tests of transactions show, shown here. A transaction of this log is *one shot* (one entry) "
    "unless it calls `flush`; where the Kafka test needs an open transaction, ours flushes. Where brokers go "
    "away in Kafka, the store goes away here.",
    (
        _section(
            "TransactionsTest",
            "TransactionsTest.",
            {
                "testBasicTransactions": "Two records aborted, two committed, in two topics: a committed reader "
                "gets two, an uncommitted one four; the log start does not move.",
                "testReadCommittedConsumerShouldNotSeeUndecidedData": "A committed reader stops at the last stable "
                "offset of an earlier open transaction, though later ones have committed; seek to end goes there, "
                "and times after it find nothing.",
                "testDelayedFetchIncludesAbortedTransaction": "A poll that waits, and wakes up to interleaved "
                "aborted and committed records, returns the committed ones at their own offsets.",
                "testClassicSendOffsetsWithGroupMetadata": "500 records copied by a group member with offsets in "
                "the transaction and every other transaction aborted: 500 unique ones arrive. Here: an eager "
                "assignor.",
                "testAsyncSendOffsetsWithGroupMetadata": "The same in Kafka's newer group protocol. Here: "
                "cooperative rebalancing.",
                "testFencingOnCommit": "A second producer of the same transactional id fences the first at its "
                "commit.",
                "testFencingOnSendOffsets": "The same, at `send_offsets_to_transaction`.",
                "testOffsetMetadataInSendOffsetsToTransaction": "Metadata of an offset that was committed with a "
                "transaction comes back, also after another producer took the id over. Kafka's leader epoch has no "
                "counterpart.",
                "testInitTransactionsTimeout": "`init_transactions` while the storage is away fails with a "
                "retriable error after `max.block.ms`; close works.",
                "testSendOffsetsToTransactionTimeout": "The same, for `send_offsets_to_transaction`.",
                "testCommitTransactionTimeout": "The same, for `commit_transaction`. If the rows themselves cannot be "
                "staged, the error asks for an abort.",
                "testAbortTransactionTimeout": "The same, for `abort_transaction`. Here an abort of a transaction "
                "that no other process has seen needs no storage, so an open one is aborted.",
                "testFencingOnSend": "A fenced producer's records are refused. Here `send` only gathers: the "
                "refusal comes with `flush` or commit, and nothing was stored.",
                "testFencingOnAddPartitions": "The same for a producer that had no transaction open when it was "
                "fenced.",
                "testFencingOnTransactionExpiration": "A transaction that is open for longer than its "
                "`transaction.timeout.ms` is aborted and its producer fenced: an uncommitted reader sees the record, "
                "a committed one nothing.",
                "testMultipleMarkersOneLeader": "10,000 records over 20 partitions aborted, 1,000 committed: "
                "readers get exactly 1,000, or all 11,000.",
                "testConsecutivelyRunInitTransactions": "A second `init_transactions` is an illegal state.",
                "testRecoveryFromEpochOverflow": "A producer whose epoch is at the end of 16 bits goes on. Here "
                "epochs have 64 bits: the same id just goes on, past 2^15 and past 2^31.",
                "testBumpTransactionalEpochWithTV2Disabled": "After an abortable error and an abort the same "
                "producer goes on: five records committed, the failed ones not.",
                "testBumpTransactionalEpochWithTV2Enabled": "The same, and what the failed transaction sent late "
                "can never reach the next one. Kafka raises the epoch with every transaction; here the transaction "
                "number rises, and the epoch only with a new producer.",
                "testFailureToFenceEpoch": "An `init_transactions` that fails because the storage is away fences "
                "completely or not at all: the next producer takes the id over, at a higher epoch.",
                "testEmptyAbortAfterCommit": "An empty transaction aborted after a commit does not fence its own "
                "producer. Here it leaves no trace at all.",
            },
        ),
        _section(
            "TransactionsBounceTest",
            "TransactionsBounceTest.",
            {
                "testWithGroupId": "10,000 records copied in transactions of at most 200, every third aborted, "
                "while the storage goes away and loses requests and replies all the time: no record is lost or "
                "doubled, order is kept in every partition. Offsets by group id alone.",
                "testWithGroupMetadata": "The same, in the name of a member of the group.",
            },
        ),
        _section(
            "TransactionsExpirationTest",
            "TransactionsExpirationTest.",
            {
                "testBumpTransactionalEpochAfterInvalidProducerIdMapping": "The transactional id has expired: the "
                "producer gets `InvalidPidMappingError`, and a new one takes the id and commits.",
                "testTransactionAfterProducerIdExpires": "What is known of a producer in its partitions has "
                "expired, its id not: the next producer gets the same producer id at the next epoch.",
            },
        ),
        _section(
            "ProducerIdExpirationTest",
            "ProducerIdExpirationTest.",
            {
                "testProducerIdExpirationWithNoTransactions": "The state of an idempotent producer expires, and "
                "is there again when it sends again.",
                "testTransactionAfterTransactionIdExpiresButProducerIdRemains": "The transactional id expires; "
                "the producer that held it is refused, a new one commits.",
                "testDynamicProducerIdExpirationMs": "`producer.id.expiration.ms` may be changed at any time, "
                "and is the same for every process, as it is part of the log.",
                "(not while a transaction is open)": "Neither producer nor transactional id expires while its "
                "transaction is open.",
            },
        ),
        _section(
            "ProducerStateManagerTest",
            "ProducerStateManagerTest.",
            {
                "testProducerSequenceWrapAround": "After sequence 2147483647 comes 0.",
                "testProducerSequenceWithWrapAroundBatchRecord": "Also inside of one batch.",
                "testProducerSequenceInvalidWrapAround": "A jump to 0 before the end of the range is out of order.",
                "testNonTransactionalAppendWithOngoingTransaction": "A non-transactional batch of a transactional "
                "producer is refused.",
                "testControlRecordBumpsProducerEpoch": "An abort that fences raises the epoch with its marker.",
                "testOutOfSequenceAfterControlRecordEpochBump": "After that, sequences start at 0 again and "
                "nothing else is taken.",
                "testOldEpochForControlRecord": "An end of transaction from an older epoch is refused.",
                "testProducersWithOngoingTransactionsDontExpire": "A producer with an open transaction does not "
                "expire, however old it is.",
                "(marker retry is idempotent)": "An end of transaction that is repeated succeeds and writes no "
                "second marker.",
                "(non-zero first sequence is refused)": "The first batch of a producer in a partition has "
                "sequence 0.",
                "testFirstUnstableOffset": "The last stable offset is where the oldest open transaction began.",
                "testLastStableOffsetCompletedTxn": "Each end of a transaction moves it on to the next open one, "
                "or to the end.",
                "testSkipEmptyTransactions": "Empty transactions leave no trace on it.",
            },
        ),
        _section(
            "UnifiedLogTest",
            "UnifiedLogTest.",
            {
                "testDuplicateAppends": "A batch that is repeated is answered with the offset it had, if it is one "
                "of the last five; an older one is out of order.",
                "testOldProducerEpoch": "A batch of an older epoch is refused.",
                "testAbortedTransactionSpanningMultipleSegments": "An aborted transaction over several segments "
                "(here: files) is left out as a whole.",
                "testLastStableOffsetDoesNotExceedLogStartOffsetMidSegment": "The last stable offset is never "
                "below the log start. Here the log start cannot pass an open transaction.",
                "testLastStableOffsetDoesNotExceedLogStartOffsetAfterSegmentDeletion": "The same, where whole "
                "files lie below the log start.",
                "testFetchUpToLastStableOffset": "A committed reader gets everything up to the last stable offset "
                "and nothing after it.",
            },
        ),
        _section(
            "LogCleanerTest",
            "LogCleanerTest.",
            {
                "testCommitMarkerRemoval": "Commit markers go, as holes, when their part of the log is compacted: what "
                "is left needs none; deciding again is still answered, positions move over the holes.",
                "testAbortMarkerRemoval": "Abort markers too, together with the aborted records, which come back for "
                "no isolation level and win over nothing.",
                "testCleanWithTransactionsSpanningSegments": "Transactions over several segments are cleaned as "
                "wholes: not before they are decided, and then as decided.",
                "testLogCleanerRetainsLastSequenceEvenIfTransactionAborted": "The last sequence of a live producer "
                "survives.",
            },
        ),
        _section(
            "transactions_test.py",
            "transactions_test.test_transactions",
            {
                "[hard_bounce, group metadata]": "Two input partitions copied into three by two processes, in "
                "transactions of up to 750 with random aborts, each killed with SIGKILL three times: a concurrent and "
                "a final committed reader see every record once, in order for each input partition.",
                "[hard_bounce, group id]": "The same; offsets by group id alone.",
                "[clean_bounce, group metadata]": "The same; the processes are asked to end, and close.",
                "[clean_bounce, group id]": "The same; offsets by group id alone.",
            },
        ),
    ),
)

_ANOMALIES = Table(
    "Where exactly-once broke elsewhere",
    "Faults that were found in other systems. Each test makes the dangerous schedule happen.",
    (
        _section(
            "Apache Kafka",
            "",
            {
                "KAFKA-17754": "A delayed end of one transaction decided a later one (Jepsen, 2024). An end names "
                "producer id, epoch and transaction number: a late one is refused.",
                "KAFKA-17754 (abort after an unknown commit)": "A transaction torn by an abort after a commit that "
                "timed out. After an unknown outcome only the same call is allowed.",
                "KAFKA-14402": "A late append after the abort left a hanging transaction. It is refused.",
                "KAFKA-9144": "Fencing state expired by old timestamps in the data. Expiry goes by the log's own "
                "time, which never goes back.",
                "KAFKA-6119": "A timeout aborted without raising the epoch, and a zombie went on. The epoch rises "
                "first.",
                "KAFKA-19999": "A decision that was repeated was refused, for ever. The same decision again "
                "succeeds; the opposite one is refused.",
                "KAFKA-19367": "An epoch overflowed at 2^15. Epochs have 64 bits.",
                "KAFKA-17582": "After an abort the consumer was not rewound and records were skipped. A new start "
                "is at what was committed.",
            },
        ),
        _section(
            "Bufstream 0.1.0",
            "",
            {
                "Bufstream (lost writes)": "Acknowledged writes were lost with a lease. What was acknowledged is "
                "in the log, whatever happens to its writer.",
                "Bufstream (zero offsets)": "Errors came with offset 0. No offset is ever made up: an unknown "
                "place is -1 or an error.",
                "Bufstream (stuck clients)": "Clients hung for ever after an error. After every failed call there "
                "is one that leads on.",
            },
        ),
        _section(
            "Redpanda",
            "",
            {
                "Redpanda #3036": "Aborted records were read: the last stable offset was off by one. It is "
                "exclusive everywhere, at both sides of the boundary.",
                "Redpanda #5026": "An update was lost: it was taken for a duplicate of an aborted batch.",
                "Redpanda #6018": "A transaction was committed without its records. Rows are durable before the "
                "commit that lists them, or there is no commit.",
                "Redpanda #9571": "Input was processed twice, for a stale offset. Offsets are in the entry that "
                "makes the output visible.",
                "Redpanda #10671": "Aborted data was visible, as the last stable offset ran ahead of what was "
                "applied. Both come from one state.",
                "Redpanda #7544": "The last stable offset went back. It never does, in any interleaving.",
            },
        ),
    ),
)

_RULES = Table(
    "Rules of the protocol",
    "What the protocol promises, and the tests that fail without it.",
    (
        _section(
            "The commit loop",
            "commit/",
            {
                "one-winner": "A slot has one winner. The rules judge the other request again, in the state "
                "after the winner.",
                "newest-state": "No refusal, and no “nothing to do”, rests on an old state or an unwritten entry.",
                "three-outcomes": "A request that may be in the log never gets the answer no: an unknown outcome "
                "is an error of its own.",
                "same-slot": "A slot in doubt is filled before anything else is decided.",
                "own-request": "A call that is repeated finds its own entry.",
                "all-or-nothing": "A request that breaks a rule changes nothing, and harms no request beside it.",
            },
        ),
        _section(
            "Entries and state",
            "state/",
            {
                "pure": "The state is a function of the entries, and its invariants hold whatever is asked.",
                "checked": "A flipped byte or a cut in an entry is found.",
                "time": "The log's time never goes back.",
            },
        ),
        _section(
            "Producers and transactions",
            "producer/",
            {
                "ids": "Producer ids are given out in order; a transactional id keeps its own.",
                "fencing": "An older epoch can do nothing.",
                "init-aborts": "A producer that takes an id over aborts what was left open.",
                "timeout-bounds": "A transaction timeout is between 1 ms and 15 minutes.",
                "runs": "A Spark query run that was replaced does not come back.",
                "number": "An end decides the transaction that it names, and no other.",
                "one-at-a-time": "A producer has one transaction open at most, and numbers follow one another.",
                "same-decision": "The same decision again is success, the opposite one is refused.",
                "empty": "An empty transaction leaves no trace.",
                "markers": "An end puts one control batch into each partition that was touched, and no other.",
                "kinds": "Transactional producers write inside of transactions only, others only outside.",
            },
        ),
        _section(
            "Sequences",
            "sequence/",
            {
                "gap": "A batch follows the last one, or is refused.",
                "first": "The first sequence of an epoch is 0.",
                "wrap": "0 comes after 2147483647.",
                "duplicate": "A repeated request is answered with its first offsets and changes nothing.",
                "window": "Five batches are remembered for each producer and partition.",
                "aborted": "An aborted or older transaction's batch is never taken for a duplicate.",
            },
        ),
        _section(
            "Offsets, last stable offset, log start",
            "offset/",
            {
                "with-transaction": "Offsets of a transaction are committed with it, or not at all.",
                "pending": "Who asks for a stable offset waits for the open transaction that carries a newer one.",
                "lso": "The last stable offset is the first one of the oldest open transaction, else the end.",
                "start": "The log start never goes back and never passes the last stable offset.",
                "incarnation": "A topic that was created again shares nothing with the old one.",
                "open-topic": "A topic with an open transaction can be deleted; the transaction ends without it.",
                "floor": "A file older than the staging floor cannot be committed.",
            },
        ),
        _section(
            "Expiry",
            "expiry/",
            {
                "fence-first": "A transaction that is over time is fenced, then aborted; its producer cannot go on.",
                "evidence": "Only the transaction that was watched for its whole timeout expires.",
                "producers": "Sequence numbers are forgotten after `producer.id.expiration.ms`, the id is not.",
                "ids": "A transactional id is forgotten after `transactional.id.expiration.ms`; its late writers are "
                "refused.",
                "not-open": "Nothing of an open transaction expires.",
                "offsets": "Offsets are forgotten `offsets.retention.minutes` after the last commit and the last "
                "member.",
                "queries": "What a Spark query stands on never expires.",
                "settings": "These times are settings of the log, the same for all clients.",
            },
        ),
        _section(
            "Groups",
            "group/",
            {
                "membership": "Only a member, in the generation it has synced to, commits for its group.",
                "transaction": "The same inside of a transaction (KIP-447).",
                "held": "No member commits for, or reads, a partition that another member still holds.",
                "hand-over": "A partition passes on when its reader has let go, left, or been silent for its session "
                "timeout.",
                "static": "A static member's successor takes over its place without a rebalance (KIP-345).",
                "generation": "Members, subscriptions and partitions that change make a new generation, and nothing "
                "else does.",
                "assignor": "Members agree on an assignment that all of them know.",
            },
        ),
        _section(
            "Micro-batches",
            "query/",
            {
                "replay": "A batch that is replayed is not written again.",
                "older-checkpoint": "An older batch, or the same one with other offsets, is refused.",
                "continuity": "A batch starts where the group stands.",
                "zombie": "A run that was replaced, or never registered, commits nothing.",
            },
        ),
    ),
)

TABLES = (_KAFKA, _ANOMALIES, _RULES)

BY_ID = {row.id: row for table in TABLES for section in table.sections for row in section.rows}
assert len(BY_ID) == sum(len(section.rows) for table in TABLES for section in table.sections)
