"""All metrics: name, kind, unit, labels, meaning. What exports metrics, their page and their tests are made from this.

Names follow OpenTelemetry. Where its conventions have a metric of the same meaning (messaging, databases), it is that
one; else the name begins with ``eoslog.``, and the rest is that of OpenTelemetry's Kafka receiver or of Kafka's own
metrics, where they have one. Prometheus's names are derived (`Metric.prometheus_name`).
"""

from __future__ import annotations

from functools import partial

from spark_eos.clients.durations import OF_REQUESTS
from spark_eos.extensions.metrics.metric import Kind, Metric, Source
from spark_eos.extensions.metrics.metric import counter as _counter
from spark_eos.extensions.metrics.metric import gauge as _gauge
from spark_eos.extensions.metrics.metric import lags as _lags

_LOG, _TOPIC, _PARTITION = "eoslog.log", "messaging.destination.name", "messaging.destination.partition.id"
_GROUP, _CLIENT, _QUERY = "messaging.consumer.group.name", "messaging.client.id", "eoslog.query"
_OPERATION, _DB_OPERATION, _ERROR = "messaging.operation.name", "db.operation.name", "error.type"
_OUTCOME, _PUBLICATION, _SYSTEM = "eoslog.outcome", "eoslog.publication", "db.system.name"
_TROUBLE, _LEVEL, _ABOUT = "eoslog.trouble", "eoslog.level", "eoslog.about"

_CALL_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""As OpenTelemetry's conventions for databases and for messaging advise."""

_OF_TOPIC, _OF_PARTITION = (_LOG, _TOPIC), (_LOG, _TOPIC, _PARTITION)
_OF_GROUP, _OF_CLIENT = (_LOG, _GROUP), (_LOG, _CLIENT)

