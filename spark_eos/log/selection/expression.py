"""What a person types to choose records: ``amount > 5 AND "from" IN ('JFK', 'LAX')``, as calls of Arrow's functions.

A column, one of ``= != <> < <= > >= LIKE IN IS NULL``, and what it is compared with: a number, ``'text'``, ``TRUE``.
Comparisons are joined by ``AND``, ``OR``, ``NOT`` and parentheses. A time is a text, such as ``'2026-11-21T16:30'``, in
UTC unless it says otherwise. As in Spark, a comparison with null is null, and NaN is above all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.config.nearest import nearest
from spark_eos.errors import InvalidRequestError
from spark_eos.log.data.arrow import array_from_numpy, constant_array
from spark_eos.log.time_travel import parse_time

_WORDS = {"AND", "OR", "NOT", "IS", "NULL", "IN", "LIKE", "TRUE", "FALSE"}
_DEEPEST = 50
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

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

_COMPARED = {
    "=": "equal",
    "==": "equal",
    "!=": "not_equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_CHARACTER = r"(?:[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})"
"""A character of UTF-8."""

_JOINED = {"AND": "and_kleene", "OR": "or_kleene"}


class Column(NamedTuple):
    """A column of a filter."""

    name: str


class ValueField(NamedTuple):
    """A field of values that are no columns, such as JSON. Each of them may have another type, so it has none here."""

    name: str
    type: None = None


class Call(NamedTuple):
    """A function of ``pyarrow.compute``, of columns, values and calls; one of two takes more of them in turn."""

    function: str
    of: tuple[Any, ...]


Condition: TypeAlias = "Call | Column"
"""What is true or false of a row: a call, or a column of booleans."""


class Filter(NamedTuple):
    """What a text says of rows. A row is kept where it is true, neither false nor null.

    It goes to tasks by value, and loads neither pandas (`spark_eos.log.data.arrow`) nor Arrow's engine and datasets,
    which take a sixth of a second each. So a value that columns are compared with is an array that has no other.
    """

    call: Condition
    fields: tuple[pa.Field, ...]
    """The columns that it names."""
    asked: tuple[tuple[str, Condition], ...] = ()
    """Of fields of values: a column's name, and the condition on a `ValueField` whose outcomes it has."""

    @property
    def expression(self) -> pc.Expression:
        """As an expression of Arrow."""
        return _value_of(self.call, pc.field)

    def apply(self, table: pa.Table) -> pa.Table:
        """The rows of ``table``, which has these columns, that are kept, in their order."""
        return table.filter(_value_of(self.call, table.column))


def _value_of(part: Any, column: Callable[[str], Any]) -> Any:
    if isinstance(part, Column):
        return column(part.name)
    if isinstance(part, pa.Array):
        return part[0]
    if not isinstance(part, Call):
        return part
    function = getattr(pc, part.function)
    values = [_value_of(argument, column) for argument in part.of]
    return reduce(function, values) if len(values) > 1 else function(*values)


