"""The tables of docs/guide/coming-from-kafka.md: ``scripts/generate`` writes them.

A row is an option of Spark's Kafka connector, or a setting of Kafka's clients, with a value. What the page says of it
is what comes of giving it to a source, a sink or a client. A table stands between ``<!-- kafka: KIND -->`` and
``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from spark_eos.config.consumer import CONSUMER, consumer_config
from spark_eos.config.kafka.names import PREFIXES, RENAMED, kafka_name
from spark_eos.config.kafka.transport import KAFKA_OPTIONS
from spark_eos.config.option import Use
from spark_eos.config.producer import PRODUCER, producer_config
from spark_eos.config.sink import SINK
from spark_eos.config.source import SOURCE
from spark_eos.errors import ConfigError
from spark_eos.spark.options import parse_sink, parse_source

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "coming-from-kafka.md"


def _names(words: str) -> list[str]:
    return words.split()


# -- what Kafka has: by the sources of Spark 4.2's connector and of kafka-clients 3.9.2 -----------------------

SOURCE_OPTIONS = {
    "kafka.bootstrap.servers": "broker:9092",
    "assign": '{"src": [0]}',
    "subscribe": "src",
    "subscribePattern": "sr.*",
    "startingOffsets": "earliest",
    "startingOffsetsByTimestamp": '{"src": {"0": 0}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "startingTimestamp": "0",
    "endingOffsets": "latest",
    "endingOffsetsByTimestamp": '{"src": {"0": 4102444800000}}',
    "endingTimestamp": "4102444800000",
    "failOnDataLoss": "false",
    "maxOffsetsPerTrigger": "1000",
    "minOffsetsPerTrigger": "5",
    "maxTriggerDelay": "10m",
    "minPartitions": "4",
    "maxRecordsPerPartition": "3",
    "includeHeaders": "true",
    "groupIdPrefix": "team",
    "fetchOffset.numRetries": "3",
    "fetchOffset.retryIntervalMs": "10",
    "kafkaConsumer.pollTimeoutMs": "120000",
}
NEEDS = {
    "maxTriggerDelay": {"minOffsetsPerTrigger": "5"},
    "startingOffsetsByTimestampStrategy": {"startingTimestamp": "0"},
}
"""Options that mean nothing without another one."""

BATCHES = {("batch source", "group.id"): {"startingOffsets": "committed", "kafka.group.id": "batch"}}
CHOICES = ("subscribe", "subscribePattern", "assign")
SINK_OPTIONS = {
    "kafka.bootstrap.servers": "broker:9092",
    "topic": "out",
    "includeHeaders": "false",
}
_BOTH = _names("""bootstrap.servers client.dns.lookup client.id connections.max.idle.ms enable.metrics.push
auto.include.jmx.reporter interceptor.classes metadata.max.age.ms metadata.recovery.strategy metric.reporters
metrics.num.samples metrics.recording.level metrics.sample.window.ms receive.buffer.bytes reconnect.backoff.max.ms
reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms retry.backoff.ms send.buffer.bytes
socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms security.protocol security.providers
sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism sasl.oauthbearer.clock.skew.seconds
sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
ssl.truststore.type""")
OF_CONSUMERS = sorted(
    _names("""allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack
default.api.timeout.ms enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes
group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms isolation.level
key.deserializer max.partition.fetch.bytes max.poll.interval.ms max.poll.records partition.assignment.strategy
session.timeout.ms value.deserializer""")
    + _BOTH
)
OF_PRODUCERS = sorted(
    _names("""acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
compression.zstd.level delivery.timeout.ms enable.idempotence key.serializer linger.ms max.block.ms
max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms
partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
partitioner.ignore.keys retries transaction.timeout.ms transactional.id value.serializer""")
    + _BOTH
)
OF_LIBRDKAFKA = sorted(
    _names("""metadata.broker.list message.timeout.ms queue.buffering.max.ms queue.buffering.max.messages