_OF_LOGS = (
    _gauge(
        "up",
        "",
        (_LOG,),
        "1: the log was read. 0: it was not, or not in time; all else of the log is left out, but why and its disk",
    ),
    _gauge(
        "trouble",
        "{trouble}",
        (_LOG, _TROUBLE, _LEVEL, _ABOUT),
        "Troubles that `eoslog status` tells, with the limits that are set for the log. What is none is left out",
    ),
    _gauge(
        "disk.free",
        "By",
        (_LOG,),
        "Free bytes of the log's disk; of the fuller one, if the data is apart. Left out if the store does not tell, "
        "as buckets do not",
    ),
    _gauge("disk.size", "By", (_LOG,), "All bytes of this disk"),
    _gauge("look.duration", "s", (_LOG,), "How long the last look at the log took"),
    _counter("look.errors", "{error}", (_LOG, _ERROR), "Looks at the log that failed"),
    _counter("log.entries", "{entry}", (_LOG,), "Entries of the log: its rate is slots per second"),
    _gauge("log.last_entry.age", "s", (_LOG,), "Time since the newest entry, by this machine's clock"),
    _gauge(
        "log.clock.ahead",
        "s",
        (_LOG,),
        "How far the newest entry's time is ahead of this machine's clock, else 0",
    ),
    _counter(
        "log.requests",
        "{request}",
        (_LOG, _OUTCOME),
        "Requests in entries that were read since the start: `accepted`, or `rejected` by the rules",
    ),
    _counter(
        "log.grouped_requests",
        "{request}",
        (_LOG,),
        "Those that share their entry with others: divided by all it is the share of group commit",
    ),
    _counter(
        "log.transactions",
        "{transaction}",
        (_LOG, _OUTCOME),
        "Transactions that ended since the start: `commit`, `abort`",
    ),
    _counter(
        "log.fencings",
        "{fencing}",
        (_LOG,),
        "Producers fenced since the start while they had a transaction open: by another one, an abort, or a timeout",
    ),
    _gauge("topics", "{topic}", (_LOG,), "Topics", "Kafka `GlobalTopicCount`"),
    _gauge(
        "topic.partitions",
        "{partition}",
        _OF_TOPIC,
        "Partitions of the topic",
        "OTel `kafka.topic.partitions`",
    ),
    _counter(
        "topic.messages",
        "{message}",
        _OF_TOPIC,
        "Records appended since the start; those of transactions that are aborted later count",
        "Kafka `MessagesInPerSec`",
    ),
    _counter("topic.io", "By", _OF_TOPIC, "Bytes of these records as stored", "Kafka `BytesInPerSec`"),
    _gauge(
        "topic.offsets", "{offset}", _OF_TOPIC, "Offsets that the topic has: its records and control batches"
    ),
    _gauge("topic.size", "By", _OF_TOPIC, "Bytes of the topic's batches as stored", "Kafka `Log.Size`"),
    _gauge("topic.batches", "{batch}", _OF_TOPIC, "Batches of the topic, control batches included"),
    _gauge(
        "topic.lso_lag",
        "{offset}",
        _OF_TOPIC,
        "Offsets from the last stable offsets to the ends: what open transactions hold back",
        "Kafka `LastStableOffsetLag`",
    ),
    _gauge(
        "topic.open_transaction.age",
        "s",
        _OF_TOPIC,
        "Age of the oldest open transaction in the topic, by this machine's clock; 0: there is none",
    ),
    _gauge(
        "partition.oldest_offset",
        "{offset}",
        _OF_PARTITION,
        "First offset. Like all metrics by partition of `eoslog metrics` with `--partitions` alone",
        "OTel `kafka.partition.oldest_offset`",
    ),
    _gauge(
        "partition.current_offset",
        "{offset}",
        _OF_PARTITION,
        "Next offset",
        "OTel `kafka.partition.current_offset`",
    ),
    _gauge("partition.last_stable_offset", "{offset}", _OF_PARTITION, "Last stable offset, exclusive"),
    _gauge("partition.size", "By", _OF_PARTITION, "Bytes of the partition's batches as stored"),
    _gauge("transactions.open", "{transaction}", (_LOG,), "Open transactions"),
    _gauge(
        "transactions.late",
        "{transaction}",
        (_LOG,),
        "Open transactions past their timeout, by this machine's clock",
        "Kafka `PartitionsWithLateTransactionsCount`",
    ),
    _gauge("transactions.oldest.age", "s", (_LOG,), "Age of the oldest open transaction; 0: there is none"),
    _gauge(
        "transactions.prepared",
        "{transaction}",
        (_LOG,),
        "Prepared transactions: open, and without a timeout",
    ),
    _gauge(
        "transactions.prepared.age",
        "s",
        (_LOG,),
        "Time since the oldest prepared transaction began; 0: there is none",
    ),
    _gauge(
        "consumer_group.members",
        "{member}",
        _OF_GROUP,
        "Members of the group",
        "OTel `kafka.consumer_group.members`",
    ),
    _gauge(
        "consumer_group.silent_members",
        "{member}",
        _OF_GROUP,
        "Members that have shown no sign of life for twice their `session.timeout.ms`; no value if "
        "none is known and not all of the group were asked (1,000 of a log are, and none without the right to read)",
    ),
    _gauge(
        "consumer_group.lag_unknown",
        "{partition}",
        (*_OF_GROUP, _TOPIC),
        "Partitions with records that members read, in which the group has committed nothing: their lag is not known",
    ),
    *_lags("consumer_group", _GROUP, "the group has"),
    _gauge(
        "consumer_group.offset",
        "{offset}",
        (*_OF_GROUP, _TOPIC, _PARTITION),
        "Committed offset; with `--partitions`",
        "OTel `kafka.consumer_group.offset`",
    ),
    *_lags("query", _QUERY, "the Spark query that commits into this log has"),
    _gauge("query.batch", "{batch}", (_LOG, _QUERY), "Number of the last micro-batch that it has committed"),
    _gauge(
        "query.last_commit.age",
        "s",
        (_LOG, _QUERY),
        "Time since it has committed, or begun; of a mirror (`mirror/NAME`). With nothing to read it commits nothing",
    ),
    *_lags("publication", _PUBLICATION, "the publication's tables have"),
    _gauge(
        "publication.sequence",
        "{version}",
        (_LOG, _PUBLICATION),
        "Number of the newest version that all tables of the publication have",
    ),
    _gauge("publication.age", "s", (_LOG, _PUBLICATION), "Time since the entry that this version stands for"),
    _gauge(
        "publication.unfinished",
        "{version}",
        (_LOG, _PUBLICATION),
        "1: a version was begun and is not known to be in all tables",
    ),
    _gauge(
        "backup.age",
        "s",
        (_LOG,),
        "Time since the last `eoslog backup --note` has ended; left out without a note",
    ),
    _gauge(
        "verify.age",
        "s",
        (_LOG,),
        "Time since the last `eoslog verify --note` has ended; left out without a note",
    ),
    _gauge(
        "maintenance.unsealed_entries",
        "{entry}",
        (_LOG,),
        "Entries after the newest stored snapshot: what a process reads to open the log",
    ),
    _gauge(
        "maintenance.snapshot.age",
        "s",
        (_LOG,),
        "Time since the entry of the newest stored snapshot; of the log's first entry, if there is none",
    ),
    _gauge(
        "maintenance.unretired_entries",
        "{entry}",
        (_LOG,),
        "Entries that a snapshot covers and that are not retired",
    ),
    _gauge("maintenance.unsealed_batches", "{batch}", _OF_TOPIC, "Batches that are not in an index page yet"),
    _gauge("maintenance.small_batches", "{batch}", _OF_TOPIC, "Batches that rolling would save, estimated"),
    _gauge(
        "maintenance.garbage.objects",
        "{object}",
        (_LOG,),
        "Objects that a vacuum would delete, 100,000 of a kind at most",
    ),
    _gauge("maintenance.garbage.size", "By", (_LOG,), "Their bytes"),
)

