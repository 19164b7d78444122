"""Types of values: how the text of an option is read, and what is allowed."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

MAX_INT, MAX_LONG = 2**31 - 1, 2**63 - 1
"""The largest numbers of Java's types, which are limits of many of Kafka's options."""

MAX_COUNT = 2**62
"""The largest number that an entry of the log may carry (`spark_eos.protocol.types.MAX_NUMBER`)."""

MAX_UINT = 2**32 - 1
"""The largest number of four bytes."""

_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)
_MOST_DIGITS = 4000
"""Python refuses to read longer numbers."""


class NotAllowedError(ValueError):
    """A value is not allowed, and there is more to say than what is."""


class ValueType(ABC, Generic[T]):
    """What the values of an option are. ``allowed`` completes the sentence "expected ..."."""

    allowed: str
    is_verbatim = False
    """Space around a value is part of it."""
    may_be_empty = False

    @property
    def summary(self) -> str:
        """``allowed``, for a table."""
        return self.allowed

    @abstractmethod
    def parse(self, value: object) -> T:
        """The value of what was given. Raises `ValueError` if it is not allowed."""

    def show(self, value: T) -> str:
        """A value as it would be written."""
        return str(value)

    def stored(self, value: object) -> str:
        """The text that a log stores for what was given, which is allowed."""
        return str(value)


class Integer(ValueType[int]):
    """A whole number, in decimal digits."""

    def __init__(self, low: int, high: int = MAX_LONG) -> None:
        self.low, self.high = low, high
        bounds = f"from {low} up" if high == MAX_LONG else f"from {low} to {high}"
        self.allowed = f"a whole number {bounds}"

    def parse(self, value: object) -> int:
        text = str(value)
        # Not int() alone: it takes underscores, spaces and the digits of other scripts.
        if not _WHOLE.fullmatch(text):
            raise ValueError
        number = int(text) if len(text) < _MOST_DIGITS else (-1 if text[0] == "-" else 1) << 64
        if number > self.high:
            raise NotAllowedError(f"at most {MAX_LONG}") if self.high == MAX_LONG else ValueError
        if number < self.low:
            raise ValueError
        return number


class Boolean(ValueType[bool]):
    """The word true or false, in any case of letters."""

    allowed = "true or false"

    def parse(self, value: object) -> bool:
        text = str(value).lower()
        if text not in {"true", "false"}:
            raise ValueError
        return text == "true"

    def show(self, value: bool) -> str:
        return str(value).lower()


class Ratio(ValueType[float]):
    """A number from 0 to 1."""

    allowed = "a number from 0 to 1"

    def parse(self, value: object) -> float:
        number = float(str(value))
        if not 0 <= number <= 1:
            raise ValueError
        return number


class Text(ValueType[str]):
    """Any text that is not empty."""

    def __init__(
        self, allowed: str = "text", *, is_verbatim: bool = False, may_be_empty: bool = False
    ) -> None:
        self.allowed, self.is_verbatim, self.may_be_empty = allowed, is_verbatim, may_be_empty

    def parse(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError  # noqa: TRY004  (the reader makes a `ConfigError` of it)
        return value


class Callable(Text):
    """The name of a callable of Python."""

    def __init__(self, *, is_verbatim: bool = False) -> None:
        super().__init__("module:callable", is_verbatim=is_verbatim)

    def parse(self, value: object) -> str:
        text = super().parse(value)
        if text.strip().startswith(("org.apache.", "io.confluent.")):
            raise NotAllowedError(
                "a class of Java cannot be called here; without this option the hash of the key decides, as by "
                "Kafka's own partitioner"
            )
        return text


class Choice(ValueType[str]):
    """One of some words. ``any_case``: letters of any case are taken."""

    def __init__(self, *choices: str, any_case: bool = False, allowed: str | None = None) -> None:
        self.choices, self.any_case = choices, any_case
        self.allowed = in_words(choices) if allowed is None else allowed

    def parse(self, value: object) -> str:
        text = str(value).lower() if self.any_case else str(value)
        if text not in self.choices:
            raise ValueError
        return text


class Words(ValueType[tuple[str, ...]]):
    """Words, separated by commas. ``choices``: one or more of these, each once, whose order does not count."""

    def __init__(self, allowed: str, *choices: str) -> None:
        self.allowed, self.choices = allowed, choices
        self.may_be_empty = not choices

    def parse(self, value: object) -> tuple[str, ...]:
        words = str(value).split(",")
        if not self.choices:
            return tuple(word.strip() for word in words if word.strip())
        if len({*words}) < len(words) or not {*words} <= {*self.choices}:
            raise ValueError
        return tuple(word for word in self.choices if word in words)

    def show(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


class Member(ValueType[E]):
    """A member of an enumeration whose values are lower-case words."""

    def __init__(self, kind: type[E], *, any_case: bool = False) -> None:
        self.kind, self.any_case = kind, any_case
        self.allowed = in_words([str(member.value) for member in kind])

    def parse(self, value: object) -> E:
        return self.kind(str(value).lower() if self.any_case else str(value))

    def show(self, value: E) -> str:
        return str(value.value)


class Fixed(ValueType[T]):
    """A single value, of an option that is there because programs for Kafka set it. ``why``: why it is fixed."""

    def __init__(self, value: T, spellings: Sequence[str], why: str) -> None:
        self.value, self.spellings = value, spellings
        self.allowed = f"{spellings[0]}, as {why}"

    @property
    def summary(self) -> str:
        return f"only {self.spellings[0]}"

    def parse(self, value: object) -> T:
        if str(value).lower() not in self.spellings:
            raise ValueError
        return self.value

    def show(self, value: T) -> str:
        return self.spellings[0]


class Code(ValueType[object]):
    """A function, or an object with a certain method: a part of the program itself, not text."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.allowed = f"a function, or an object with the method `{method}`"

    def parse(self, value: object) -> object:
        if isinstance(value, type) and hasattr(value, self.method):
            raise NotAllowedError(f"it is a class: give an instance, {value.__name__}(...)")
        if not callable(getattr(value, self.method, value)):
            raise ValueError  # noqa: TRY004  (the reader makes a `ConfigError` of it)
        return value


def in_words(words: Sequence[str]) -> str:
    """``a, b or c``."""
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
