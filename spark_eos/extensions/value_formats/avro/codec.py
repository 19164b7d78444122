"""Avro values of a topic."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.extensions.value_formats.avro.aliases import reader_of
from spark_eos.extensions.value_formats.avro.columns import value_fields
from spark_eos.extensions.value_formats.avro.fitting import check_of
from spark_eos.extensions.value_formats.avro.json_form import from_json, to_json
from spark_eos.extensions.value_formats.avro.lanes import Lanes
from spark_eos.extensions.value_formats.avro.resolution import decoder_of
from spark_eos.extensions.value_formats.avro.strict import step_of
from spark_eos.extensions.value_formats.avro.types import AvroSchema, parse
from spark_eos.extensions.value_formats.avro.writing import encoder_of
from spark_eos.extensions.value_formats.framing import CONFLUENT, confluent_header, single_object_header
from spark_eos.extensions.value_formats.settings import ValueSettings, writers
from spark_eos.log.values.codec import ColumnEncoder, ValueCodec
from spark_eos.log.values.problems import Problems, without

_REFUSALS = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    StopIteration,
    OverflowError,
    AttributeError,
    RecursionError,
)
"""What fastavro raises for a value that does not fit, and for bytes that are none."""


class AvroCodec(ValueCodec):
    """Values in Avro's binary encoding, with or without a header."""

    def __init__(self, settings: ValueSettings) -> None:
        self.settings = settings
        self.format = settings.format
        self.settings_text = settings.text
        self._reader = parse(settings.schema)
        self._writers: dict[bytes, AvroSchema] = dict(writers(settings))
        self._fields: list[pa.Field] | None = None
        framing = settings.framing
        if framing is None:
            self._header = b""
        elif framing is CONFLUENT:
            self._header = confluent_header(max(0, settings.schema_id))
        else:
            self._header = single_object_header(self._reader.fingerprint)

    @property
    def fields(self) -> Sequence[pa.Field]:
        if self._fields is None:
            self._fields = value_fields(self._reader.type)
        return self._fields

    def encode(self, value: Any) -> bytes:
        import fastavro

        out = io.BytesIO()
        out.write(self._header)
        check = check_of(self._reader)
        try:
            if check is not None:
                check(value)
            fastavro.schemaless_writer(out, self._reader.parsed, value, strict_allow_default=True)
        except _REFUSALS as error:
            raise ValueError(f"it does not fit the topic's Avro schema: {_error_text(error)}") from error
        return out.getvalue()

    def encode_json(self, value: Any) -> bytes:
        return self.encode(from_json(self._reader, value))

    def json_of(self, data: bytes) -> bytes:
        return to_json(self._reader, self.decode(data))

    def decode(self, data: bytes) -> Any:
        from fastavro import schemaless_reader
        from fastavro.read import SchemaResolutionError

        framing = self.settings.framing
        name, body = (b"", data) if framing is None else framing.split(data)
        writer = self._writer(name)
        step = step_of(writer)
        try:
            end = step(body, 0)
        except IndexError:
            raise ValueError("its bytes are no value of its Avro schema: the value ends early") from None
        except RecursionError:
            raise ValueError("its Avro value is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"its bytes are no value of its Avro schema: {error}") from None
        if end > len(body):
            raise ValueError("its bytes are no value of its Avro schema: the value ends early")
        if end < len(body):
            raise ValueError(f"{len(body) - end} bytes are left over after the value")
        try:
            return schemaless_reader(io.BytesIO(body), writer.parsed, reader_of(writer, self._reader))
        except SchemaResolutionError as error:
            raise ValueError(
                f"it was written with a schema that the topic's cannot read: {_error_text(error)}"
            ) from error
        except _REFUSALS as error:
            raise ValueError(f"its bytes are no value of its Avro schema: {_error_text(error)}") from error

    def decode_columns(self, values: pa.Array, fields: Sequence[pa.Field]) -> tuple[list[pa.Array], Problems]:
        problems = Problems()
        places = {field.name: place for place, field in enumerate(self.fields)}
        field_places = [places[field.name] for field in fields]
        valid_rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        valid_values = values if len(valid_rows) == len(values) else values.take(pa.array(valid_rows))
        parts: list[tuple[np.ndarray[Any, Any], list[pa.Array]]] = []
        for name, rows in self._groups(valid_values, valid_rows, problems):
            alone = valid_values if len(rows) == len(valid_values) else valid_values.take(pa.array(rows))
            columns = self._decode(name, alone, valid_rows[rows], problems)
            if columns is not None:
                parts.append((valid_rows[rows], [columns[place] for place in field_places]))
        if len(parts) == 1 and len(parts[0][0]) == len(values):
            return [without(array, problems) for array in parts[0][1]], problems
        return [
            without(
                _gathered(field.type, [(rows, arrays[place]) for rows, arrays in parts], len(values)),
                problems,
            )
            for place, field in enumerate(fields)
        ], problems

    def encoder(self, columns: pa.Schema) -> ColumnEncoder:
        encoder = encoder_of(self._reader, columns)
        header = pa.scalar(self._header, pa.binary())

        def encode(batch: pa.RecordBatch) -> tuple[pa.Array, Problems]:
            from spark_eos.extensions.value_formats.avro.encoder import joined

            problems = Problems()
            rows, count = np.arange(batch.num_rows), batch.num_rows
            fields = dict(zip(batch.schema.names, batch.columns, strict=True))
            bodies = encoder.columns(fields, count, rows, problems)
            return without(joined(pa.repeat(header, count), bodies), problems), problems

        return encode

    def _groups(self, values: pa.Array, valid_rows: Any, problems: Problems) -> list[tuple[bytes, Any]]:
        """Values by what names their schema."""
        framing = self.settings.framing
        if not len(values):
            return []
        if framing is None:
            return [(b"", np.arange(len(values)))]
        own_problems = Problems()
        groups = framing.schemas(values, own_problems)
        problems.move(own_problems, valid_rows)
        return groups

    def _decode(self, name: bytes, values: pa.Array, rows: Any, problems: Problems) -> list[pa.Array] | None:
        """The columns of values of one schema; None if it cannot be read."""
        try:
            decoder = decoder_of(self._writer(name), self._reader)
        except SchemaMismatchError as error:
            problems.add(rows, f"it was written with a schema that the topic's cannot read: {error}")
            return None
        except ConfigError:
            raise  # The registry refuses the question: it is no fault of the value.
        except ValueError as error:
            problems.add(rows, str(error))
            return None
        framing = self.settings.framing
        own_problems = Problems()
        lanes = Lanes.of(values, 0 if framing is None else framing.length, own_problems)
        columns = decoder.columns(lanes)
        leftover = np.flatnonzero(lanes.at < lanes.end)
        if len(leftover):
            own_problems.add(leftover, "bytes are left over after the value")
        problems.move(own_problems, rows)
        return columns

    def _writer(self, name: bytes) -> AvroSchema:
        """The schema that a header names. Raises `ValueError` if there is none."""
        writer = self._writers.get(name)
        if writer is not None:
            return writer
        if self.settings.framing is not CONFLUENT:
            raise ValueError(
                f"no schema has the fingerprint {name.hex()}: add the schema that it was written with to the topic's "
                "value.writer.schemas"
            )
        (number,) = struct.unpack(">I", name)
        registry = self.settings.registry
        answer = None if registry is None else registry.schema(number)
        if answer is None:
            where = "" if registry is None else f", and {registry.url} has none"
            raise ValueError(
                f"the topic has no schema with id {number}{where}: add it to value.writer.schemas, or set "
                "schema.registry.url"
            )
        if answer.kind != "AVRO":
            raise ValueError(f"the schema with id {number} is not Avro, but {answer.kind}")
        try:
            schema = self._writers[name] = parse(answer.text, answer.references)
        except ConfigError as error:
            raise ValueError(f"the schema with id {number} cannot be used: {error}") from error
        return schema


def _gathered(type_: pa.DataType, parts: list[tuple[Any, pa.Array]], count: int) -> pa.Array:
    """Arrays of some rows each as one; null where there is none."""
    indices = np.full(count, -1, np.int64)
    length = 0
    for rows, array in parts:
        indices[rows] = length + np.arange(len(array))
        length += len(array)
    if not parts:
        return pa.nulls(count, type_)
    return pa.concat_arrays([array for _, array in parts]).take(pa.array(indices, mask=indices < 0))


def _error_text(error: Exception) -> str:
    """Fastavro's text, or the kind of error where it has none."""
    text = str(error).strip()
    return f"{text} ({type(error).__name__})" if text else type(error).__name__
