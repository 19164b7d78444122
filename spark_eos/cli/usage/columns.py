"""The columns of each table that a command prints, and what they mean: the table's head, and a part of the help."""

from __future__ import annotations

from spark_eos.cli.usage.table import Columns
from spark_eos.extending import all_added

# -- What several tables have --------------------------------------------------------------------------------------

TOPIC = {"TOPIC": "The topic."}
PARTITION = {**TOPIC, "PARTITION": "The number of the partition."}
GROUP = {"GROUP": "The group's id."}
_START = {"START": "The first offset that is still in the log."}
_END = {"END": "The offset after the last record."}
_LSO = {
    "LSO": "The last stable offset: where read_committed readers end, since a transaction is open from there on."
}
_TRANSACTIONAL_ID = {"TransactionalId": "The transactional.id."}
_PRODUCER = {
    "ProducerId": "The id that the log gave the producer.",
    "ProducerEpoch": "Its epoch: producers of the same id with a smaller one are fenced.",
}
HELD = {"HELD": "Offsets that open transactions hold back from read_committed readers."}
BEHIND = {
    "LAG": "Offsets from the committed one to the last stable one.",
    "RECORDS": "Records among these offsets; with ~ an estimate.",
    "BYTES": "Bytes of these records as they are stored.",
    "BEHIND": "How old the first of these records is.",
}
READER = {
    "KIND": "group, query (of Spark, with an eoslog sink) or publication (of tables).",
    "NAME": "The group's id, the query's transactional.id, or the publication's name.",
}

# -- Topics --------------------------------------------------------------------------------------------------------

TOPICS = Columns(
    "topics list",
    {
        **TOPIC,
        "PARTITIONS": "How many it has.",
        "OFFSETS": "From the first to the last of each partition, added up: records and control batches.",
    },
)
_PARTITIONS = {"PARTITION": "The number of the partition.", **_START, **_END, **_LSO}
PARTITIONS = Columns("topics describe", _PARTITIONS)
SETTINGS = Columns(
    "configs",
    {"NAME": "The setting.", "VALUE": "The one in force.", "DEFAULT": "The one without a change."},
)
STARTS = Columns("delete-records", {**PARTITION, **_START})

# -- Transactions --------------------------------------------------------------------------------------------------

TRANSACTIONS = Columns(
    "transactions list",
    {
        **_TRANSACTIONAL_ID,
        "ProducerId": _PRODUCER["ProducerId"],
        "TransactionState": "Empty, Ongoing, Prepared, CompleteCommit or CompleteAbort.",
    },
)
TRANSACTION = Columns(
    "transactions describe",
    {
        **_TRANSACTIONAL_ID,
        **_PRODUCER,
        "TransactionNumber": "Its number among those of the producer.",
        "TransactionState": "As in transactions list.",
        "TransactionTimeoutMs": "When it is open for longer, others may abort it.",
        "CurrentTransactionStartTimeMs": "When it began, in ms since 1970.",
        "TransactionDurationMs": "How long it has been open.",
        "TopicPartitions": "Where it has written.",
        "PendingGroupOffsets": "Offsets that it commits for groups, if it is committed.",
        "PreparedTxnState": "The token of a transaction that is prepared.",
        "DecidedBy": "The log whose transaction decides about this one.",
        "AwaitedLogs": "Logs that have not got the decision yet.",
    },
)
PRODUCERS = Columns(
    "transactions describe-producers",
    {
        **_PRODUCER,
        "LastSequence": "The sequence number of its last record in the partition.",
        "LastTimestamp": "When it wrote last, in ms since 1970.",
        "CurrentTransactionStartOffset": "The first offset of its open transaction.",
    },
)
HANGING = Columns(
    "transactions find-hanging",
    {
        "Topic": TOPIC["TOPIC"],
        "Partition": PARTITION["PARTITION"],
        **_TRANSACTIONAL_ID,
        **_PRODUCER,
        "StartOffset": "From this offset on it holds back the partition.",
        "LastTimestamp": PRODUCERS.meanings["LastTimestamp"],
        "Duration(min)": "How long it has been open.",
    },
)
RESOLVED = Columns(
    "transactions resolve",
    {**_TRANSACTIONAL_ID, "WaitingFor": "Why the transaction is still prepared."},
)

# -- Groups --------------------------------------------------------------------------------------------------------