_OF_STORES = (
    Metric(
        "db.client.operation.duration",
        Kind.HISTOGRAM,
        "s",
        (_LOG, _SYSTEM, _DB_OPERATION, _ERROR),
        Source.STORE,
        "Requests to the store: how long they took, by verb and error. An `upload` is its end, a `list` all pages",
        "OTel `db.client.operation.duration`",
        OF_REQUESTS,
    ),
    _counter("storage.io", "By", (_LOG, _DB_OPERATION), "Bytes read and written", source=Source.STORE),
)


_client, _of_client = partial(_gauge, source=Source.CLIENT), partial(_counter, source=Source.CLIENT)

_OF_CLIENTS = (
    _of_client("read.corrupt", "{read}", (_LOG,), "Reads of this process that met damaged data"),
    _of_client("commit.entries", "{entry}", (_LOG,), "Entries that this process created"),
    _of_client(
        "commit.requests", "{request}", (_LOG,), "Requests in these entries, other processes' included"
    ),
    _of_client(
        "commit.grouped_requests",
        "{request}",
        (_LOG,),
        "Of these, requests of other processes (group commit)",
    ),
    _of_client("commit.conflicts", "{conflict}", (_LOG,), "Creates that met a taken slot"),
    _of_client("commit.lost_replies", "{reply}", (_LOG,), "Creates to which the store gave no answer"),
    _client(
        "commit.in_doubt",
        "{request}",
        (_LOG,),
        "Requests of this process whose outcome is not known, without those that are under way",
    ),
    Metric(
        "messaging.client.sent.messages",
        Kind.COUNTER,
        "{message}",
        (_LOG, _CLIENT, _TOPIC, _ERROR),
        Source.CLIENT,
        "Records sent; with the error `failed` those that are not in the log, or it is not known",
        "OTel `messaging.client.sent.messages`, Kafka `record-send-total`",
    ),
    Metric(
        "messaging.client.consumed.messages",
        Kind.COUNTER,
        "{message}",
        (_LOG, _CLIENT, _GROUP),
        Source.CLIENT,
        "Records that polls returned",
        "OTel `messaging.client.consumed.messages`, Kafka `records-consumed-total`",
    ),
    Metric(
        "messaging.client.operation.duration",
        Kind.HISTOGRAM,
        "s",
        (_LOG, _CLIENT, _OPERATION),
        Source.CLIENT,
        "Calls of clients: `send` (staging and commit of a request), `flush`, `init`, `begin`, `send-offsets`, "
        "`commit`, `abort`; of a consumer `commit` alone",
        "OTel `messaging.client.operation.duration`",
        _CALL_BOUNDS,
    ),
    _of_client(
        "producer.io",
        "By",
        (*_OF_CLIENT, _TOPIC),
        "Bytes of staged files that were sent",
        "Kafka `byte-total`",
    ),
    _client("producer.buffer.used", "By", _OF_CLIENT, "Bytes that wait to be sent"),
    _client("producer.buffer.limit", "By", _OF_CLIENT, "`buffer.memory`", "Kafka `buffer-total-bytes`"),
    _of_client(
        "consumer.io",
        "By",
        (*_OF_CLIENT, _GROUP),
        "Stored bytes that were read",
        "Kafka `bytes-consumed-total`",
    ),
    _of_client(
        "consumer.corrupt_polls",
        "{poll}",
        (*_OF_CLIENT, _GROUP),
        "Polls that ended with `CORRUPT_RECORD`: a file is damaged",
    ),
    _client(
        "consumer.lag",
        "{offset}",
        (*_OF_CLIENT, _GROUP, _TOPIC, _PARTITION),
        "Offsets from the position to the end",
        "Kafka `records-lag`",
    ),
    _client(
        "consumer.assigned_partitions",
        "{partition}",
        (*_OF_CLIENT, _GROUP),
        "Partitions",
        "Kafka `assigned-partitions`",
    ),
    _of_client(
        "consumer.rebalances",
        "{rebalance}",
        (*_OF_CLIENT, _GROUP),
        "Generations synced to",
        "Kafka `rebalance-total`",
    ),
    _client(
        "consumer.poll.age",
        "s",
        (*_OF_CLIENT, _GROUP),
        "Time since the last poll",
        "Kafka `last-poll-seconds-ago`",
    ),
)


