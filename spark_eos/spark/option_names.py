"""Whose options are which, and the names by which Spark hands them over: in lower case, with or without ``kafka.``.

The tables are `spark_eos.config.source.SOURCE` and `spark_eos.config.sink.SINK`. Errors give a name in its proper
spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from spark_eos.config.nearest import nearest
from spark_eos.config.option import Option, Table, Use
from spark_eos.config.reader import OptionReader
from spark_eos.config.sink import SINK
from spark_eos.config.source import SOURCE
from spark_eos.errors import ConfigError

__all__ = ["is_known_to", "of_table", "read_options"]

AnyUse: TypeAlias = Use | Literal["source"]
"""A ``source`` is a stream's or a batch's: which, is not known yet."""

_HOME: dict[Use, str] = {
    "stream source": "spark.readStream",
    "batch source": "spark.read",
    "stream sink": "df.writeStream",
    "batch sink": "df.write",
}
_ANY_HOME = "a source"

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


def read_options(options: Mapping[str, str], use: AnyUse) -> OptionReader:
    """The options that were given for a use, checked by the table.

    Raises `ConfigError` as `OptionReader`, and also for a name that belongs to another use, and for one that is given
    with and without ``kafka.`` and different values.
    """
    return OptionReader(_table(use), _by_proper_name(options, use))


def is_known_to(options: Mapping[str, str], use: AnyUse) -> bool:
    """Whether a use has options of all these names."""
    try:
        _by_proper_name(options, use)
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


def _table(use: AnyUse) -> Table:
    return SINK if use.endswith("sink") else SOURCE


def _belongs(option: Option, use: AnyUse) -> bool:
    return bool(option.uses) if use == "source" else use in option.uses


def _by_proper_name(options: Mapping[str, str], use: AnyUse) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in options.items():
        name = _resolve(key, use)
        if found.setdefault(name, str(value)) != str(value):
            raise ConfigError(
                f"options {name} and {_PREFIX}{name} are both given and differ: {found[name]!r} and {str(value)!r}; "
                "keep one of them"
            )
    return found


def _resolve(key: str, use: AnyUse) -> str:
    """The proper spelling of an option that may be used here."""
    lowered = key.lower()
    plain = lowered.removeprefix(_PREFIX)
    tables = (SINK, SOURCE) if _table(use) is SINK else (SOURCE, SINK)
    known = [option for table in tables for name, option in table.items() if name.lower() == plain]
    if not known or (plain != lowered and known[0].origin != "Kafka"):
        raise _unknown(key, plain, use)
    for option in known:
        if option in _table(use).values() and _belongs(option, use):
            return option.name
    name = known[0].name
    homes = " and ".join(home for other, home in _HOME.items() if any(other in one.uses for one in known))
    instead = "; a source names its topics with subscribe" if name == "topic" else ""
    here = _ANY_HOME if use == "source" else _HOME[use]
    raise ConfigError(f"option {name} belongs to {homes}, not to {here}: leave it out here{instead}")


def _unknown(key: str, plain: str, use: AnyUse) -> ConfigError:
    if plain in _EXPLAINED:
        return ConfigError(f"option {key} is not one of eoslog: {_EXPLAINED[plain]}")
    here = [option.name for option in _table(use).values() if _belongs(option, use)]
    near = nearest(plain, here, [*SOURCE, *SINK])
    home = _ANY_HOME if use == "source" else _HOME[use]
    hint = f"did you mean {near}?" if near else f"{home} knows {', '.join(here)}"
    return ConfigError(f"unknown option {key!r}; {hint}")
