"""The reader of options: names and values that were given, checked by a table. All errors about them are made here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spark_eos.config.nearest import suggestion
from spark_eos.config.option import Option, Table
from spark_eos.config.values import NotAllowedError
from spark_eos.errors import ConfigError

__all__ = ["HIDDEN", "OptionReader", "check_names", "check_stored", "expected", "parse"]

HIDDEN = "***"
"""What stands for a secret wherever values are shown."""


class OptionReader:
    """The options that were given, and the defaults of all others, as values.

    Raises `ConfigError` for a name that is not in the table, and for a value that is not allowed. The text names the
    option, the value and what is allowed.
    """

    def __init__(self, table: Table, given: Mapping[str, object]) -> None:
        check_names(table, given)
        self._given = {name: parse(table, table[name], value) for name, value in given.items()}
        self.values: dict[str, Any] = {name: option.default for name, option in table.items()} | self._given
        """The value of each option of the table, by name."""

    def __contains__(self, name: str) -> bool:
        """Whether the option was given."""
        return name in self._given

    def __getitem__(self, name: str) -> Any:
        """The value, or the default."""
        return self.values[name]


def check_names(table: Table, names: Iterable[str]) -> None:
    """Raise `ConfigError` for a name that is not in the table, with the nearest one that is."""
    for name in names:
        if name not in table:
            raise ConfigError(f"unknown {table.noun} {name!r}; {suggestion(str(name), table)}")


def check_stored(table: Table, given: Mapping[str, object]) -> dict[str, str]:
    """What was given, checked as by `OptionReader`, as the text that the log stores."""
    OptionReader(table, given)
    return {name: str(value) for name, value in given.items()}


def parse(table: Table, option: Option, value: object) -> Any:
    """The value of one option. Raises `ConfigError`, which shows no secret."""
    given: object = str(value) if table.stored else value
    if isinstance(given, str):
        if not given.strip() and not option.type.may_be_empty:
            raise ConfigError(f"{table.noun} {option.name} is empty; give it a value or leave it out")
        if not table.stored and not option.type.is_verbatim:
            given = given.strip()
    try:
        return option.type.parse(given)
    except ValueError as error:
        shown = HIDDEN if option.is_secret else repr(value)
        reason = f" ({error})" if isinstance(error, NotAllowedError) and not option.is_secret else ""
        raise ConfigError(
            f"{table.noun} {option.name}={shown}: expected {option.type.allowed}{reason}"
        ) from None


def expected(table: Table, name: str, value: object, what: str) -> ConfigError:
    """The error for a value that its type allows but its use does not."""
    return ConfigError(f"{table.noun} {name}={value!r}: expected {what}")
