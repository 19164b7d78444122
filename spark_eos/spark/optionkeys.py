"""Which options there are, whose they are, and how their values are read.

Spark hands over option keys in lower case; messages give them in their proper spelling.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from spark_eos.errors import ConfigError

__all__ = ["SPELLINGS", "OptionReader", "Use", "expected", "is_known_to", "of_table"]

Use: TypeAlias = Literal["source", "stream source", "batch source", "stream sink", "batch sink"]
"""A ``source`` is a stream's or a batch's: which, is not known yet."""

_SOURCES: frozenset[Use] = frozenset({"source", "stream source", "batch source"})
_SINKS: frozenset[Use] = frozenset({"stream sink", "batch sink"})
_STREAM_SOURCE: frozenset[Use] = frozenset({"source", "stream source"})
_BATCH_SOURCE: frozenset[Use] = frozenset({"source", "batch source"})
_STREAM_SINK: frozenset[Use] = frozenset({"stream sink"})

_HOME: dict[Use, str] = {
    "stream source": "spark.readStream",
    "batch source": "spark.read",
    "stream sink": "df.writeStream",
    "batch sink": "df.write",
}
_ANY_HOME = "a source"


class _Option(NamedTuple):
    uses: frozenset[Use]
    kafkas_own: bool = False


_OPTIONS: dict[str, _Option] = {
    "path": _Option(_SOURCES | _SINKS),
    "subscribe": _Option(_SOURCES),
    "subscribePattern": _Option(_SOURCES),
    "assign": _Option(_SOURCES),
    "startingOffsets": _Option(_SOURCES),
    "startingTimestamp": _Option(_SOURCES),
    "startingOffsetsByTimestamp": _Option(_SOURCES),
    "startingOffsetsByTimestampStrategy": _Option(_SOURCES),
    "endingOffsets": _Option(_BATCH_SOURCE),
    "endingTimestamp": _Option(_BATCH_SOURCE),
    "endingOffsetsByTimestamp": _Option(_BATCH_SOURCE),
    "versionAsOf": _Option(_BATCH_SOURCE),
    "timestampAsOf": _Option(_BATCH_SOURCE),
    "failOnDataLoss": _Option(_SOURCES),
    "maxOffsetsPerTrigger": _Option(_STREAM_SOURCE),
    "minPartitions": _Option(_SOURCES),
    "maxRecordsPerPartition": _Option(_SOURCES),
    "includeHeaders": _Option(_SOURCES | _SINKS),
    "includeMetadata": _Option(_SOURCES),
    "row.format": _Option(_SINKS),
    "isolation.level": _Option(_SOURCES, kafkas_own=True),
    "group.id": _Option(_SOURCES | _STREAM_SINK, kafkas_own=True),
    "topic": _Option(_SINKS),
    "transactional.id": _Option(_SINKS, kafkas_own=True),
    "processing.guarantee": _Option(_STREAM_SINK, kafkas_own=True),
    "num.partitions": _Option(_SINKS, kafkas_own=True),
    "auto.create.topics.enable": _Option(_SINKS, kafkas_own=True),
    "compression.type": _Option(_SINKS, kafkas_own=True),
    "compression.lz4.level": _Option(_SINKS, kafkas_own=True),
    "compression.zstd.level": _Option(_SINKS, kafkas_own=True),
    "partitioner.class": _Option(_SINKS, kafkas_own=True),
    "auto.maintenance.enable": _Option(_SINKS),
    "checkpointLocation": _Option(_STREAM_SINK),
    "queryName": _Option(_STREAM_SINK),
    "allowStateLoss": _Option(_STREAM_SINK),
}

SPELLINGS: dict[str, str] = {name.lower(): name for name in _OPTIONS}
"""The proper spelling of every option by its lower-cased name."""

_PREFIX = "kafka."
_TABLES = "option."

_EXPLAINED = {
    "bootstrap.servers": "there is no broker: the path is the log; leave it out and give .load(url), "
    ".start(url) or .save(url)",
    "auto.offset.reset": "where reading starts is decided by startingOffsets (and failOnDataLoss)",
    "enable.auto.commit": "Spark keeps the offsets of a query in its checkpoint, and the sink commits them "
    "with its output; leave it out",
    "groupidprefix": "no consumer group is made up; give group.id if you want one",
    "compression.gzip.level": "there is no gzip here; choose lz4 or zstd with compression.type",
    "acks": "a commit is always durable in the store, as with acks=all; leave it out",
    "enable.idempotence": "a micro-batch is always written once; see processing.guarantee",
    "transaction.timeout.ms": "the transaction of a micro-batch is one entry and never open; leave it out",
    "minoffsetspertrigger": "choose a longer trigger interval instead",
    "maxtriggerdelay": "choose the trigger interval instead",
    "paths": "one source or sink has one log: give one path, and union the DataFrames of several logs",
}
"""What Kafka's users may try, by its name without prefix, and what to do instead."""

