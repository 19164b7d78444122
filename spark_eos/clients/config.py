"""Kafka's configuration keys, as far as they mean something here; every other key is an error."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from spark_eos.clients.durations import parse_duration_ms
from spark_eos.errors import ConfigError
from spark_eos.log.compression import LEVELS, level_setting
from spark_eos.log.stores import Settings, is_setting, split_settings
from spark_eos.protocol.assignors import ASSIGNORS

__all__ = [
    "BY_DURATION",
    "CONSUMER",
    "PRODUCER",
    "Key",
    "check_open_log",
    "consumer_config",
    "producer_config",
    "store_settings",
]

Parse = Callable[[str, object], Any]


class Key(NamedTuple):
    """A setting: what it is without being set, and how its text is read."""

    default: Any
    parse: Parse


def _integer(low: int, high: int = 2**63 - 1) -> Parse:
    def parse(name: str, value: object) -> int:
        try:
            number = int(str(value))
        except ValueError:
            number = low - 1
        if isinstance(value, bool) or not low <= number <= high:
            bounds = f"from {low} to {high}" if high < 2**31 else f"of at least {low}"
            raise ConfigError(f"{name} must be a whole number {bounds}, not {value!r}")
        return number

    return parse


def _boolean(name: str, value: object) -> bool:
    text = str(value).lower()
    if text not in {"true", "false"}:
        raise ConfigError(f"{name} must be true or false, not {value!r}")
    return text == "true"


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} must be text that is not empty, not {value!r}")
    return value


def _one_of(*choices: str) -> Parse:
    def parse(name: str, value: object) -> str:
        if str(value) not in choices:
            raise ConfigError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        return str(value)

    return parse


def _acks(name: str, value: object) -> str:
    if str(value) not in {"all", "-1"}:
        raise ConfigError(
            f"{name}={value!r}: an append is acknowledged when it is durable in the store, so acks is always all"
        )
    return "all"


def _one_request(name: str, value: object) -> int:
    if str(value) != "1":
        raise ConfigError(
            f"{name}={value!r}: a producer has one request at a time under way, so this is always 1; leave it out"
        )
    return 1


def _crcs(name: str, value: object) -> bool:
    if not _boolean(name, value):
        raise ConfigError(f"{name}=false: checksums are always checked; leave it out")
    return True


BY_DURATION = "by_duration:"
"""Before an ISO-8601 duration in ``auto.offset.reset`` (KIP-1106)."""


def _reset(name: str, value: object) -> str:
    text = str(value)
    if text.startswith(BY_DURATION):
        parse_duration_ms(name, text.removeprefix(BY_DURATION))
        return text
    if text not in {"earliest", "latest", "none"}:
        raise ConfigError(
            f"{name} must be earliest, latest, none or {BY_DURATION}<ISO-8601 duration>, not {value!r}"
        )
    return text


_ASSIGNOR_CLASSES = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}


def _assignors(name: str, value: object) -> tuple[str, ...]:
    parts = value if isinstance(value, (list, tuple)) else str(value).split(",")
    texts = [str(part).strip() for part in parts]
    chosen = [_ASSIGNOR_CLASSES.get(text, text) for text in texts]
    for text, assignor in zip(texts, chosen, strict=True):
        if assignor not in ASSIGNORS:
            raise ConfigError(f"{name}: unknown assignor {text!r}; known are {', '.join(ASSIGNORS)}")
    if not chosen or len(set(chosen)) < len(chosen):
        raise ConfigError(f"{name}={value!r}: name at least one assignor, and none twice")
    return tuple(chosen)


_INT = 2**31 - 1
_MAX_TIMEOUT_MS = 900_000

PRODUCER: dict[str, Key] = {
    "acks": Key("all", _acks),
    "auto.create.topics.enable": Key(True, _boolean),
    "batch.size": Key(16_384, _integer(0, _INT)),
    "buffer.memory": Key(33_554_432, _integer(1)),
    "client.id": Key("", _text),
    "compression.type": Key("none", _one_of("none", *LEVELS)),
    **{
        level_setting(codec): Key(levels.default, _integer(levels.lowest, levels.highest))
        for codec, levels in LEVELS.items()
    },
    "delivery.timeout.ms": Key(120_000, _integer(0, _INT)),
    "enable.idempotence": Key(True, _boolean),
    "linger.ms": Key(5, _integer(0)),
    "auto.maintenance.enable": Key(True, _boolean),
    "max.block.ms": Key(60_000, _integer(0)),
    "max.in.flight.requests.per.connection": Key(1, _one_request),
    "max.request.size": Key(1_048_576, _integer(1, _INT)),
    "num.partitions": Key(1, _integer(1, 100_000)),
    "partitioner.class": Key(None, _text),
    "retries": Key(_INT, _integer(1, _INT)),
    "transaction.timeout.ms": Key(60_000, _integer(1, _MAX_TIMEOUT_MS)),
    "transactional.id": Key(None, _text),
}

CONSUMER: dict[str, Key] = {
    "auto.commit.interval.ms": Key(5_000, _integer(0, _INT)),
    "auto.offset.reset": Key("latest", _reset),
    "check.crcs": Key(True, _crcs),
    "client.id": Key("", _text),
    "default.api.timeout.ms": Key(60_000, _integer(0, _INT)),
    "enable.auto.commit": Key(None, _boolean),
    "group.id": Key(None, _text),
    "group.instance.id": Key(None, _text),
    "heartbeat.interval.ms": Key(3_000, _integer(1, _INT)),
    "isolation.level": Key("read_uncommitted", _one_of("read_committed", "read_uncommitted")),
    "auto.maintenance.enable": Key(True, _boolean),
    "max.poll.interval.ms": Key(300_000, _integer(1, _INT)),
    "max.poll.records": Key(500, _integer(1, _INT)),
    "partition.assignment.strategy": Key(("range", "cooperative-sticky"), _assignors),
    "session.timeout.ms": Key(45_000, _integer(1, _INT)),
}


def producer_config(config: Mapping[str, object] | None) -> dict[str, Any]:
    """All settings of a producer. Raises `ConfigError` for an unknown key, a bad value or a contradiction."""
    settings = _parse("producer", config or {}, PRODUCER)
    if not settings["enable.idempotence"]:
        what = "transactional.id needs it" if settings["transactional.id"] else "it costs nothing here"
        raise ConfigError(f"enable.idempotence=false is not possible: {what}; leave it out")
    least = settings["linger.ms"]
    if settings["delivery.timeout.ms"] < least:
        raise ConfigError(
            f"delivery.timeout.ms={settings['delivery.timeout.ms']} is shorter than linger.ms={least}; raise it"
        )
    return settings


def consumer_config(config: Mapping[str, object] | None) -> dict[str, Any]:
    """All settings of a consumer. Raises `ConfigError` as `producer_config` does."""
    settings = _parse("consumer", config or {}, CONSUMER)
    group = settings["group.id"]
    if settings["enable.auto.commit"] is None:
        settings["enable.auto.commit"] = group is not None
    elif settings["enable.auto.commit"] and group is None:
        raise ConfigError("enable.auto.commit=true needs group.id: offsets are committed for a group")
    if settings["group.instance.id"] is not None and group is None:
        raise ConfigError("group.instance.id needs group.id: it is the name of a member of a group")
    if settings["heartbeat.interval.ms"] >= settings["session.timeout.ms"]:
        raise ConfigError(
            f"heartbeat.interval.ms={settings['heartbeat.interval.ms']} must be less than "
            f"session.timeout.ms={settings['session.timeout.ms']}: a third of it is usual"
        )
    return settings


def store_settings(config: Mapping[str, object] | None) -> Settings:
    """The settings of an object store (``s3.…``, ``adls.…``, ``gcs.…``) among those of a client."""
    return split_settings(config or {})[1]


def check_open_log(config: Mapping[str, object] | None) -> None:
    """Raise `ConfigError` for settings of how a log is opened: the client was given one that is open."""
    given = [name for name in config or {} if name == "max.block.ms" or is_setting(str(name))]
    if given:
        raise ConfigError(
            f"{given[0]} says how a log is opened, but this client was given an open Log: leave it out, or give "
            "the URL in place of the Log"
        )


def _parse(client: str, config: Mapping[str, object], keys: Mapping[str, Key]) -> dict[str, Any]:
    settings = {name: key.default for name, key in keys.items()}
    for name, value in config.items():
        if is_setting(str(name)):
            continue  # The store's, see `store_settings`.
        if name not in keys:
            near = difflib.get_close_matches(str(name), keys, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(keys)}"
            raise ConfigError(f"unknown {client} setting {name!r}; {hint}")
        settings[name] = keys[name].parse(name, value)
    return settings
