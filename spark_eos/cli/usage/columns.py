"""The columns of each table that a command prints, and what they mean: the table's head, and a part of the help."""

from __future__ import annotations

from spark_eos.cli.usage.table import Columns

__all__ = ["TABLES", "tables_of"]


# -- What several tables have --------------------------------------------------------------------------------------

_TOPIC = {"TOPIC": "The topic."}
_PARTITION = {**_TOPIC, "PARTITION": "The number of the partition."}
_GROUP = {"GROUP": "The group's id."}
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
_HELD = {"HELD": "Offsets that open transactions hold back from read_committed readers."}
_BEHIND = {
    "LAG": "Offsets from the committed one to the last stable one.",
    "RECORDS": "Records among these offsets; with ~ an estimate.",
    "BYTES": "Bytes of these records as they are stored.",
    "BEHIND": "How old the first of these records is.",
}
_READER = {
    "KIND": "group, query (of Spark, with an eoslog sink) or publication (of tables).",
    "NAME": "The group's id, the query's transactional.id, or the publication's name.",
}

# -- Topics --------------------------------------------------------------------------------------------------------

TOPICS = Columns(
    "topics list",
    {
        **_TOPIC,
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
STARTS = Columns("delete-records", {**_PARTITION, **_START})

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
        "Topic": _TOPIC["TOPIC"],
        "Partition": _PARTITION["PARTITION"],
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
        **_GROUP,
        "STATE": "Empty, Stable, or PreparingRebalance while members have yet to sync.",
        "#MEMBERS": "Consumers that have joined.",
    },
)
OFFSETS = Columns(
    "groups describe",
    {
        **_GROUP,
        **_PARTITION,
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
        **_GROUP,
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
        **_GROUP,
        "ASSIGNMENT-STRATEGY": "How partitions are given to members.",
        "STATE": "As in groups list.",
        "GENERATION": "The number of the last rebalance.",
        "#MEMBERS": "Consumers that have joined.",
    },
    "--state",
)
NEW_OFFSETS = Columns(
    "groups reset-offsets", {**_GROUP, **_PARTITION, "NEW-OFFSET": "Where the group goes on then."}
)

# -- Readers -------------------------------------------------------------------------------------------------------