_TRUTH = {"true": True, "false": False}
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_MAX_INT = 2**63 - 1


class OptionReader:
    """The options that were given for a ``use``, checked by name.

    Raises `ConfigError` for a name that is unknown or belongs to another use, and for one that is given
    twice, with and without ``kafka.``, with different values.
    """

    def __init__(self, options: Mapping[str, str], use: Use) -> None:
        self._values: dict[str, str] = {}
        for key, value in options.items():
            name = _resolve(key, use)
            if self._values.setdefault(name, str(value)) != str(value):
                raise ConfigError(
                    f"options {name} and {_PREFIX}{name} are both given and differ: {self._values[name]!r} "
                    f"and {str(value)!r}; keep one of them"
                )

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        """The value without the space around it; None if it is not given. Empty is an error."""
        value = self._values.get(name)
        if value is None:
            return None
        value = value.strip()
        if not value:
            raise ConfigError(f"option {name} is empty; give it a value or leave it out")
        return value

    def verbatim(self, name: str) -> str | None:
        """The value as it is; None if it is not given. Empty is an error."""
        return None if self.text(name) is None else self._values[name]

    def boolean(self, name: str, *, default: bool) -> bool:
        """The word true or false, in any case of letters."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in _TRUTH:
            raise expected(name, value, "true or false")
        return _TRUTH[value.lower()]

    def integer(self, name: str, *, lowest: int = 1, highest: int = _MAX_INT) -> int | None:
        """A whole number in decimal digits."""
        value = self.text(name)
        if value is None:
            return None
        if not _INTEGER.fullmatch(value) or not lowest <= int(value) <= highest:
            raise expected(name, value, f"a whole number from {lowest} to {highest}")
        return int(value)

    def choice(self, name: str, choices: tuple[str, ...]) -> str | None:
        """One of ``choices``, which are in lower case; letters of any case are taken."""
        value = self.text(name)
        if value is None:
            return None
        if value.lower() not in choices:
            raise expected(name, value, " or ".join(choices))
        return value.lower()


def expected(name: str, value: str, what: str) -> ConfigError:
    """The error for a value that is not what its option takes."""
    return ConfigError(f"option {name}={value!r}: expected {what}")


def is_known_to(options: Mapping[str, str], use: Use) -> bool:
    """Whether a ``use`` has options of all these names."""
    try:
        OptionReader(options, use)
    except ConfigError:
        return False
    return True


def of_table(options: Mapping[str, str]) -> dict[str, str]:
    """The options alone of what Spark asks with after the columns of ``CREATE TABLE ... USING eoslog OPTIONS (...)``.

    It then hands over the table's properties: its own, such as ``owner``, those of the statement, and each option
    twice, under its name and under ``option.`` with its name; the path as ``location``, too. All else is as it was.
    """
    if "provider" not in options:
        return dict(options)
    found = {key.removeprefix(_TABLES): value for key, value in options.items() if key.startswith(_TABLES)}
    path = options.get("path", options.get("location"))
    return found if path is None else {**found, "path": path}


def _resolve(key: str, use: Use) -> str:
    """The proper spelling of an option that may be used here."""
    lowered = key.lower()
    plain = lowered.removeprefix(_PREFIX)
    name = SPELLINGS.get(plain)
    if name is None or (plain != lowered and not _OPTIONS[name].kafkas_own):
        raise _unknown(key, plain, name, use)
    uses = _OPTIONS[name].uses
    if use not in uses:
        homes = " and ".join(home for other, home in _HOME.items() if other in uses)
        instead = "; a source names its topics with subscribe" if name == "topic" else ""
        raise ConfigError(
            f"option {name} belongs to {homes}, not to {_HOME.get(use, _ANY_HOME)}: leave it out here{instead}"
        )
    return name


def _unknown(key: str, plain: str, name: str | None, use: Use) -> ConfigError:
    if plain in _EXPLAINED:
        return ConfigError(f"option {key} is not one of eoslog: {_EXPLAINED[plain]}")
    here = {low: spelt for low, spelt in SPELLINGS.items() if use in _OPTIONS[spelt].uses}
    near = (
        [name]
        if name
        else [
            SPELLINGS[low]
            for names in (here, SPELLINGS)
            for low in difflib.get_close_matches(plain, names, n=1, cutoff=0.6)
        ]
    )
    if near:
        return ConfigError(f"unknown option {key!r}; did you mean {near[0]}?")
    return ConfigError(
        f"unknown option {key!r}; {_HOME.get(use, _ANY_HOME)} knows {', '.join(here.values())}"
    )
