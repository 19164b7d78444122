"""The reader of options: names and values that were given, checked by a table. All errors about them are made here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from spark_eos.config.kafka.names import kafka_name
from spark_eos.config.nearest import suggestion
from spark_eos.config.option import Option, Table
from spark_eos.config.values import NotAllowedError
from spark_eos.errors import ConfigError

T = TypeVar("T")

HIDDEN = "***"
"""What stands for a secret wherever values are shown."""


class Problems:
    """All that does not fit, gathered, so that one error names all of it.

    Each problem is kept under the option that it is about. An option has one problem, the first that was found.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        """Texts, by what they are about."""

    def add(self, about: str, text: str) -> None:
        """Keep a problem, unless one about the same is known."""
        self.texts.setdefault(about, text)

    @contextmanager
    def about(self, *options: str) -> Iterator[None]:
        """Keep a `ConfigError` of the body as a problem of the options. A problem that one of them has is enough."""
        try:
            yield
        except ConfigError as error:
            if not self.texts.keys() & {*options}:
                self.add(options[0], str(error))

    def check(self) -> None:
        """Raise `ConfigError` with all problems, if there are any."""
        if self.texts:
            raise ConfigError(listing(list(self.texts.values())))


def listing(texts: list[str]) -> str:
    """One text as it is, several as a list."""
    if len(texts) == 1:
        return texts[0]
    return "\n  - ".join([f"{len(texts)} things do not fit; this is all of them:", *texts])


class OptionReader:
    """The options that were given, and the defaults of all others, as values.

    Raises `ConfigError` for names that are not in the table, and for values that are not allowed. The text names each
    option, the value and what is allowed. With ``problems``, they are added there instead, and an option with a value
    that is not allowed has its default.
    """

    def __init__(
        self, table: Table, raw_values: Mapping[str, object], problems: Problems | None = None
    ) -> None:
        collector = Problems() if problems is None else problems
        self.values: dict[str, Any] = {name: option.default for name, option in table.items()}
        """The value of each option of the table, by name."""
        self._raw_values = raw_values
        for name, value in raw_values.items():
            with collector.about(name):
                check_names(table, [name])
                self.values[name] = parse(table, table[name], value)
        if problems is None:
            collector.check()

    def __contains__(self, name: str) -> bool:
        """Whether the option was given."""
        return name in self._raw_values

    def __getitem__(self, name: str) -> Any:
        """The value, or the default."""
        return self.values[name]

    def text(self, name: str) -> str:
        """What was given for the option, as text."""
        return str(self._raw_values[name]).strip()


def check_names(table: Table, names: Iterable[str]) -> None:
    """Raise `ConfigError` for names that are not in the table: what Kafka's are, of others the nearest that is."""
    problems = Problems()
    for name in names:
        if name not in table:
            of_kafka = kafka_name(str(name), table)
            problems.add(
                str(name),
                f"unknown {table.noun} {name!r}; {suggestion(str(name), table)}"
                if of_kafka is None
                else f"{table.noun} {name} is not one of eoslog: {of_kafka.why}",
            )
    problems.check()


def check_stored(table: Table, settings: Mapping[str, object | None]) -> dict[str, str]:
    """What was given, checked as by `OptionReader`, as the text that the log stores.

    A name with the value None is checked and left out: its default is to hold again.
    """
    problems = Problems()
    for name in settings:
        with problems.about(name):
            check_names(table, [name])
    values = {name: value for name, value in settings.items() if name in table and value is not None}
    OptionReader(table, values, problems)
    problems.check()
    return {name: _stripped(table[name], table[name].type.stored(value)) for name, value in values.items()}


def _stripped(option: Option, text: str) -> str:
    """Without the space around it, as Kafka takes settings."""
    return text if option.type.is_verbatim else text.strip()


def parse(table: Table, option: Option, value: object) -> Any:
    """The value of one option. Raises `ConfigError`, which shows no secret."""
    raw: object = str(value) if table.stored else value
    if isinstance(raw, str):
        if not raw.strip() and not option.type.may_be_empty:
            raise ConfigError(f"{table.noun} {option.name} is empty; give it a value or leave it out")
        raw = _stripped(option, raw)
    try:
        return option.type.parse(raw)
    except ValueError as error:
        shown = HIDDEN if option.is_secret else repr(value)
        reason = f" ({error})" if isinstance(error, NotAllowedError) and not option.is_secret else ""
        raise ConfigError(
            f"{table.noun} {option.name}={shown}: expected {option.type.allowed}{reason}"
        ) from None


def stored_value(table: Table, stored: Mapping[str, str], name: str, kind: type[T], where: str) -> T:
    """A setting that the log has stored, parsed as its row says, or its default; a value of that ``kind``.

    What was stored by a newer version, or by hand, need not be allowed here: the `ConfigError` says ``where`` it is.
    """
    option = table[name]
    try:
        value = parse(table, option, stored[name]) if name in stored else option.default
    except ConfigError as error:
        raise ConfigError(
            f"{where}: {error}. A newer version of eoslog, or another program, has stored it: use that version, or "
            "set it again with `eoslog configs`"
        ) from error
    assert isinstance(value, kind), f"{name} is {type(value).__name__}, not {kind.__name__}"
    return value


def expected_error(table: Table, name: str, value: object, form: str) -> ConfigError:
    """The error for a value that its type allows but its use does not."""
    return ConfigError(f"{table.noun} {name}={value!r}: expected {form}")
