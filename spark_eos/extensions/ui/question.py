"""A question of the page: values of a JSON object, each checked before it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from spark_eos.errors import InvalidRequestError
from spark_eos.extensions.ui.follower import Follower
from spark_eos.protocol.types import MAX_NUMBER

Answer: TypeAlias = "dict[str, Any]"

MOST_ROWS = 200
"""Rows of one answer."""

MOST_OFFSETS = 3000
"""Partitions and their offsets in one question."""


class Question:
    """What a browser sent. Each call raises `InvalidRequestError`, naming the field, for a value that is not right."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def text(self, name: str, default: str | None = None, *, most: int = 32_767) -> str:
        """A text; without ``default`` it has to be there."""
        value = self._fields.get(name, default)
        if not _is_text(value) or len(value) > most:
            raise InvalidRequestError(f"{name!r} must be a text of at most {most} characters")
        return str(value)

    def number(self, name: str, default: int | None = None, *, least: int = 0, most: int = MAX_NUMBER) -> int:
        """A whole number; without ``default`` it has to be there."""
        value = self._fields.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidRequestError(f"{name!r} must be a whole number from {least} to {most}")
        return value

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of these; the first, if it is not there."""
        value = self._fields.get(name, choices[0])
        if value not in choices:
            raise InvalidRequestError(f"{name!r} must be one of {', '.join(choices)}")
        return str(value)

    def listed(self, name: str) -> list[Any]:
        """A list, which has to be there; what is in it is not checked."""
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise InvalidRequestError(f"{name!r} must be a list")
        return value

    def pairs(self, name: str, *, most: int) -> list[tuple[int, int]]:
        """Pairs of a partition and an offset; none, if it is not there."""
        pairs = self._fields.get(name, [])
        if not isinstance(pairs, list) or len(pairs) > most or not all(map(_is_pair, pairs)):
            raise InvalidRequestError(
                f"{name!r} must be a list of at most {most} pairs of a partition and an offset"
            )
        return [(partition, offset) for partition, offset in pairs]

    def offsets(self, name: str) -> dict[int, int]:
        """Offsets by partition; none, if it is not there."""
        return dict(self.pairs(name, most=MOST_OFFSETS))

    def texts(self, name: str, *, most: int) -> list[str]:
        """A list of texts."""
        texts = self._fields.get(name)
        if not isinstance(texts, list) or len(texts) > most or not all(map(_is_text, texts)):
            raise InvalidRequestError(f"{name!r} must be a list of at most {most} texts")
        return texts

    def flag(self, name: str) -> bool:
        """True or false; false, if it is not there."""
        value = self._fields.get(name, False)
        if not isinstance(value, bool):
            raise InvalidRequestError(f"{name!r} must be true or false")
        return value


def _is_text(value: Any) -> bool:
    """Half of a UTF-16 character is JSON, and no text that anything here could hold."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _is_pair(pair: Any) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and all(type(number) is int and 0 <= number <= MAX_NUMBER for number in pair)
    )


Area: TypeAlias = "Callable[[Follower, Question], Answer]"


def _place(value: Any) -> tuple[int, float, str]:
    """Numbers and times begin with the largest, texts with the first, as in the browser; what is not known is last."""
    if value is None or value == "":
        return 2, 0, ""
    return (0, -value, "") if isinstance(value, (int, float)) else (1, 0, str(value))


def page(
    question: Question, rows: Sequence[Any], make: Callable[[Any], Any], sorts: Sequence[str] = ()
) -> Answer:
    """The rows from number ``first`` on, ``count`` of them, and how many there are; only these are made.

    ``sorts`` are fields by one of which ``sort`` may ask to have them: all of them are made for that. With ``reverse``
    they are in the other order.
    """
    if sorts and (by := question.choice("sort", ("", *sorts))):
        rows, make = sorted(map(make, rows), key=lambda row: _place(row[by])), lambda row: row
    if question.flag("reverse"):
        rows = rows[::-1]
    count = question.number("count", 50, least=1, most=MOST_ROWS)
    first = min(question.number("first", 0), max(len(rows) - 1, 0) // count * count)
    shown = [make(row) for row in rows[first : first + count]]
    return {"total": len(rows), "first": first, "count": count, "rows": shown}