def parsed(text: str, topic: str, schema: pa.Schema, *, has_value_fields: bool = False) -> Filter:
    """The filter over the columns ``schema`` of a topic that a text says.

    ``has_value_fields``: other names are fields of its values. Raises `InvalidRequestError`, naming the column, or the
    place.
    """
    parser = _Parser(topic, schema, text, has_value_fields=has_value_fields)
    row_filter = Filter(parser.whole(), tuple(parser.fields.values()), tuple(parser.asked.items()))
    try:
        row_filter.apply(pa.Table.from_batches([], pa.schema(row_filter.fields)))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRequestError(f"the filter {text!r} does not fit topic {topic!r}: {error}") from None
    return row_filter


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Parser:
    def __init__(self, topic: str, schema: pa.Schema, text: str, *, has_value_fields: bool) -> None:
        self._topic, self._schema, self._text = topic, schema, text
        self._has_value_fields = has_value_fields
        self._tokens = [*self._read(text)]
        self._next = 0
        self._depth = 0
        self.fields: dict[str, pa.Field] = {}
        """The columns that were named so far."""
        self.asked: dict[str, Condition] = {}

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
        place = f"at {here!r}, character {at + 1}" if here else "at its end"
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

    def whole(self) -> Condition:
        """The expression, to the end of the text."""
        expression = self._either()
        if self._next < len(self._tokens):
            raise self._wrong(self._ahead().at)
        return expression

    def _either(self) -> Condition:
        return self._joined("OR", self._both)

    def _both(self) -> Condition:
        return self._joined("AND", self._one)

    def _joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._is(word):
            parts.append(part())
        return _joined(word, parts)

    def _one(self) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidRequestError(f"the filter has more than {_DEEPEST} levels of NOT and parentheses")
        try:
            if self._is("NOT"):
                return Call("invert", (self._one(),))
            if self._is("("):
                expression = self._either()
                self._expect(")")
                return expression
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Condition:
        first = self._take("name", "quoted")
        field = self._column(first)
        if not isinstance(field, ValueField):
            return self._compared(field, Column(field.name))
        call = self._compared(field, field)
        name = self._text[first.at : self._ahead().at].strip()
        self.asked[name], self.fields[name] = call, pa.field(name, pa.bool_())
        return Column(name)

    def _compared(self, field: pa.Field | ValueField, column: Column | ValueField) -> Condition:
        if self._is("IS"):
            is_not = self._is("NOT")
            self._expect("NULL")
            return Call("is_valid" if is_not else "is_null", (column,))
        if field.type is not None and pa.types.is_nested(field.type):
            raise InvalidRequestError(
                f"column {field.name!r} is of type {field.type}: only IS NULL and IS NOT NULL are asked of it"
            )
        is_not = self._is("NOT")
        expression: Condition
        if self._is("LIKE"):
            expression = self._like(field, column, self._take("text"))
        elif self._is("IN"):
            expression = self._among(field, column)
        else:
            sign = self._take("sign")
            if is_not or sign.text not in _COMPARED:
                raise self._wrong(sign.at)
            expression = Call(_COMPARED[sign.text], (column, self._literal(field)))
            if sign.text[0] == ">" and field.type is not None and pa.types.is_floating(field.type):
                # To Arrow, NaN is neither above nor below anything.
                expression = _joined("OR", [expression, Call("is_nan", (column,))])
        return Call("invert", (expression,)) if is_not else expression

    def _column(self, token: _Token) -> pa.Field | ValueField:
        name = token.text
        if token.kind == "quoted":
            name = name[1:-1].replace('""', '"')
        if name in self._schema.names:
            return self.fields.setdefault(name, self._schema.field(name))
        if self._has_value_fields:
            return ValueField(name)
        near = nearest(name, self._schema.names)
        hint = f"did you mean {near!r}? It" if near else "it"
        raise InvalidRequestError(
            f"topic {self._topic!r} has no column {name!r}, which the filter names at character {token.at + 1}; "
            f"{hint} has {', '.join(self._schema.names)}"
        )

    def _among(self, field: pa.Field | ValueField, column: Column | ValueField) -> Condition:
        self._expect("(")
        values = [self._literal(field)]
        while self._is(","):
            values.append(self._literal(field))
        self._expect(")")
        return _joined("OR", [Call("equal", (column, value)) for value in values])

    def _like(self, field: pa.Field | ValueField, column: Column | ValueField, token: _Token) -> Call:
        if field.type is not None and not _is_texts(field.type):
            raise InvalidRequestError(f"column {field.name!r} is of type {field.type}: LIKE is for text")
        pattern = _text(token)
        is_bytes = field.type is not None and not (
            pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        )
        if "\\" not in pattern and not (is_bytes and "_" in pattern):
            return Call("match_like", (column, pattern))
        # Arrow's own function takes backslashes for themselves in most patterns, and "_" for one byte of bytes.
        return Call("match_substring_regex", (column, self._regex(token, pattern, is_bytes=is_bytes)))

    def _regex(self, token: _Token, pattern: str, *, is_bytes: bool) -> str:
        """The pattern of ``LIKE`` as one of Arrow's regular expressions, of which bytes are Latin-1."""
        wildcards = {"%": ".*", "_": _CHARACTER if is_bytes else "."}
        parts, characters = [], iter(pattern)
        for character in characters:
            if character != "\\":
                parts.append(wildcards.get(character) or re.escape(character))
            elif (escaped := next(characters, "")) and escaped in "%_\\":
                parts.append(re.escape(escaped))
            else:
                raise InvalidRequestError(
                    f"the filter has LIKE {token.text}: a backslash stands before %, _ or another backslash, and makes "
                    "it stand for itself"
                )
        return rf"(?s)\A{''.join(parts)}\z"

    def _literal(self, field: pa.Field | ValueField) -> Any:
        """What the column is compared with, as a value of the column's own type; a field's is one of Python."""
        token = self._take("text", "number", "word")
        try:
            return _value_of_python(token) if field.type is None else _value(field.type, token)
        except (pa.ArrowException, ValueError, ArithmeticError, TypeError, KeyError):
            raise InvalidRequestError(
                f"column {field.name!r} is of type {field.type}, and {token.text} is no value of it"
                if field.type is not None
                else f"{token.text} is no value: nulls are asked for by {field.name} IS NULL"
            ) from None


def _joined(word: str, parts: Sequence[Condition]) -> Condition:
    return Call(_JOINED[word], tuple(parts)) if parts[1:] else parts[0]


def _text(token: _Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _is_texts(type_: pa.DataType) -> bool:
    tests: Sequence[Callable[[pa.DataType], bool]] = (
        *(pa.types.is_string, pa.types.is_large_string),
        *(pa.types.is_binary, pa.types.is_large_binary),
    )
    return any(is_it(type_) for is_it in tests)


def _value_of_python(token: _Token) -> Decimal | bool | str:
    """A number, a truth value, or a text. Raises ``KeyError`` for another word."""
    if token.kind == "word":
        return {"TRUE": True, "FALSE": False}[token.text]
    return Decimal(token.text) if token.kind == "number" else _text(token)


def _value(type_: pa.DataType, token: _Token) -> pa.Array:
    """The value as the only one of an array. Raises what Arrow raises, or ``ValueError``, if it is none of the type."""
    if token.kind == "word":
        if not pa.types.is_boolean(type_) or token.text == "NULL":
            raise ValueError("it is a word of booleans")
        return _array(token.text, type_)
    if token.kind == "number":
        if _is_texts(type_):
            raise ValueError("text is in quotes")
        return _array(token.text, type_)
    text = _text(token)
    if pa.types.is_timestamp(type_):
        micros = (parse_time(text) - _EPOCH) // timedelta(microseconds=1)
        times = array_from_numpy(np.array([micros]), pa.timestamp("us"))
        return times.cast(pa.timestamp(type_.unit)).cast(type_)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        raise ValueError("numbers are not in quotes")
    return _array(text, type_)


def _array(text: str, type_: pa.DataType) -> pa.Array:
    return constant_array(text, pa.string(), 1).cast(type_)
