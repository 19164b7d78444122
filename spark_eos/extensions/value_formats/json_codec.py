"""JSON values of a topic."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.errors import SchemaMismatchError
from spark_eos.extensions.value_formats.framing import confluent_header
from spark_eos.extensions.value_formats.settings import ValueSettings
from spark_eos.log.values.codec import ColumnEncoder, ValueCodec
from spark_eos.log.values.json_values import WrittenFloat, as_written, dumps, loads, to_column
from spark_eos.log.values.problems import Problems, without

if TYPE_CHECKING:
    from spark_eos.extensions.value_formats.json_schema import Required

_NOT_BY_ARROW = r"[\n\r]|[:,\[]\s*-?(?:NaN|Inf)|[0-9]{200}|[eE][+]?0*[1-9][0-9]{2}"
"""What Arrow reads otherwise: NaN and the infinities are numbers there, and a number that is too large is infinite."""


class JsonCodec(ValueCodec):
    """Values as JSON in UTF-8, with or without Confluent's header; checked against a JSON Schema if there is one."""

    def __init__(self, settings: ValueSettings) -> None:
        self.settings = settings
        self.format = settings.format
        self.settings_text = settings.text
        self._header = b"" if settings.framing is None else confluent_header(max(0, settings.schema_id))
        self._check: Callable[[Any], object] | None = None
        if settings.schema:
            from spark_eos.extensions.value_formats.json_schema import validator

            self._check = validator(settings.schema)

    @property
    def fields(self) -> Sequence[pa.Field] | None:
        if not self.settings.schema:
            return None
        from spark_eos.extensions.value_formats.json_schema import schema_fields

        return schema_fields(self.settings.schema)

    def encode(self, value: Any) -> bytes:
        return self._encoded(value, dumps)

    def encode_json(self, value: Any) -> bytes:
        return self._encoded(value, as_written)

    def json_of(self, data: bytes) -> bytes:
        return as_written(self._loads(data, WrittenFloat.of))

    def _encoded(self, value: Any, as_json: Callable[[Any], bytes]) -> bytes:
        try:
            data = as_json(value)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ValueError(f"it cannot be written as JSON: {error}") from error
        if self._check is not None:
            self._validate(loads(data))
        return self._header + data

    def decode(self, data: bytes) -> Any:
        return self._loads(data)

    def _loads(self, data: bytes, parse_float: Callable[[str], float] | None = None) -> Any:
        return loads(self._body(data), parse_float)

    def decode_columns(self, values: pa.Array, fields: Sequence[pa.Field]) -> tuple[list[pa.Array], Problems]:
        columns = (
            None if self.settings.framing is not None else _all_by_arrow(values, fields, self._is_object)
        )
        if columns is not None:
            return columns, Problems()
        problems = Problems()
        schema = pa.struct(list(fields))
        convert = to_column(schema)
        is_object = self._is_object
        rows: list[Any] = []
        for row, data in enumerate(values.to_pylist()):
            row_value = None
            if data is not None:
                try:
                    value = self._loads(data, WrittenFloat.of)
                    if is_object and not isinstance(value, dict):
                        raise ValueError("its JSON is no object")  # noqa: TRY301
                    row_value = convert(value if is_object else {"value": value})
                except (ValueError, OverflowError) as error:
                    problems.add([row], f"it is not JSON of the topic's columns: {error}")
            rows.append(row_value)
        return [without(array, problems) for array in _struct(rows, schema, problems).flatten()], problems

    def encoder(self, columns: pa.Schema) -> ColumnEncoder:
        if self.settings.schema:
            self._check_columns(columns)
        names, is_object, required = columns.names, self._is_object, self._required()
        plain = [_plain(field.type, required.of(field.name)) for field in columns]

        def encode(batch: pa.RecordBatch) -> tuple[pa.Array, Problems]:
            problems = Problems()
            out: list[bytes | None] = []
            lists = [
                _python_values(*column, problems) for column in zip(names, batch.columns, plain, strict=True)
            ]
            for row, cells in enumerate(zip(*lists, strict=True)):
                if row in problems.reasons:
                    out.append(None)
                    continue
                value: Any = {
                    name: cell
                    for name, cell in zip(names, cells, strict=True)
                    if cell is not None or name in required.names
                }
                try:
                    out.append(self.encode(value if is_object else cells[0]))
                except ValueError as error:
                    problems.add([row], str(error))
                    out.append(None)
            return pa.array(out, pa.binary()), problems

        return encode

    @property
    def _is_object(self) -> bool:
        """Whether the columns are the properties of an object, and not one column ``value``."""
        if not self.settings.schema:
            return True
        from spark_eos.extensions.value_formats.json_schema import is_object

        return is_object(self.settings.schema)

    def _required(self) -> Required:
        from spark_eos.extensions.value_formats.json_schema import Required, required_of

        return required_of(self.settings.schema) if self.settings.schema else Required()

    def written_json(self, data: bytes) -> bytes | None:
        return self._body(data)

    def _body(self, data: bytes) -> bytes:
        framing = self.settings.framing
        return data if framing is None else framing.split(data)[1]

    def _validate(self, value: Any) -> None:
        assert self._check is not None
        try:
            self._check(value)
        except Exception as error:
            raise ValueError(f"it is not valid by the topic's JSON Schema: {error}") from error

    def _check_columns(self, columns: pa.Schema) -> None:
        names = {field.name for field in self.fields or ()}
        for name in columns.names:
            if name not in names:
                raise SchemaMismatchError(
                    f"column {name!r} is no property of the topic's JSON Schema, which has {', '.join(sorted(names))}; "
                    "drop it, or add it to the schema"
                )