LAG = Columns(
    "lag",
    {
        "LOG": "With several logs: the one in which the reader commits.",
        "READS": "With several logs: the one that it reads.",
        **_READER,
        "PARTITIONS": "With --totals: how many it reads.",
        **_PARTITION,
        "CURRENT-OFFSET": "The committed offset: the next one to read.",
        "LOG-END-OFFSET": "The last stable offset, where read_committed readers end.",
        **_BEHIND,
        "HELD-BACK": "Offsets that open transactions hold back. Only if there are any.",
        "LOST": "Offsets that were deleted before they were read. Only if there are any.",
    },
)
READERS = Columns(
    "top",
    {
        **_READER,
        "KIND": "group, query (of Spark, with an eoslog sink) or tables (a publication).",
        "PARTS": "How many partitions it reads.",
        **_TOPIC,
        "PART": "The number of the partition, where readers are shown by partition.",
        **_BEHIND,
        **_HELD,
    },
    "Readers",
)
ACTIVE_TOPICS = Columns(
    "top",
    {
        **_TOPIC,
        "PARTITIONS": "How many it has.",
        "RECORDS/S": "Records that are written, by the second.",
        "BYTES/S": "And their bytes.",
        "OFFSETS": TOPICS.meanings["OFFSETS"],
        **_HELD,
    },
    "Topics",
)
OPEN_TRANSACTIONS = Columns(
    "top",
    {
        "TRANSACTIONAL-ID": "The transactional.id, or the producer's id.",
        "STATE": "open, prepared, or overdue: open for longer than its timeout.",
        "AGE": "How long it has been open.",
        "TIMEOUT": "When it is open for longer, others may abort it.",
        **_HELD,
        "WHERE": "The partitions to which it has written.",
        "GROUPS": "Groups whose offsets it commits.",
    },
    "Transactions",
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
KEYS = Columns(
    "encryption keys",
    {
        "KEY": "The key's id.",
        "FILES": "Data files that need it.",
        "BYTES": "Their size.",
        "UNREFERENCED": "How many of them nothing refers to: vacuum deletes them.",
        "MAY BE DESTROYED": "Whether this log can do without the key.",
    },
)
BACKUPS = Columns(
    "backups list",
    {
        "NAME": "The backup's name.",
        "CREATED": "When it was made, in UTC.",
        "ENTRIES": "The first and the last entry to which it can be restored.",
        "FROM": "The time of the first one, in UTC.",
        "TO": "The time of the last one.",
        "FILES": "Data files that it needs.",
        "BYTES": "Their size.",
        "NEW-BYTES": "Of these what no earlier backup had.",
    },
)

# -- Tables --------------------------------------------------------------------------------------------------------

TABLES_OF_TOPICS = Columns(
    "tables list",
    {
        "PUBLICATION": "The name of the publication.",
        **_TOPIC,
        "FORMAT": "delta or iceberg.",
        "MODE": "shared (the tables have the log's own files) or copied.",
        "VERSION": "The newest version of the table.",
        "SEQUENCE": "The number of the publication's version that it belongs to.",
        "ENTRY": "The log's entry that it stands for.",
        "LOCATION": "Where the table is.",
    },
)
VERSIONS = Columns(
    "tables versions",
    {
        **_TOPIC,
        "VERSION": "The version of the table.",
        "SEQUENCE": TABLES_OF_TOPICS.meanings["SEQUENCE"],
        "ENTRY": TABLES_OF_TOPICS.meanings["ENTRY"],
        "TIME": "When it was published, in UTC.",
        "OFFSETS": "The offset after the last record in it, for each partition.",
    },
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
        **_PARTITION,
        "START": f"The first offset that is in the log; {_CHANGED}",
        "END": f"The offset after the last record; {_CHANGED}",
        "LSO": f"The last stable offset; {_CHANGED}",
        "COMMITTED": "Records that were committed between the two.",
        "ABORTED": "Records that were aborted.",
    },
    "partitions",
)
CHANGED_OFFSETS = Columns(
    "diff", {**_GROUP, **_PARTITION, "OFFSET": f"The committed offset; {_CHANGED}"}, "groups"
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

# -- Mirrors -------------------------------------------------------------------------------------------------------

MIRRORED = Columns(
    "mirror offsets",
    {
        "KAFKA-TOPIC": "The topic in Kafka.",
        "PARTITION": "The number of the partition, the same on both sides.",
        "TOPIC": "The topic in the log.",
        "KAFKA-OFFSET": "The next offset to read in Kafka.",
        "LOG-OFFSET": "The offset in the log after the last mirrored record.",
        "SAME-OFFSETS": "Whether each record has the same offset on both sides.",
    },
)
SENT = Columns(
    "mirror sent",
    {
        "TOPIC": "The topic in the log.",
        "PARTITION": "The number of the partition, the same on both sides.",
        "KAFKA-TOPIC": "The topic in Kafka.",
        "LOG-OFFSET": "The next offset to read in the log.",
        "KAFKA-OFFSET": "The offset in Kafka after the last record that was sent.",
        "LAG": "Offsets of the log that may be sent, and are not yet.",
    },
)
MOVED = Columns(
    "mirror group",
    {
        **_GROUP,
        "KAFKA-TOPIC": "The topic in Kafka.",
        "TOPIC": "The topic in the log.",
        "PARTITION": "The number of the partition.",
        "KAFKA-OFFSET": "Where the group stands in Kafka.",
        "LOG-OFFSET": "The same place in the log.",
    },
)

TABLES = tuple(value for value in [*globals().values()] if isinstance(value, Columns))
"""All of them."""


def tables_of(command_path: str) -> tuple[Columns, ...]:
    """The tables that ``eoslog topics list`` prints; none of what prints none."""
    words = _SAME.get(name := command_path.partition(" ")[2], name)
    return tuple(table for table in TABLES if table.command == words)


_SAME = dict.fromkeys(("describe", "topics create", "topics alter"), "topics describe")
"""They print the table of another command."""
