"""Kafka's settings by name: those of its transport, which nothing here needs, and those that have another answer.

Names are those of Kafka's Java clients, of librdkafka (confluent-kafka) and of kafka-python, which writes them with
underscores. A name that has a row in a table of options is looked up there, not here.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple


class KafkaName(NamedTuple):
    """What is known of a name. ``is_transport``: without it the same records are read and written."""

    why: str
    is_transport: bool


_BROKER = "there is no broker: the path is the log"
_CONNECTIONS = (
    "there are no connections to brokers; the store has its own settings, such as s3.request-timeout"
)
_SECURITY = (
    "the store decides who may read and write: its credentials are the options s3.*, adls.* and gcs.*, "
    "the environment or a profile"
)
_FETCH = "nothing is fetched from a broker: files are read, in the pieces in which they were written"
_MEMBERS = (
    "no broker has members to watch: Spark plans which task reads what, and a consumer's group is in the log"
)
_PREFIX = "no consumer group is made up; give group.id if you want one"
_SENDING = "nothing is sent to a broker: rows are written into files, and one entry commits them"
_DURABLE = "a commit is durable and is made once, as with acks=all and enable.idempotence=true"
_WATCHING = (
    "no client of Kafka runs that could report or log; the query's progress and `eoslog` show what happens"
)

TRANSPORT: dict[str, tuple[str, ...]] = {
    _BROKER: ("bootstrap.servers", "metadata.broker.list"),
    _CONNECTIONS: (
        *("client.dns.lookup", "client.rack", "connections.max.idle.ms", "receive.buffer.bytes"),
        *("send.buffer.bytes", "request.timeout.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        *("retry.backoff.ms", "retry.backoff.max.ms", "metadata.max.age.ms", "metadata.max.idle.ms"),
        *("metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms", "default.api.timeout.ms"),
        *("max.block.ms", "max.in.flight.requests.per.connection", "topic.metadata.refresh.interval.ms"),
        *("topic.metadata.refresh.sparse", "topic.metadata.propagation.max.ms", "allow.latest.stable.broker"),
        *("api.version", "bootstrap.timeout.ms", "kafka.client", "proxy.url", "socks5.proxy"),
        *("fetchoffset.numretries", "fetchoffset.retryintervalms", "kafkaconsumer.polltimeoutms", "selector"),
        *("api.version", "kafka.client", "sock.chunk.bytes", "socks5.proxy", "wakeup.timeout.ms"),
    ),
    _SECURITY: ("security.protocol", "security.providers", "enable.ssl.certificate.verification"),
    _FETCH: (
        *("fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "max.partition.fetch.bytes"),
        *("max.poll.records", "fetch.wait.max.ms", "fetch.message.max.bytes", "fetch.error.backoff.ms"),
        *("fetch.queue.backoff.ms", "queued.min.messages", "queued.max.messages.kbytes", "check.crcs"),
        *("receive.message.max.bytes", "enable.incremental.fetch.sessions"),
    ),
    _MEMBERS: (
        *("group.instance.id", "group.protocol", "group.remote.assignor"),
        *("heartbeat.interval.ms", "session.timeout.ms", "max.poll.interval.ms", "auto.commit.interval.ms"),
        *("partition.assignment.strategy", "coordinator.query.interval.ms"),
    ),
    _PREFIX: ("groupidprefix",),
    _SENDING: (
        *("batch.size", "buffer.memory", "linger.ms", "retries", "delivery.timeout.ms"),
        *("batch.num.messages", "queue.buffering.max.messages", "queue.buffering.max.kbytes"),
        *("queue.buffering.backpressure.threshold", "sticky.partitioning.linger.ms"),
        *("partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms"),
    ),
    _DURABLE: ("acks", "enable.idempotence", "transaction.timeout.ms"),
    _WATCHING: (
        *(
            "client.id",
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.enabled",
            "metric.group.prefix",
        ),
        *("metrics.sample.window.ms", "auto.include.jmx.reporter", "enable.metrics.push", "debug", "logger"),
        *("log.level", "log.queue", "log.thread.name", "log.connection.close", "statistics.interval.ms"),
        *("error.cb", "stats.cb", "throttle.cb", "log.cb"),
    ),
}
"""Settings of the transport, by why nothing needs them. `kafka.options=ignore` drops them."""

PREFIXES = {
    "sasl.": _SECURITY,
    "ssl.": _SECURITY,
    "socket.": _CONNECTIONS,
    "api.version.": _CONNECTIONS,
    "broker.": _CONNECTIONS,
}
"""All names that begin so are settings of the transport, too."""

RENAMED = {
    "auto.commit.enable": "enable.auto.commit",
    "compression.codec": "compression.type",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
}
"""librdkafka's other names of settings, by Kafka's."""

_BYTES = "key and value are bytes: use functions of the DataFrame, such as cast, from_json and to_json"
_NO_HOOKS = "nothing is called between a record and the log: change records in the program"
_RECORD_SIZE = "the largest record is that of the topic: set max.message.bytes there"
_REPLICAS = "the store replicates its files; leave it out"
_FILES = "files have another form here; leave it out"
_FLUSHED = "each commit is durable; leave it out"
_LEVEL = "there is no {} here; choose lz4 or zstd with compression.type, and its level"

REPLACED: dict[str, str] = {
    "allow.auto.create.topics": "reading never creates a topic; auto.create.topics.enable is for writing. Leave it out",
    "auto.offset.reset": "where reading starts is decided by startingOffsets (and failOnDataLoss)",
    "compression.gzip.level": _LEVEL.format("gzip"),
    "compression.level": "each codec has its own: compression.lz4.level or compression.zstd.level",
    "enable.auto.commit": "Spark keeps the offsets of a query in its checkpoint, and the sink commits them with its "
    "output; leave it out",
    "enable.auto.offset.store": "the position after the records that poll returned is committed: set "
    "enable.auto.commit=false and call commit with the offsets to choose others",
    "enable.partition.eof": "poll returns no records at the end of a partition, and no event; leave it out",
    "exclude.internal.topics": "a log has no internal topics; leave it out",
    "flush.messages": _FLUSHED,
    "flush.ms": _FLUSHED,
    "index.interval.bytes": _FILES,
    "interceptor.classes": _NO_HOOKS,
    "interceptors": _NO_HOOKS,
    "key.deserializer": _BYTES,
    "key.serializer": _BYTES,
    "max.compaction.lag.ms": "maintenance compacts by min.cleanable.dirty.ratio and, at the latest, segment.ms",
    "message.downconversion.enable": _FILES,
    "message.format.version": _FILES,
    "message.max.bytes": _RECORD_SIZE,
    "min.insync.replicas": _REPLICAS,
    "partitioner": "the key's hash decides, by murmur2 as in Kafka's Java clients; partitioner.class takes another "
    "function, as module:callable",
    "partitioner.ignore.keys": "rows without a key are spread, those with one go by its hash; partitioner.class takes "
    "another function, as module:callable",
    "paths": "one source or sink has one log: give one path, and union the DataFrames of several logs",
    "preallocate": _FILES,
    "replication.factor": _REPLICAS,
    "segment.index.bytes": _FILES,
    "segment.jitter.ms": _FILES,
    "transaction.two.phase.commit.enable": "rows and offsets are in one entry: there is one phase. Leave it out",
    "unclean.leader.election.enable": _REPLICAS,
    "value.deserializer": _BYTES,
    "value.serializer": _BYTES,
}
"""Settings that change what is read or written, or where reading begins, and what to do instead. None is dropped."""

_REASONS = {name: why for why, names in TRANSPORT.items() for name in names}


def kafka_name(name: str, own_names: Container[str] = ()) -> KafkaName | None:
    """What is known of a name, whatever its case and with underscores or dots; None if it is not one of Kafka's.

    ``own_names`` has the names that there are rows for: a setting that has one of those under another name is no
    transport.
    """
    plain = name.lower().replace("_", ".")
    renamed = RENAMED.get(plain, plain)
    if renamed != name and renamed in own_names:
        return KafkaName(f"its name here is {renamed}", is_transport=False)
    if renamed in _REASONS:
        return KafkaName(_REASONS[renamed], is_transport=True)
    for prefix, why in PREFIXES.items():
        if renamed.startswith(prefix):
            return KafkaName(why, is_transport=True)
    instead = REPLACED.get(renamed)
    return None if instead is None else KafkaName(instead, is_transport=False)