def _progress(name: str, kind: Kind, unit: str, meaning: str, like: str = "") -> Metric:
    return Metric(f"eoslog.streaming_query.{name}", kind, unit, (_QUERY,), Source.QUERY, meaning, like)


_OF_QUERIES = (
    _progress(
        "input.messages",
        Kind.COUNTER,
        "{message}",
        "Records of the query's micro-batches",
        "Spark `numInputRows`",
    ),
    _progress("input.io", Kind.COUNTER, "By", "Their bytes as stored, of logs that the listener was given"),
    _progress(
        "output.messages",
        Kind.COUNTER,
        "{message}",
        "Records that its micro-batches committed, in these logs",
    ),
    _progress("output.io", Kind.COUNTER, "By", "Their bytes as stored"),
    _progress("batch", Kind.GAUGE, "{batch}", "Number of the last micro-batch", "Spark `batchId`"),
    _progress("batch.duration", Kind.GAUGE, "s", "How long it took", "Spark `triggerExecution`"),
    _progress(
        "lag",
        Kind.GAUGE,
        "{offset}",
        "Offsets that the query was behind after it",
        "Spark `maxOffsetsBehindLatest`",
    ),
    _progress("corrupt", Kind.COUNTER, "{end}", "Its ends by `CORRUPT_RECORD`: a file is damaged"),
    _progress("lag.size", Kind.GAUGE, "By", "The same in bytes as stored, estimated"),
)

METRICS = {metric.name: metric for metric in (*_OF_LOGS, *_OF_STORES, *_OF_CLIENTS, *_OF_QUERIES)}
"""Every metric by name, in the order of the page."""
