"""Settings of the whole log: what Kafka has as settings of its brokers. The log stores them as text."""

from __future__ import annotations

from spark_eos.config.option import Option, Table
from spark_eos.config.values import Integer

_WHOLE = Integer(1, 10**18 - 1)
_EXPIRY = "protocol/actions/expiry.py"
_HEALTH = "monitoring/troubles/of_state.py"
_READERS = "monitoring/lag.py"

LOG = Table(
    "log setting",
    Option(
        "entry.timestamp.after.max.ms",
        _WHOLE,
        3_600_000,
        "So far ahead of the log's time, or of the store's, a client's clock is believed.",
        "log/timekeeping.py",
        "eoslog",
    ),
    Option(
        "audit.retention.ms",
        _WHOLE,
        604_800_000,
        "So long `eoslog audit` tells what was done to the log: who was fenced, deleted, altered, expired.",
        "protocol/rules/trail.py",
        "eoslog",
    ),
    Option(
        "health.backup.age.max.ms",
        _WHOLE,
        172_800_000,
        "A last `eoslog backup --note` that is older is warned of; if this is set, also that there is none.",
        _HEALTH,
        "eoslog",
    ),
    Option(
        "health.lag.max.ms",
        _WHOLE,
        300_000,
        "A reader whose first unread record is older is behind: `eoslog status`, the page and the alerts warn. "
        "`health.lag.max.ms:NAME` is the limit of one group or query; of a query that reads elsewhere, such as "
        "`mirror/NAME`, it is how long it may commit nothing.",
        _READERS,
        "eoslog",
        by_name=True,
    ),
    Option(
        "health.publication.lag.max.ms",
        _WHOLE,
        7_200_000,
        "Tables that lack an older record, and were not published for as long, are behind. "
        "`health.publication.lag.max.ms:NAME` is the limit of one publication.",
        _READERS,
        "eoslog",
        by_name=True,
    ),
    Option(
        "health.retention.delay.max.ms",
        _WHOLE,
        172_800_000,
        "`eoslog status` tells of records that retention should have deleted for longer.",
        "monitoring/troubles/retention.py",
        "eoslog",
    ),
    Option(
        "health.small.batches.max",
        _WHOLE,
        10_000,
        "A topic with more small batches, which rolling would join, is warned of.",
        _HEALTH,
        "eoslog",
    ),
    Option(
        "health.transaction.max.ms",
        _WHOLE,
        900_000,
        "A transaction that holds something back for longer is warned of, also within its timeout.",
        _HEALTH,
        "eoslog",
    ),
    Option(
        "health.verify.age.max.ms",
        _WHOLE,
        2_678_400_000,
        "A last `eoslog verify --note` that is older is warned of; if this is set, also that there is none.",
        _HEALTH,
        "eoslog",
    ),
    Option(
        "metadata.max.retention.ms",
        _WHOLE,
        3_600_000,
        "So long entries can be read, for mirrors, histories and time travel; then a snapshot stands for them.",
        "log/snapshots/horizon.py",
    ),
    Option(
        "offsets.retention.minutes",
        _WHOLE,
        10_080,
        "After so long without members, the offsets of a group are forgotten.",
        _EXPIRY,
    ),
    Option(
        "producer.id.expiration.ms",
        _WHOLE,
        86_400_000,
        "After so long without a record, a producer is forgotten.",
        _EXPIRY,
    ),
    Option(
        "transactional.id.expiration.ms",
        _WHOLE,
        604_800_000,
        "After so long without a transaction, a `transactional.id` is forgotten.",
        _EXPIRY,
    ),
    stored=True,
)
"""``entry.timestamp.after.max.ms`` is for the times of entries what message.timestamp.after.max.ms is for records."""
