"""What a filter asks of fields of values, such as ``amount > 5`` of JSON: as columns that are true, false or null.

As in Spark, a comparison with null is null; so is one with a value of another type, such as a number with a text. A
record that has no such field, or whose value is no object, has null in it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.extensions.ui.notation import Digits
from spark_eos.log.selection.expression import Call, Condition, ValueField

_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


class ValueFields:
    """What is asked of the fields of a topic's values; ``fields_of`` gives them, None if a value is no object."""

    def __init__(
        self,
        asked: Sequence[tuple[str, Condition]],
        fields_of: Callable[[bytes | None], Mapping[Any, Any] | None],
    ) -> None:
        self._asked = dict(asked)
        self._fields_of = fields_of
        self._unanswered = {*self._asked}
        self._has_looked = False

    @property
    def schema(self) -> list[pa.Field]:
        """The columns."""
        return [pa.field(name, pa.bool_()) for name in self._asked]

    @property
    def problem(self) -> str | None:
        """What no record that was looked at answers: a name may be mistyped, or a number is a text in the values."""
        if not self._has_looked or not self._unanswered:
            return None
        return (
            f"no record that was looked at has such a field with a value of that type: "
            f"{', '.join(sorted(self._unanswered))}"
        )

    def columns(self, values: Sequence[bytes | None]) -> dict[str, pa.Array]:
        """The columns of records with these values."""
        self._has_looked = self._has_looked or bool(values)
        rows = [self._fields_of(value) or {} for value in values]
        columns = {name: _answered(condition, rows) for name, condition in self._asked.items()}
        self._unanswered -= {name for name, column in columns.items() if column.null_count < len(column)}
        return columns


def _answered(condition: Condition, rows: Sequence[Mapping[Any, Any]]) -> pa.Array:
    """True, false or null for each row."""
    assert isinstance(condition, Call)
    first = condition.of[0]
    if not isinstance(first, ValueField):
        parts = [_answered(part, rows) for part in condition.of]
        function = getattr(pc, condition.function)
        outcome = parts[0] if parts[1:] else function(parts[0])
        for part in parts[1:]:
            outcome = function(outcome, part)
        return outcome
    values = [_plain(row.get(first.name)) for row in rows]
    if condition.function in {"is_null", "is_valid"}:
        is_null = condition.function == "is_null"
        return pa.array([(value is None) is is_null for value in values], pa.bool_())
    operand = condition.of[1]
    if condition.function in {"match_like", "match_substring_regex"}:
        texts = [value if isinstance(value, str) else None for value in values]
        return getattr(pc, condition.function)(pa.array(texts, pa.string()), operand)
    sign, type_ = _SIGNS[condition.function], type(operand)
    return pa.array(
        [sign(_in_order(value), _in_order(operand)) if type(value) is type_ else None for value in values],
        pa.bool_(),
    )


def _plain(value: Any) -> Any:
    """A number as it is shown, with all its digits; anything else as it is."""
    if isinstance(value, (Digits, int, float)) and not isinstance(value, bool):
        try:
            return Decimal(str(value))
        except ArithmeticError:  # An exponent that no number of Python has: it is compared with none.
            return value
    return value


def _in_order(value: Any) -> Any:
    """As values are ordered: NaN is above all numbers."""
    if isinstance(value, Decimal):
        return (True, Decimal(0)) if value.is_nan() else (False, value)
    return value