GROUPS = Columns(
    "groups list",
    {
        **GROUP,
        "STATE": "Empty, Stable, or PreparingRebalance while members have yet to sync.",
        "#MEMBERS": "Consumers that have joined.",
    },
)
OFFSETS = Columns(
    "groups describe",
    {
        **GROUP,
        **PARTITION,
        "CURRENT-OFFSET": "The committed offset: the next one to read.",
        "LOG-END-OFFSET": "Where the partition ends for read_committed readers.",
        "LAG": "The difference of the two.",
        "CONSUMER-ID": "The member that reads the partition.",
        "CLIENT-ID": "Its client.id.",
    },
)
MEMBERS = Columns(
    "groups describe",
    {
        **GROUP,
        "CONSUMER-ID": "The member's id.",
        "GROUP-INSTANCE-ID": "Its group.instance.id, if it is a static member.",
        "CLIENT-ID": "Its client.id.",
        "GENERATION": "The last rebalance that it knows of.",
        "#PARTITIONS": "How many it reads.",
        "ASSIGNMENT": "Which ones: topic(numbers).",
    },
    "--members",
)
STATES = Columns(
    "groups describe",
    {
        **GROUP,
        "ASSIGNMENT-STRATEGY": "How partitions are given to members.",
        "STATE": "As in groups list.",
        "GENERATION": "The number of the last rebalance.",
        "#MEMBERS": "Consumers that have joined.",
    },
    "--state",
)
NEW_OFFSETS = Columns(
    "groups reset-offsets", {**GROUP, **PARTITION, "NEW-OFFSET": "Where the group goes on then."}
)

# -- Readers -------------------------------------------------------------------------------------------------------

LAG = Columns(
    "lag",
    {
        "LOG": "With several logs: the one in which the reader commits.",
        "READS": "With several logs: the one that it reads.",
        **READER,
        "PARTITIONS": "With --totals: how many it reads.",
        **PARTITION,
        "CURRENT-OFFSET": "The committed offset: the next one to read.",
        "LOG-END-OFFSET": "The last stable offset, where read_committed readers end.",
        **BEHIND,
        "UNKNOWN": "With --totals: partitions in which it has committed nothing, so that LAG is not known. Only if "
        "there are any.",
        "HELD-BACK": "Offsets that open transactions hold back. Only if there are any.",
        "LOST": "Offsets that were deleted before they were read. Only if there are any.",
    },
)

# -- Files ---------------------------------------------------------------------------------------------------------

LEFT = Columns(
    "vacuum",
    {
        "KIND": "data, index, heartbeat or probe.",
        "NAME": "Where it is, below the log's place.",
        "BYTES": "Its size.",
    },
    "--dry-run",
)


# -- History -------------------------------------------------------------------------------------------------------

HISTORY = Columns(
    "history",
    {
        "ENTRY": "The entry in which the transaction ended.",
        "TIME": "The time of the entry, in UTC.",
        "WRITER": "The client.id or the run that wrote it.",
        "PRODUCER": _PRODUCER["ProducerId"],
        "EPOCH": _PRODUCER["ProducerEpoch"],
        "NUMBER": "The transaction's number among those of the producer.",
        "TRANSACTIONAL-ID": "The producer's transactional.id.",
        "QUERY": "The id of the Spark query.",
        "BATCH": "The number of its micro-batch.",
        "OUTCOME": "COMMIT or ABORT.",
        "RECORDS": "How many records it has, by topic.",
        "OFFSETS": "Where they are: topic-partition:first-last.",
        "GROUPS": "Offsets that were committed for groups.",
    },
)
EVENTS = Columns(
    "audit",
    {
        "TIME": "When it was done last, by the log's time, in UTC.",
        "ENTRY": "The entry that has done it.",
        "WRITER": "The client.id, the query, or the kind of program that wrote it.",
        "WHAT": "What was done.",
        "NAME": "To which topic, group, transactional.id or publication.",
        "TIMES": "How often, if it was done again within an hour.",
        "TEXT": "More about the last time.",
    },
)
_CHANGED = "before -> after, if it changed."
CHANGED_PARTITIONS = Columns(
    "diff",
    {
        **PARTITION,
        "START": f"The first offset that is in the log; {_CHANGED}",
        "END": f"The offset after the last record; {_CHANGED}",
        "LSO": f"The last stable offset; {_CHANGED}",
        "COMMITTED": "Records that were committed between the two.",
        "ABORTED": "Records that were aborted.",
    },
    "partitions",
)
CHANGED_OFFSETS = Columns(
    "diff", {**GROUP, **PARTITION, "OFFSET": f"The committed offset; {_CHANGED}"}, "groups"
)
CHANGED_PRODUCERS = Columns(
    "diff",
    {
        "PRODUCER": _PRODUCER["ProducerId"],
        "TRANSACTIONAL-ID": "Its transactional.id.",
        "EPOCH": f"Its epoch; {_CHANGED}",
        "NUMBER": f"The number of its last transaction; {_CHANGED}",
        "STATE": f"What has become of that; {_CHANGED}",
    },
    "producers",
)


TABLES = tuple(value for value in [*globals().values()] if isinstance(value, Columns))
"""Those of the kernel."""


def tables_of(command_path: str) -> tuple[Columns, ...]:
    """The tables that ``eoslog topics list`` prints; none of what prints none."""
    words = _SAME.get(name := command_path.partition(" ")[2], name)
    return tuple(table for table in all_tables() if table.command == words)


def all_tables() -> tuple[Columns, ...]:
    """Those of the kernel, and of the extensions."""
    return (*TABLES, *(table for _, added in all_added("commands") for table in added.tables))


_SAME = dict.fromkeys(("describe", "topics create", "topics alter"), "topics describe")
"""They print the table of another command."""
