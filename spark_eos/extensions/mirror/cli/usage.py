"""The columns of the tables that ``eoslog mirror`` prints, and examples of its commands."""

from __future__ import annotations

from spark_eos.cli.usage.columns import GROUP
from spark_eos.cli.usage.table import Columns

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
        **GROUP,
        "KAFKA-TOPIC": "The topic in Kafka.",
        "TOPIC": "The topic in the log.",
        "PARTITION": "The number of the partition.",
        "KAFKA-OFFSET": "Where the group stands in Kafka.",
        "LOG-OFFSET": "The same place in the log.",
    },
)

EXAMPLES = {
    "mirror in": (
        "eoslog mirror in LOG --name shop --bootstrap-server kafka:9092 --topic orders,payments",
        "eoslog mirror in LOG --name shop --bootstrap-server kafka:9092 --topic-pattern 'shop[.].*' --groups '.*'",
        "eoslog mirror in LOG --name shop --bootstrap-server kafka:9092 --partitions orders:0-3 --once",
    ),
    "mirror offsets": (
        "eoslog mirror offsets LOG --name shop",
        "eoslog mirror offsets LOG --name shop --topic orders --json",
    ),
    "mirror out": (
        "eoslog mirror out LOG --name shop --bootstrap-server kafka:9092 --topic orders,payments",
        "eoslog mirror out LOG --name back --bootstrap-server kafka:9092 --reverse shop --groups '.*'",
    ),
    "mirror sent": (
        "eoslog mirror sent LOG --name shop --bootstrap-server kafka:9092",
        "eoslog mirror sent LOG --name shop --bootstrap-server kafka:9092 --topic orders --partition 0 --log 4711",
    ),
    "mirror wait": ("eoslog mirror wait LOG --name shop --bootstrap-server kafka:9092 --topic orders",),
    "mirror group": ("eoslog mirror group LOG --name shop --bootstrap-server kafka:9092 --group billing",),
    "mirror checkpoint": (
        "eoslog mirror checkpoint LOG --name shop --checkpoint /data/job/checkpoint",
        "eoslog mirror checkpoint LOG --name shop --checkpoint s3a://bucket/job --batch 412",
    ),
    "mirror check": (
        "eoslog mirror check LOG --name shop --bootstrap-server kafka:9092 --before producers",
        "eoslog mirror check LOG --name shop --bootstrap-server kafka:9092 --before end --ignore-groups 'test-.*'",
    ),
}