queue.buffering.max.kbytes batch.num.messages message.send.max.retries compression.codec compression.level
request.required.acks max.in.flight message.max.bytes auto.commit.enable enable.auto.offset.store
enable.partition.eof fetch.message.max.bytes fetch.wait.max.ms queued.min.messages queued.max.messages.kbytes
partitioner statistics.interval.ms error_cb stats_cb debug log_level logger socket.keepalive.enable
socket.timeout.ms broker.address.family api.version.request topic.metadata.refresh.interval.ms sasl.mechanisms
sasl.username sasl.password ssl.ca.location""")
)
VALUES = {
    "acks": "all",
    "auto.offset.reset": "earliest",
    "check.crcs": "true",
    "client.id": "me",
    "compression.type": "zstd",
    "enable.auto.commit": "false",
    "group.id": "team",
    "group.instance.id": "one",
    "isolation.level": "read_committed",
    "key.deserializer": bytes,
    "key.serializer": bytes,
    "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
    "transactional.id": "app",
    "value.deserializer": bytes,
    "value.serializer": bytes,
    "max.in.flight.requests.per.connection": "5",
}
"""A value of a setting. Of others it is the default here, or 1."""

FURTHER = (
    ("compression.type", "gzip"),
    ("compression.type", "snappy"),
    ("acks", "1"),
)
"""Other values, of producers."""

CLIENTS_NEED = {
    "enable.auto.commit": {"group.id": "team"},
    "group.instance.id": {"group.id": "team"},
    "compression.lz4.level": {"compression.type": "lz4"},
    "compression.zstd.level": {"compression.type": "zstd"},
}

NOTES = {
    (
        "source",
        "kafka.isolation.level",
    ): "The default is `read_committed`; Spark's connector has `read_uncommitted`.",
    ("source", "kafka.group.id"): "In batches with `startingOffsets=committed` alone.",
    ("source", "kafka.bootstrap.servers"): "`.load(path)` names the log.",
    ("sink", "kafka.bootstrap.servers"): "`.start(path)` and `.save(path)` name the log.",
    ("sink", "kafka.transactional.id"): "The sink is exactly once with it and without it.",
}


class Answer(NamedTuple):
    """What comes of an option: ``same``, ``other name``, ``not needed`` or ``refused``, and what there is to say."""

    verdict: str
    what: str


SAME, OTHER, NOT_NEEDED, REFUSED = "same", "other name", "not needed", "refused"

Run = Callable[[dict[str, object]], object]


def answer(name: str, given: dict[str, object], run: Run) -> Answer:
    """What comes of options, of which ``name`` is looked at (``name=value``, too), where ``run`` takes them."""
    name = name.partition("=")[0]
    ignoring = {**given, KAFKA_OPTIONS: "ignore"}
    try:
        run(given)
    except ConfigError as error:
        text = str(error)
    else:
        return Answer(SAME, "")
    try:
        run(ignoring)
    except ConfigError:
        plain = name.removeprefix("kafka.")
        renamed = re.search(r"its name here is (.+)$", text)
        if renamed is None:
            return Answer(REFUSED, _reason(text))
        return Answer(OTHER, f"`{renamed[1]}`") if plain in RENAMED else Answer(REFUSED, _reason(text))
    of_kafka = kafka_name(name.removeprefix("kafka."))
    assert of_kafka is None or of_kafka.is_transport
    return Answer(NOT_NEEDED, _reason(text) if of_kafka is None else of_kafka.why)


def _reason(text: str) -> str:
    """What the error says after the name of the option."""
    found = re.search(r"(?:is not one of eoslog: |: expected |belongs to |: )(.*)$", text, re.DOTALL)
    assert found is not None, text
    if ": expected " in text:
        return f"expected {found[1]}"
    return f"belongs to {found[1]}" if "belongs to" in text else found[1]


# -- what is looked at ----------------------------------------------------------------------------------------


def of_spark(use: Use) -> Iterator[tuple[str, dict[str, object]]]:
    """Each option of Spark's connector in this use, with prefix, and the options to give, without the path."""
    if use.endswith("source"):
        for name, value in SOURCE_OPTIONS.items():
            base = {} if name in CHOICES else {"subscribe": "src"}
            yield name, {**base, **NEEDS.get(name, {}), name: value}
        for name in OF_CONSUMERS:
            if name != "bootstrap.servers":
                own = BATCHES.get((use, name), {})
                yield f"kafka.{name}", {"subscribe": "src", f"kafka.{name}": _value(name), **own}
        return
    base = {"topic": "out"}
    for name, value in SINK_OPTIONS.items():
        yield name, {**base, name: value}
    for name in OF_PRODUCERS:
        if name != "bootstrap.servers":
            more = {
                key.replace("compression", "kafka.compression"): text
                for key, text in CLIENTS_NEED.get(name, {}).items()
            }
            yield f"kafka.{name}", {**base, **more, f"kafka.{name}": _value(name)}
    for name, other in FURTHER:
        yield f"kafka.{name}={other}", {**base, f"kafka.{name}": other}


def _value(name: str) -> str:
    value = VALUES.get(name)
    if value is None:
        row = PRODUCER.get(name, CONSUMER.get(name))
        value = row.shown_default if row is not None and row.default not in (None, "") else "1"
    return value if isinstance(value, str) else "org.apache.kafka.common.serialization.StringDeserializer"


