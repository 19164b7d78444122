"""Rows that an expression of pyarrow is true of: which batches can have any, and which rows of a batch they are.

What the log knows of a batch without reading it is a guarantee: its topic and partition, its offsets, and its oldest
and newest timestamp. Arrow's own simplification, by which datasets leave out files, says whether an expression can
be true under it. So every expression may be given, and what Arrow cannot tell is read.

pyarrow's dataset and its engine are imported when a filter is made: most processes have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from spark_eos.log.data.planner import Fetch
from spark_eos.log.selection.columns import place_names
from spark_eos.protocol.types import TopicPartition

_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}


class _Guarantee(NamedTuple):
    """What is known of records: they are in ``at``, between these offsets and times (ms, inclusive; None: any)."""

    at: TopicPartition
    first: int
    last: int
    times_ms: tuple[int, int] | None


class RowFilter:
    """An expression over the columns of ``schema``, which are those that a reader of a topic sees.

    A row is kept where the expression is true, neither false nor null. Raises ``pa.ArrowException``, ``TypeError`` or
    ``ValueError`` for an expression that does not fit the schema.
    """

    def __init__(self, expression: Any, schema: pa.Schema, *, is_typed: bool) -> None:
        if "FieldPath(" in str(expression):  # By its number a column is another one among fewer columns.
            raise ValueError(f"{expression} has the number of a column: name it")
        self._expression = expression
        self._schema = schema
        self._places = place_names(is_typed=is_typed)
        self.columns = tuple(_referred(expression, schema))
        """The columns that the expression names."""
        self._mask(schema.empty_table())

    @property
    def fields(self) -> list[pa.Field]:
        """The columns that the expression names, with their types."""
        return [self._schema.field(name) for name in self.columns]

    def narrowed(self, at: TopicPartition, start: int, end: int) -> tuple[int, int]:
        """The part of offsets ``start`` to ``end - 1`` of a partition that can have rows: empty if there are none.

        Found by bisection, as an expression does not say which offsets it is about.
        """
        if start >= end or not self._may_match(_Guarantee(at, start, end - 1, None)):
            return start, start
        low, high = start, end - 1  # The last row that can match is at or after `low`.
        while low < high:
            middle = (low + high + 1) // 2
            if self._may_match(_Guarantee(at, middle, end - 1, None)):
                low = middle
            else:
                high = middle - 1
        stop = low + 1
        low, high = start, stop - 1  # The first one is at or before `high`.
        while low < high:
            middle = (low + high) // 2
            if self._may_match(_Guarantee(at, start, middle, None)):
                high = middle
            else:
                low = middle + 1
        return low, stop

    def kept(self, fetches: Sequence[Fetch]) -> list[Fetch]:
        """Those of the fetches of one partition, in offset order, that can have rows."""
        return [*self._matching_fetches(fetches)]

    def apply(self, table: pa.Table) -> pa.Table:
        """The rows of ``table``, which has the columns of the schema, that are kept, in their order."""
        return table.filter(self._mask(table))

    def _matching_fetches(self, fetches: Sequence[Fetch]) -> Iterator[Fetch]:
        if not fetches:
            return
        guarantee = _Guarantee(
            TopicPartition(fetches[0].topic, fetches[0].partition),
            fetches[0].offset,
            fetches[-1].next_offset - 1,
            (
                min(fetch.batch.min_timestamp_ms for fetch in fetches),
                max(fetch.batch.max_timestamp_ms for fetch in fetches),
            ),
        )
        if not self._may_match(guarantee):
            return
        if len(fetches) == 1 or not self._may_fail(guarantee):
            yield from fetches
            return
        middle = len(fetches) // 2
        yield from self._matching_fetches(fetches[:middle])
        yield from self._matching_fetches(fetches[middle:])

    def _may_match(self, guarantee: _Guarantee) -> bool:
        return _is_possible(self._expression, self._schema, self._as_expression(guarantee))

    def _may_fail(self, guarantee: _Guarantee) -> bool:
        return _is_possible(~self._expression, self._schema, self._as_expression(guarantee))

    def _as_expression(self, guarantee: _Guarantee) -> Any:
        """The guarantee as an expression, in literals of the columns' own types."""
        topic, partition, offset, timestamp = self._places
        bounds: list[tuple[str, str, object]] = [
            (topic, "==", guarantee.at.topic),
            (partition, "==", guarantee.at.partition),
            (offset, ">=", guarantee.first),
            (offset, "<=", guarantee.last),
        ]
        if guarantee.times_ms is not None and timestamp in self._schema.names:
            unit = _PER_MS[self._schema.field(timestamp).type.unit]
            # A stored millisecond is that very time in finer units, too.
            bounds += [
                (timestamp, sign, ms * unit)
                for sign, ms in zip((">=", "<="), guarantee.times_ms, strict=True)
            ]
        expression = None
        for name, sign, value in bounds:
            if name in self._schema.names:
                comparison = _compared(name, sign, value, self._schema.field(name).type)
                expression = comparison if expression is None else expression & comparison
        return expression

    def _mask(self, table: pa.Table) -> pa.ChunkedArray:
        from pyarrow import acero

        read = table.select(list(self.columns or table.schema.names[:1]))
        plan = acero.Declaration.from_sequence(
            [
                acero.Declaration("table_source", acero.TableSourceNodeOptions(read)),
                acero.Declaration("project", acero.ProjectNodeOptions([self._expression], ["kept"])),
            ]
        )
        mask = plan.to_table(use_threads=False).column(0)  # In order; with threads it might not be.
        if not pa.types.is_boolean(mask.type):
            raise TypeError(f"it gives {mask.type}, not true or false")
        return mask


def _referred(expression: Any, schema: pa.Schema) -> Iterator[str]:
    """The columns that the expression does not go without: Arrow does not list them.

    Raises what Arrow raises if it does not fit the whole schema.
    """
    _is_possible(expression, schema, None)
    for at, name in enumerate(schema.names):
        try:
            _is_possible(expression, schema.remove(at), None)
        except (pa.ArrowException, KeyError):
            yield name


def _is_possible(expression: Any, schema: pa.Schema, guarantee: Any) -> bool:
    """Whether the expression can be true where the guarantee (None: there is none) holds."""
    from pyarrow import dataset

    format_ = dataset.IpcFileFormat()
    # Of no file: a dataset decides by what is guaranteed of a part, without a look at it.
    part = format_.make_fragment(pa.py_buffer(b""), partition_expression=guarantee)
    parts = dataset.FileSystemDataset([part], schema, format_)
    return next(parts.get_fragments(filter=expression), None) is not None


_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda left, right: left == right,
    ">=": lambda left, right: left >= right,
    "<=": lambda left, right: left <= right,
}


def _compared(name: str, sign: str, value: object, type_: pa.DataType) -> Any:
    import pyarrow.compute as pc

    return _SIGNS[sign](pc.field(name), pc.scalar(pa.scalar(value, type_)))