def _all_by_arrow(values: pa.Array, fields: Sequence[pa.Field], is_object: bool) -> list[pa.Array] | None:
    """All rows by Arrow's reader of JSON lines, where its rules are those of `to_column`; None where it is not sure."""
    if (
        not is_object
        or values.null_count
        or not len(values)
        or not all(_is_plain(field.type) for field in fields)
    ):
        return None
    try:
        lines = values.cast(pa.string())
    except pa.ArrowInvalid:
        return None  # Not UTF-8.
    # Between the } of one line and the { of the next no object goes on: as many rows as lines are one object in each.
    if (
        not pc.all(pc.and_(pc.starts_with(lines, "{"), pc.ends_with(lines, "}"))).as_py()
        or pc.any(pc.match_substring_regex(lines, _NOT_BY_ARROW)).as_py()
    ):
        return None
    import pyarrow.json as pj

    joined = b"\n".join(values.to_pylist())
    options = pj.ParseOptions(
        explicit_schema=pa.schema([field.with_nullable(True) for field in fields]),
        unexpected_field_behavior="ignore",
    )
    try:
        table = pj.read_json(
            io.BytesIO(joined), pj.ReadOptions(use_threads=False, block_size=len(joined) + 1), options
        )
    except (pa.ArrowException, ValueError, OverflowError):
        return None  # Some row is not as it should be: which one is found one by one.
    if table.num_rows != len(values):
        return None
    columns = [table.column(field.name).combine_chunks() for field in fields]
    return [array.chunk(0) if isinstance(array, pa.ChunkedArray) else array for array in columns]


def _is_plain(type_: pa.DataType) -> bool:
    """Whether Arrow's reader takes exactly what `to_column` takes."""
    types = pa.types
    if types.is_list(type_):
        return _is_plain(type_.value_type)
    if types.is_struct(type_):
        return all(_is_plain(type_.field(place).type) for place in range(type_.num_fields))
    return bool(
        types.is_string(type_) or types.is_boolean(type_) or type_ in (pa.int64(), pa.int32(), pa.float64())
    )


def _struct(rows: list[Any], type_: pa.DataType, problems: Problems) -> pa.StructArray:
    try:
        return pa.array(rows, type_)
    except (pa.ArrowException, ValueError, OverflowError, TypeError, UnicodeError):
        parts = []
        for row, value in enumerate(rows):
            try:
                parts.append(pa.array([value], type_))
            except (pa.ArrowException, ValueError, OverflowError, TypeError, UnicodeError) as error:
                problems.add([row], f"it is not JSON of the topic's columns: {error}")
                parts.append(pa.nulls(1, type_))
        return pa.concat_arrays(parts)


def _plain(type_: pa.DataType, required: Required) -> Callable[[Any], Any] | None:
    """What turns Python's value of a column into one for JSON where `dumps` does not; None: nothing does.

    ``required`` are the properties that are null and not left out.
    """
    types = pa.types
    if types.is_map(type_):
        inner = _plain(type_.item_type, required.of("value"))
        return lambda value: {
            str(key): element if inner is None or element is None else inner(element)
            for key, element in value
        }
    if types.is_list(type_):
        item = _plain(type_.value_type, required.of("element"))
        return (
            None
            if item is None
            else lambda value: [None if element is None else item(element) for element in value]
        )
    if types.is_struct(type_):
        parts = {
            field.name: _plain(field.type, required.of(field.name))
            for field in map(type_.field, range(type_.num_fields))
        }

        def struct(value: dict[str, Any]) -> dict[str, Any]:
            return {
                name: element if element is None or (convert := parts[name]) is None else convert(element)
                for name, element in value.items()
                if element is not None or name in required.names
            }

        return struct
    return None


def _python_values(
    name: str, column: pa.Array, convert: Callable[[Any], Any] | None, problems: Problems
) -> list[Any]:
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError):  # Python has no times before the year 1, and after 9999.
        values = []
        for row, scalar in enumerate(column):
            try:
                values.append(scalar.as_py())
            except (ValueError, OverflowError) as error:
                values.append(None)
                problems.add([row], f"column {name}: {error}")
    return values if convert is None else [None if value is None else convert(value) for value in values]
