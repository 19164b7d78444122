"""A row about an option, and a table of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from spark_eos.config.values import ValueType

Origin: TypeAlias = Literal["Kafka", "Spark", "Delta", "Iceberg", "Confluent", "eoslog"]
"""Whose name an option has. What it does there, it does here."""

Use: TypeAlias = Literal["stream source", "batch source", "stream sink", "batch sink"]
"""Where Spark hands over options: ``readStream``, ``read``, ``writeStream``, ``write``."""


class Option(NamedTuple):
    """One option: how its value is read, what it is unless it is given, and what it does, in one sentence.

    ``used_in`` is the module, below ``spark_eos``, in which the option has its effect; empty where it has none, because
    only one value is allowed. ``default_text`` describes a default that depends on other options. ``by_name``: it may
    also be set for one of what it is about, as ``option:name``.
    """

    name: str
    type: ValueType[Any]
    default: Any
    doc: str
    used_in: str = ""
    origin: Origin = "Kafka"
    since: str = "0.1.0"
    uses: frozenset[Use] = frozenset()
    default_text: str = ""
    is_secret: bool = False
    by_name: bool = False

    @property
    def shown_default(self) -> str:
        """The default as it would be written; empty if there is none."""
        if self.default_text:
            return self.default_text
        return "" if self.default is None else self.type.show(self.default)


class Table(Mapping[str, Option]):
    """The options of one kind, by name. ``noun`` is what errors call one: ``producer setting``.

    ``stored``: the log keeps the values as the text that was given, so space around them is not allowed.
    """

    def __init__(self, noun: str, *options: Option, stored: bool = False) -> None:
        self.noun = noun
        self.stored = stored
        self._options = {option.name: option for option in options}
        assert len(self._options) == len(options), "a name has two rows"

    def __getitem__(self, name: str) -> Option:
        option = self._options.get(name)
        if option is None:
            base, _, about = str(name).partition(":")
            option = self._options[base]
            if not (option.by_name and about):
                raise KeyError(name)
        return option

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def defaults(self) -> dict[str, str]:
        """The default of each option, as text."""
        return {name: option.shown_default for name, option in self._options.items()}