def parsed(use: Use) -> Run:
    """Reads the options of a use."""

    def run(given: dict[str, object]) -> object:
        options = {"path": "/log", **{name: str(value) for name, value in given.items()}}
        if use.endswith("source"):
            return parse_source(options, streaming=use == "stream source")
        if use == "stream sink":
            options = {"checkpointLocation": "/checkpoint", **options}
        return parse_sink(options, streaming=use == "stream sink")

    return run


def of_clients() -> Iterator[tuple[str, dict[str, object], dict[str, object]]]:
    """Each setting of Kafka's clients, and what to give to a producer and to a consumer."""
    for name in sorted({*OF_PRODUCERS, *OF_CONSUMERS, *OF_LIBRDKAFKA}):
        value = VALUES.get(name, _value(RENAMED.get(name, name)))
        given = {**CLIENTS_NEED.get(name, {}), name: value}
        to_producer = {key: text for key, text in given.items() if key == name or key in PRODUCER}
        yield name, to_producer, {key: text for key, text in given.items() if key == name or key in CONSUMER}
    for name, other in FURTHER:
        yield f"{name}={other}", {name: other}, {name: other}


# -- the page -------------------------------------------------------------------------------------------------


def _row(kind: str, name: str, cells: list[Answer], doc: str) -> tuple[str, str]:
    """What stands in the row beside its name. ``doc``: of the row of the option, if there is one."""
    what = doc or next((cell.what for cell in cells if cell.what), "")
    what = what[:1].upper() + what[1:]
    text = f"{what.rstrip('.')}. {NOTES.get((kind, name), '')}".strip().replace(
        "(clients.md", "(../reference/clients.md"
    )
    return " | ".join(cell.verdict for cell in cells), text.replace("|", "\\|").replace("<", "&lt;")


def _grouped(rows: dict[str, tuple[str, str]]) -> Iterator[str]:
    """The lines of a table. Names that begin alike and have the same answer share a line: ``kafka.ssl.*``."""
    lines: dict[tuple[str, str], list[str]] = {}
    for name, answer_ in rows.items():
        family = next((p for p in PREFIXES if name.removeprefix("kafka.").startswith(p)), None)
        prefix = "kafka." if name.startswith("kafka.") else ""
        shown = f"`{name}`" if family is None else f"`{prefix}{family}*`"
        names = lines.setdefault(answer_, [])
        if shown not in names:
            names.append(shown)
    for (verdicts, text), names in lines.items():
        yield f"| {', '.join(names)} | {verdicts} | {text} |"


def _spark_table(kind: str, uses: tuple[Use, Use]) -> list[str]:
    table = SOURCE if kind == "source" else SINK
    rows = {}
    found = {use: dict(of_spark(use)) for use in uses}
    for name in found[uses[0]]:
        cells = [answer(name, found[use][name], parsed(use)) for use in uses]
        row = next(
            (row for row in table.values() if row.name.lower() == name.lower().removeprefix("kafka.")), None
        )
        rows[name] = _row(
            kind, name, cells, "" if row is None or all(c.verdict != SAME for c in cells) else row.doc
        )
    return ["| Spark's connector | streams | batches | here |", "|---|---|---|---|", *_grouped(rows)]


def _clients_table() -> list[str]:
    rows = {}
    for name, producers, consumers in of_clients():
        cells = [
            answer(name, producers, producer_config),
            answer(name, consumers, consumer_config),
        ]
        row = next(
            (
                t[name]
                for t, cell in zip((PRODUCER, CONSUMER), cells, strict=True)
                if cell.verdict == SAME and name in t
            ),
            None,
        )
        rows[name] = _row("clients", name, cells, "" if row is None else row.doc)
    return ["| Kafka's clients | `Producer` | `Consumer` | here |", "|---|---|---|---|", *_grouped(rows)]


TABLES: dict[str, Callable[[], list[str]]] = {
    "source": lambda: _spark_table("source", ("stream source", "batch source")),
    "sink": lambda: _spark_table("sink", ("stream sink", "batch sink")),
    "clients": _clients_table,
}
_TABLE = re.compile(r"<!-- kafka: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def kinds(text: str) -> list[str]:
    """The tables that the page has."""
    return [found[1] for found in _TABLE.finditer(text)]


def page(text: str) -> str:
    """The page with its tables as they are now."""
    return _TABLE.sub(
        lambda at: "\n".join([f"<!-- kafka: {at[1]} -->", *TABLES[at[1]](), "<!-- end -->"]), text
    )
