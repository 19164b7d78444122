"""Options of a consumer. All but ``auto.maintenance.enable`` are Kafka's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from spark_eos.config.durations import parse_duration_ms
from spark_eos.config.isolation import Isolation
from spark_eos.config.kafka.registry import registry_options
from spark_eos.config.kafka.transport import USED_IN, client_settings, kafka_options
from spark_eos.config.option import Option, Table
from spark_eos.config.values import (
    MAX_INT,
    Boolean,
    Code,
    Fixed,
    Integer,
    Member,
    NotAllowedError,
    Text,
    ValueType,
)
from spark_eos.errors import ConfigError

ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
"""By its name in the log, the class that has that name in Kafka; both are taken."""

_Word = Literal["earliest", "latest", "none"]
_BY_DURATION = "by_duration:"


class OffsetReset(NamedTuple):
    """Where a consumer without an offset begins. ``ago_ms`` is for ``by_duration`` (KIP-1106)."""

    strategy: _Word | Literal["by_duration"]
    ago_ms: int = 0


class _OffsetResets(ValueType[OffsetReset]):
    allowed = f"earliest, latest, none or {_BY_DURATION}<ISO-8601 duration>"

    def parse(self, value: object) -> OffsetReset:
        text = str(value)
        if text.startswith(_BY_DURATION):
            return OffsetReset("by_duration", parse_duration_ms(text.removeprefix(_BY_DURATION)))
        for word in get_args(_Word):
            if text == word:
                return OffsetReset(word)
        raise ValueError

    def show(self, value: OffsetReset) -> str:
        return value.strategy


class _Timeout(ValueType[float]):
    """Milliseconds; kafka-python and Kafka's old consumer have two words for no end."""

    allowed = f"a whole number from 0 to {MAX_INT}, -1 or inf"

    def parse(self, value: object) -> float:
        if str(value) in {"-1", "inf"}:
            return math.inf
        return Integer(0, MAX_INT).parse(value)


