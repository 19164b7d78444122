"""What a person types to choose records: ``amount > 5 AND "from" IN ('JFK', 'LAX')``, as an expression of pyarrow.

A column, one of ``= != <> < <= > >= LIKE IN IS NULL``, and what it is compared with: a number, ``'text'``, ``TRUE``.
Comparisons are joined by ``AND``, ``OR``, ``NOT`` and parentheses. A time is a text, such as ``'2026-11-21T16:30'``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.clients.arrow_reader import available_columns
from spark_eos.config.nearest import nearest
from spark_eos.errors import InvalidRequestError
from spark_eos.log.selection.row_filter import RowFilter
from spark_eos.log.time_travel import time_ms
from spark_eos.protocol.state import Topic

_WORDS = {"AND", "OR", "NOT", "IS", "NULL", "IN", "LIKE", "TRUE", "FALSE"}
_DEEPEST = 50

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^']|'')*')|
    (?P<quoted>"(?:[^"]|"")*")|
    (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|
    (?P<name>\w+)|
    (?P<sign><=|>=|!=|<>|==|[=<>(),])
    )""",
    re.VERBOSE,
)

_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda left, right: left == right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def row_filter(topic: Topic, text: str) -> RowFilter | None:
    """The filter that a text says; None: it is empty. Raises `InvalidRequestError`, naming the column, or the place."""
    if not text.strip():
        return None
    schema = available_columns(topic)
    expression = _Parser(topic, schema, text).whole()
    try:
        return RowFilter(expression, schema, is_typed=bool(topic.schemas))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRequestError(f"the filter {text!r} does not fit topic {topic.name!r}: {error}") from None


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Parser:
    def __init__(self, topic: Topic, schema: pa.Schema, text: str) -> None:
        self._topic, self._schema, self._text = topic, schema, text
        self._tokens = [*self._read(text)]
        self._next = 0
        self._depth = 0

    def _read(self, text: str) -> Iterator[_Token]:
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._wrong(at)
            kind = str(match.lastgroup)
            word, start = match[kind], match.start(kind)
            if kind == "name" and word.upper() in _WORDS:
                kind, word = "word", word.upper()
            yield _Token(kind, word, start)
            at = match.end()

    def _wrong(self, at: int) -> InvalidRequestError:
        here = self._text[at : at + 20].strip()
        place = f"at {here!r}" if here else "at its end"
        return InvalidRequestError(
            f"the filter is not understood {place}: expected is one such as price >= 5 AND \"from\" = 'JFK'"
        )

    def _ahead(self) -> _Token:
        """The next one; at the end one of no kind."""
        if self._next < len(self._tokens):
            return self._tokens[self._next]
        return _Token("", "", len(self._text))

    def _is(self, *texts: str) -> bool:
        """Whether the next one is one of these; then it is passed."""
        token = self._ahead()
        is_it = token.kind in {"word", "sign"} and token.text in texts
        self._next += is_it
        return is_it

    def _take(self, *kinds: str) -> _Token:
        token = self._ahead()
        if token.kind not in kinds:
            raise self._wrong(token.at)
        self._next += 1
        return token

    def _expect(self, text: str) -> None:
        if not self._is(text):
            raise self._wrong(self._ahead().at)

    def whole(self) -> Any:
        """The expression, to the end of the text."""
        expression = self._either()
        if self._next < len(self._tokens):
            raise self._wrong(self._ahead().at)
        return expression

    def _either(self) -> Any:
        expression = self._both()
        while self._is("OR"):
            expression = expression | self._both()
        return expression

    def _both(self) -> Any:
        expression = self._one()
        while self._is("AND"):
            expression = expression & self._one()
        return expression

    def _one(self) -> Any:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidRequestError(f"the filter has more than {_DEEPEST} levels of NOT and parentheses")
        try:
            if self._is("NOT"):
                return ~self._one()
            if self._is("("):
                expression = self._either()
                self._expect(")")
                return expression
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Any:
        field = self._column(self._take("name", "quoted"))
        column = pc.field(field.name)
        if self._is("IS"):
            is_not = self._is("NOT")
            self._expect("NULL")
            return column.is_valid() if is_not else column.is_null()
        if pa.types.is_nested(field.type):
            raise InvalidRequestError(
                f"column {field.name!r} is of type {field.type}: only IS NULL and IS NOT NULL are asked of it"
            )
        is_not = self._is("NOT")
        if self._is("LIKE"):
            expression = self._like(field, self._take("text"))
        elif self._is("IN"):
            expression = self._among(field)
        else:
            sign = self._take("sign")
            if is_not or sign.text not in _COMPARED:
                raise self._wrong(sign.at)
            expression = _COMPARED[sign.text](column, self._literal(field))
        return ~expression if is_not else expression

    def _column(self, token: _Token) -> pa.Field:
        name = token.text
        if token.kind == "quoted":
            name = name[1:-1].replace('""', '"')
        if name in self._schema.names:
            return self._schema.field(name)
        near = nearest(name, self._schema.names)
        hint = f"did you mean {near!r}? It" if near else "it"
        fields = "" if self._topic.schemas else ". Fields of values are no columns: use the search"
        raise InvalidRequestError(
            f"topic {self._topic.name!r} has no column {name!r}; {hint} has {', '.join(self._schema.names)}{fields}"
        )

    def _among(self, field: pa.Field) -> Any:
        self._expect("(")
        values = [self._literal(field)]
        while self._is(","):
            values.append(self._literal(field))
        self._expect(")")
        expression = _COMPARED["="](pc.field(field.name), values[0])
        for value in values[1:]:
            expression = expression | _COMPARED["="](pc.field(field.name), value)
        return expression

    def _like(self, field: pa.Field, token: _Token) -> Any:
        if not _is_texts(field.type):
            raise InvalidRequestError(f"column {field.name!r} is of type {field.type}: LIKE is for text")
        return pc.match_like(pc.field(field.name), _text(token))

    def _literal(self, field: pa.Field) -> Any:
        """What the column is compared with, as a value of the column's own type."""
        token = self._take("text", "number", "word")
        try:
            return pc.scalar(_value(field.type, token))
        except (pa.ArrowException, ValueError, OverflowError, TypeError, KeyError):
            raise InvalidRequestError(
                f"column {field.name!r} is of type {field.type}, and {token.text} is no value of it"
            ) from None


def _text(token: _Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _is_texts(type_: pa.DataType) -> bool:
    tests: Sequence[Callable[[pa.DataType], bool]] = (
        *(pa.types.is_string, pa.types.is_large_string),
        *(pa.types.is_binary, pa.types.is_large_binary),
    )
    return any(is_it(type_) for is_it in tests)


def _value(type_: pa.DataType, token: _Token) -> pa.Scalar:
    if token.kind == "word":
        return pa.scalar({"TRUE": True, "FALSE": False}[token.text], type_)
    if token.kind == "number":
        if _is_texts(type_):
            raise ValueError("text is in quotes")
        return pa.scalar(token.text).cast(type_)
    text = _text(token)
    if pa.types.is_timestamp(type_):
        return pa.scalar(time_ms(text), pa.timestamp("ms")).cast(pa.timestamp(type_.unit)).cast(type_)
    if _is_texts(type_):
        return pa.scalar(text.encode() if pa.types.is_binary(type_) else text, type_)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        raise ValueError("numbers are not in quotes")
    return pa.scalar(text).cast(type_)
