"""Whose options are which, and the names by which Spark hands them over: in lower case, with or without ``kafka.``.

The tables are `spark_eos.config.source.SOURCE` and `spark_eos.config.sink.SINK`. Errors give a name in its proper
spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from spark_eos.config.kafka.names import kafka_name
from spark_eos.config.kafka.transport import KAFKA_OPTIONS, Transport, ignores
from spark_eos.config.nearest import nearest
from spark_eos.config.option import Option, Table, Use
from spark_eos.config.reader import OptionReader, Problems, listing
from spark_eos.config.sink import SINK
from spark_eos.config.source import SOURCE
from spark_eos.errors import ConfigError

_HOME: dict[Use, str] = {
    "stream source": "spark.readStream",
    "batch source": "spark.read",
    "stream sink": "df.writeStream",
    "batch sink": "df.write",
}
_ANY_SOURCE = "a source"
"""What errors say where it is not known yet whether a stream or a batch reads."""

_SINKS_LATER = (
    "The job's sinks are checked when they start. To save a start, set it there, too: they take compression.type auto, "
    "none, lz4 or zstd, and no columns that the topic does not have"
)
"""Spark makes a sink after the source has answered: what does not fit there cannot be in the same error."""

_PREFIX = "kafka."
_TABLES = "option."


class _Where(NamedTuple):
    """Where options were given. ``any_source``: of a source, whose other use may be the one."""

    use: Use
    any_source: bool

    @property
    def table(self) -> Table:
        return SINK if self.use.endswith("sink") else SOURCE

    def home(self, *names: Option) -> str:
        """What to call it in an error about options that are, or are not, the other kind of source's."""
        is_source = not names or any(use.endswith("source") for option in names for use in option.uses)
        return _HOME[self.use] if not self.any_source or (names and is_source) else _ANY_SOURCE


def read_options(
    options: Mapping[str, str], use: Use, problems: Problems, *, any_source: bool = False
) -> OptionReader:
    """The options that were given for a use, read by its table.

    Problems are those of `OptionReader`, and a name that belongs to another use, settings of Kafka's transport unless
    ``kafka.options`` drops them, and a name that is given with and without ``kafka.`` and different values.
    ``any_source``: it is not known yet whether a stream or a batch reads; texts that hold for both say so.
    """
    where = _Where(use, any_source)
    by_lower_name = {key.lower(): (key, str(value)) for key, value in sorted(options.items())}
    ignore = False
    with problems.about(KAFKA_OPTIONS):
        ignore = ignores(where.table, by_lower_name.get(KAFKA_OPTIONS, ("", "refuse"))[1])
    transport = Transport(ignore=ignore)
    values: dict[str, str] = {}
    for lowered, (key, value) in by_lower_name.items():
        plain = lowered if lowered == KAFKA_OPTIONS else lowered.removeprefix(_PREFIX)
        rows = _rows().get(plain, ())
        if not rows and transport.takes(plain, where.table, key):
            continue
        with problems.about(rows[0].name if rows else key):
            if not rows or (plain != lowered and rows[0].origin != "Kafka"):
                raise _unknown(key, plain, where)
            name = _of_use(rows, where)
            if values.setdefault(name, value) != value:
                raise ConfigError(
                    f"options {name} and {_PREFIX}{name} are both given and differ: {values[name]!r} and {value!r}; "
                    "keep one of them"
                )
    transport.report(problems, _SINKS_LATER if where.table is SOURCE else "")
    return OptionReader(where.table, values, problems)


def of_table(options: Mapping[str, str]) -> dict[str, str]:
    """The options alone of what Spark asks with after the columns of ``CREATE TABLE ... USING eoslog OPTIONS (...)``.

    It then hands over the table's properties: its own, such as ``owner``, those of the statement, and each option
    twice, under its name and under ``option.`` with its name; the path as ``location``, too. All else is as it was.
    """
    if "provider" not in options:
        return dict(options)
    table_options = {
        key.removeprefix(_TABLES): value for key, value in options.items() if key.startswith(_TABLES)
    }
    path = options.get("path", options.get("location"))
    return table_options if path is None else {**table_options, "path": path}


def of_both(stream: Mapping[str, str], batch: Mapping[str, str]) -> str:
    """The text about options that fit neither a stream nor a batch.

    What holds for both, then what holds for one of them alone.
    """
    common = [
        # Of an option that one of them has, the text is about its value.
        (batch if name in SOURCE and "stream source" not in SOURCE[name].uses else stream)[name]
        for name in stream
        if name in batch
    ]
    of_one = [
        *_of_one("spark.readStream", [(name, text) for name, text in stream.items() if name not in batch]),
        *_of_one("spark.read", [(name, text) for name, text in batch.items() if name not in stream]),
    ]
    return listing([*common, *of_one])


def _of_one(home: str, problems: list[tuple[str, str]]) -> list[str]:
    """What only one use would refuse. Options of the other one share a line: of that one they are the usual case."""
    foreign_names = [name for name, text in problems if text.startswith(f"option {name} belongs to ")]
    texts = [
        f"only if this is {home}: {text}"
        for name, text in problems
        if name not in foreign_names or not foreign_names[1:]
    ]
    if foreign_names[1:]:
        texts.append(
            f"only if this is {home}: {', '.join(foreign_names)} do not belong there; leave them out"
        )
    return texts


@cache
def _rows() -> dict[str, tuple[Option, ...]]:
    """The rows of each name in the tables of sources and sinks, by name in lower case. Spark asks for each batch."""
    rows: dict[str, tuple[Option, ...]] = {}
    for table in (SOURCE, SINK):
        for name, option in table.items():
            rows[name.lower()] = (*rows.get(name.lower(), ()), option)
    return rows


def _of_use(rows: tuple[Option, ...], where: _Where) -> str:
    """The proper spelling of an option that may be used here."""
    for option in rows:
        if where.use in option.uses:
            return option.name
    name = rows[0].name
    homes = " and ".join(home for use, home in _HOME.items() if any(use in row.uses for row in rows))
    instead = "; a source names its topics with subscribe" if name == "topic" else ""
    raise ConfigError(
        f"option {name} belongs to {homes}, not to {where.home(*rows)}: leave it out here{instead}"
    )


def _unknown(key: str, plain: str, where: _Where) -> ConfigError:
    of_kafka = kafka_name(plain, where.table)
    if of_kafka is not None:
        return ConfigError(f"option {key} is not one of eoslog: {of_kafka.why}")
    names = [option.name for option in where.table.values() if where.any_source or where.use in option.uses]
    near = nearest(plain, names, [*SOURCE, *SINK])
    hint = f"did you mean {near}?" if near else f"{where.home()} knows {', '.join(names)}"
    return ConfigError(f"unknown option {key!r}; {hint}")
