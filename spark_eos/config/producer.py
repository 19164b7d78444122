"""Options of a producer. All but ``auto.maintenance.enable`` are Kafka's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_eos.config.compression import AUTO, Codec, level_options
from spark_eos.config.kafka.transport import USED_IN, client_settings, kafka_options
from spark_eos.config.option import Option, Table
from spark_eos.config.values import MAX_INT, Boolean, Callable, Code, Fixed, Integer, Text
from spark_eos.errors import ConfigError

_MAX_TIMEOUT_MS = 900_000

_PRODUCER = "clients/producer/base.py"
_SENDER = "clients/producer/sender.py"
_TRANSACTIONS = "clients/producer/transaction_manager.py"
_TWO_PHASE = "clients/producer/two_phase.py"

PRODUCER = Table(
    "producer setting",
    Option(
        "acks",
        Fixed("all", ("all", "-1"), "acks is always all: an append is acknowledged when the store has it"),
        "all",
        "Only `all` is possible: an append is acknowledged when it is durable in the store.",
    ),
    Option(
        "auto.create.topics.enable",
        Boolean(),
        True,
        "Whether a log and a topic that are missing are created by the first record.",
        _PRODUCER,
    ),
    Option(
        "auto.maintenance.enable",
        Boolean(),
        True,
        "Whether this client does its share of the log's maintenance after its commits.",
        _PRODUCER,
        "eoslog",
    ),
    Option(
        "batch.size",
        Integer(0, MAX_INT),
        16_384,
        "Once so many bytes wait, they are sent without waiting for `linger.ms`.",
        _PRODUCER,
    ),
    Option(
        "buffer.memory",
        Integer(1),
        33_554_432,
        "Bytes of records in memory; beyond it `send` waits, and rows of a transaction go to staged files.",
        _PRODUCER,
    ),
    Option(
        "client.id",
        Text(is_verbatim=True),
        "",
        "The name under which the log records who wrote an entry.",
        _SENDER,
    ),
    Option(
        "compression.type",
        Codec(),
        AUTO,
        "How records are compressed, unless `compression.type` of the topic says otherwise; `auto`: by zstd, where the "
        "first of a file show that it pays.",
        _PRODUCER,
    ),
    *level_options(_PRODUCER),
    Option(
        "delivery.timeout.ms",
        Integer(0, MAX_INT),
        120_000,
        "How long sending a record is tried again before its future fails. Not shorter than `linger.ms`.",
        _SENDER,
    ),
    Option(
        "enable.idempotence",
        Fixed(True, ("true",), "it costs nothing here, and transactional.id needs it"),
        True,
        "Only `true` is possible: a record that is sent again is never doubled.",
    ),
    kafka_options(USED_IN),
    Option(
        "key.serializer",
        Code("serialize"),
        None,
        "Makes the bytes of a key from what `send` is given ([forms](clients.md#serializers)).",
        _PRODUCER,
    ),
    Option(
        "linger.ms",
        Integer(0),
        5,
        "How long a record waits for others that go in the same entry.",
        _SENDER,
    ),
    Option(
        "max.block.ms",
        Integer(0),
        60_000,
        "How long opening the log is tried again while the store does not answer.",
        _PRODUCER,
    ),
    Option(
        "max.in.flight.requests.per.connection",
        Fixed(1, ("1",), "a producer has one request at a time under way"),
        1,
        "Only `1` is possible: a producer has one request at a time under way.",
    ),
    Option(
        "max.request.size",
        Integer(1, MAX_INT),
        1_048_576,
        "A record, or a row of `send_arrow`, of more bytes is refused (`RecordTooLargeError`): its key, value and "
        "headers, or all its columns, count.",
        _PRODUCER,
    ),
    Option(
        "num.partitions",
        Integer(1, 100_000),
        1,
        "Partitions of a topic that this producer creates.",
        _PRODUCER,
    ),
    Option(
        "partitioner.class",
        Callable(is_verbatim=True),
        None,
        "`module:callable`, given a batch and the number of partitions; without it Kafka's hash of the key decides.",
        _PRODUCER,
    ),
    Option(
        "retries",
        Integer(1, MAX_INT),
        MAX_INT,
        "How often sending a record is tried, within `delivery.timeout.ms`.",
        _SENDER,
    ),
    Option(
        "transaction.timeout.ms",
        Integer(1, _MAX_TIMEOUT_MS),
        60_000,
        "After so long an open transaction is aborted by any process that uses the log.",
        _TRANSACTIONS,
    ),
    Option(
        "transaction.two.phase.commit.enable",
        Boolean(),
        False,
        "Whether this producer may prepare transactions, which then have no timeout "
        "([prepared transactions](../guide/prepared-transactions.md)).",
        _TWO_PHASE,
    ),
    Option(
        "transactional.id",
        Text(is_verbatim=True),
        None,
        "The name of a producer with transactions; a newer producer of that name fences the older one.",
        _TRANSACTIONS,
    ),
    Option(
        "value.serializer",
        Code("serialize"),
        None,
        "Makes the bytes of a value from what `send` is given ([forms](clients.md#serializers)).",
        _PRODUCER,
    ),
)


def producer_config(config: Mapping[str, object]) -> dict[str, Any]:
    """All settings of a producer. Raises `ConfigError` with all unknown keys, bad values and contradictions."""
    from spark_eos.config.consumer import CONSUMER

    reader, problems = client_settings(PRODUCER, CONSUMER, config)
    settings = reader.values
    with problems.about("delivery.timeout.ms", "linger.ms"):
        if settings["delivery.timeout.ms"] < settings["linger.ms"]:
            raise ConfigError(
                f"producer setting delivery.timeout.ms={settings['delivery.timeout.ms']} is shorter than "
                f"linger.ms={settings['linger.ms']}; raise it"
            )
    problems.check()
    return settings
