"""The columns of what ``eoslog top`` shows, and examples."""

from __future__ import annotations

from spark_eos.cli.usage.columns import BEHIND, HELD, READER, TOPIC, TOPICS
from spark_eos.cli.usage.table import Columns

READERS = Columns(
    "top",
    {
        **READER,
        "KIND": "group, query (of Spark, with an eoslog sink), tables (a publication), or elsewhere: what reads "
        "outside of the log, such as a mirror of Kafka.",
        "PARTS": "How many partitions it reads; unknown: in so many it has committed nothing, so its lag is not known.",
        **TOPIC,
        "PART": "The number of the partition, where readers are shown by partition.",
        **BEHIND,
        "BEHIND": f"{BEHIND['BEHIND']} Of what reads elsewhere that is not known, but how long ago it has committed.",
        **HELD,
    },
    "Readers",
)
ACTIVE_TOPICS = Columns(
    "top",
    {
        **TOPIC,
        "PARTITIONS": "How many it has.",
        "RECORDS/S": "Records that are written, by the second.",
        "BYTES/S": "And their bytes.",
        "OFFSETS": TOPICS.meanings["OFFSETS"],
        **HELD,
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
        **HELD,
        "WHERE": "The partitions to which it has written.",
        "GROUPS": "Groups whose offsets it commits.",
    },
    "Transactions",
)

EXAMPLES = {
    "top": ("eoslog top LOG --json --count 1",),
}