class _Assignors(ValueType[tuple[str, ...]]):
    allowed = f"names of assignors, separated by commas; known are {', '.join(ASSIGNORS)}"

    def parse(self, value: object) -> tuple[str, ...]:
        parts = value if isinstance(value, (list, tuple)) else str(value).split(",")
        names = {kafkas: name for name, kafkas in ASSIGNORS.items()}
        texts = [str(part).strip() for part in parts]
        assignors = [names.get(text, text) for text in texts]
        for text, assignor in zip(texts, assignors, strict=True):
            if assignor not in ASSIGNORS:
                raise NotAllowedError(f"{text!r} is none")
        if not assignors or len(set(assignors)) < len(assignors):
            raise NotAllowedError("name at least one assignor, and none twice")
        return tuple(assignors)

    def show(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


_CONSUMER = "clients/consumer/base.py"
_OFFSETS = "clients/consumer/offset_manager.py"
_GROUP = "clients/consumer/group.py"
_HEARTBEAT = "clients/consumer/heartbeat.py"

CONSUMER = Table(
    "consumer setting",
    Option(
        "auto.commit.interval.ms",
        Integer(0, MAX_INT),
        5_000,
        "How often positions are committed, with `enable.auto.commit`.",
        _OFFSETS,
    ),
    Option(
        "auto.maintenance.enable",
        Boolean(),
        True,
        "Whether this client does its share of the log's maintenance after its commits.",
        _CONSUMER,
        "eoslog",
    ),
    Option(
        "auto.offset.reset",
        _OffsetResets(),
        OffsetReset("latest"),
        "Where reading begins if nothing is committed: the first record, the end, an error, or so long ago. "
        "With `latest`, partitions that are created later are read from their start.",
        _OFFSETS,
    ),
    Option(
        "check.crcs",
        Fixed(True, ("true",), "checksums are always checked"),
        True,
        "Only `true` is possible: checksums are always checked.",
    ),
    Option(
        "client.id",
        Text(is_verbatim=True),
        "",
        "The name under which the log records who committed, and part of the member's id.",
        _GROUP,
    ),
    Option(
        "consumer.timeout.ms",
        _Timeout(),
        math.inf,
        "Iteration over a consumer ends if no record comes for so long; `-1` or `inf`: it waits for ever.",
        "clients/consumer/consumer.py",
    ),
    Option(
        "default.api.timeout.ms",
        Integer(0, MAX_INT),
        60_000,
        "How long `committed` waits for the end of transactions that carry offsets of the group.",
        _OFFSETS,
    ),
    Option(
        "enable.auto.commit",
        Boolean(),
        None,
        "Whether `poll` and `close` commit the positions. Needs `group.id`.",
        _OFFSETS,
        default_text="`true` with a `group.id`, else `false`",
    ),
    Option(
        "group.id",
        Text(is_verbatim=True),
        None,
        "The group whose offsets are committed, and which `subscribe` joins.",
        _GROUP,
    ),
    Option(
        "group.instance.id",
        Text(is_verbatim=True),
        None,
        "The name of a static member, which keeps its partitions over a restart. Needs `group.id`.",
        _GROUP,
    ),
    Option(
        "heartbeat.interval.ms",
        Integer(1, MAX_INT),
        3_000,
        "How often a member shows that it is alive. Less than `session.timeout.ms`.",
        _HEARTBEAT,
    ),
    Option(
        "isolation.level",
        Member(Isolation),
        Isolation.READ_UNCOMMITTED,
        "Whether records of open and aborted transactions are read.",
        _CONSUMER,
    ),
    kafka_options(USED_IN),
    Option(
        "key.deserializer",
        Code("deserialize"),
        None,
        "Makes the key of a record from its bytes ([forms](clients.md#serializers)).",
        _CONSUMER,
    ),
    Option(
        "max.poll.interval.ms",
        Integer(1, MAX_INT),
        300_000,
        "A member that does not call `poll` for so long leaves its group.",
        _HEARTBEAT,
    ),
    Option(
        "max.poll.records",
        Integer(1, MAX_INT),
        500,
        "The largest number of records that one `poll` returns.",
        "clients/consumer/consumer.py",
    ),
    Option(
        "partition.assignment.strategy",
        _Assignors(),
        ("range", "cooperative-sticky"),
        "How the group shares its partitions out; the first one that all members name is used.",
        _GROUP,
    ),
    *registry_options("clients/consumer/consumer.py"),
    Option(
        "session.timeout.ms",
        Integer(1, MAX_INT),
        45_000,
        "A member that shows no sign of life for so long is removed from its group.",
        _GROUP,
    ),
    Option(
        "value.deserializer",
        Code("deserialize"),
        None,
        "Makes the value of a record from its bytes ([forms](clients.md#serializers)).",
        _CONSUMER,
    ),
)


def consumer_config(config: Mapping[str, object]) -> dict[str, Any]:
    """All settings of a consumer. Raises `ConfigError` with all unknown keys, bad values and contradictions."""
    from spark_eos.config.producer import PRODUCER

    reader, problems = client_settings(CONSUMER, PRODUCER, config)
    settings = reader.values
    has_group = "group.id" in reader
    if "enable.auto.commit" not in reader:
        settings["enable.auto.commit"] = has_group
    for name, why in (
        ("enable.auto.commit", "offsets are committed for a group"),
        ("group.instance.id", "it is the name of a member of a group"),
    ):
        if settings[name] and not has_group:
            shown = "true" if settings[name] is True else repr(settings[name])
            problems.add(name, f"consumer setting {name}={shown} needs group.id: {why}")
    with problems.about("heartbeat.interval.ms", "session.timeout.ms"):
        if settings["heartbeat.interval.ms"] >= settings["session.timeout.ms"]:
            raise ConfigError(
                f"consumer setting heartbeat.interval.ms={settings['heartbeat.interval.ms']} must be less than "
                f"session.timeout.ms={settings['session.timeout.ms']}: a third of it is usual"
            )
    problems.check()
    return settings
