"""Arrow columns to Avro values, all rows at once.

An encoder makes the bytes of one field for all rows, as a binary array; a record is its fields' bytes joined row by
row. A row that cannot be encoded is null there, and its reason is in `Problems`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.log.values.problems import Problems

_EMPTY = pa.scalar(b"", pa.binary())
Rows = npt.NDArray[np.int64]


class Encoder(ABC):
    """Writes one field. ``rows`` has the number of the row of each value, ``path`` is the field's name in errors."""

    path: str

    @abstractmethod
    def write(self, values: pa.Array, rows: Rows, problems: Problems) -> pa.Array:
        """The bytes of each value, as a binary array; null where there is a problem."""

    def _no_nulls(self, values: pa.Array, rows: Rows, problems: Problems) -> None:
        if values.null_count:
            nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
            problems.add(
                rows[nulls], f"column {self.path} is null, and the Avro schema does not allow null there"
            )


class NullEncoder(Encoder):
    """null: no bytes."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, values: pa.Array, rows: Rows, problems: Problems) -> pa.Array:
        return pa.repeat(_EMPTY, len(values))


@dataclass
class OfType(Encoder):
    """A type without parts, by a function of a whole array. ``type`` is what that takes."""

    path: str
    type: pa.DataType
    encode: Any

    def write(self, values: pa.Array, rows: Rows, problems: Problems) -> pa.Array:
        self._no_nulls(values, rows, problems)
        return self.encode(values if values.type == self.type else values.cast(self.type, safe=False))


@dataclass
class FixedEncoder(Encoder):
    """fixed: exactly so many bytes."""

    path: str
    size: int

    def write(self, values: pa.Array, rows: Rows, problems: Problems) -> pa.Array:
        self._no_nulls(values, rows, problems)
        wrong = pc.not_equal(pc.binary_length(values), self.size).fill_null(False)
        bad = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
        if len(bad):
            problems.add(rows[bad], f"column {self.path} does not have the {self.size} bytes of the fixed")
            return pc.if_else(wrong, pa.scalar(None, pa.binary()), values)
        return values


@dataclass
class DecimalEncoder(Encoder):
    """A decimal, in bytes or in a fixed of ``size`` bytes."""

    path: str
    type: pa.DataType
    size: int | None

    def write(self, values: pa.Array, rows: Rows, problems: Problems) -> pa.Array:
        self._no_nulls(values, rows, problems)
        try:
            values = values.cast(self.type)
        except pa.ArrowInvalid:
            values = self._one_by_one(values, rows, problems)
        encoded, lengths = decimals(values, self.size)
        if self.size is not None:
            wide = (lengths > self.size) & values.is_valid().to_numpy(zero_copy_only=False)
            if wide.any():
                problems.add(
                    rows[wide], f"column {self.path} has a number that {self.size} bytes cannot hold"
                )
                return pc.if_else(pa.array(wide), pa.scalar(None, pa.binary()), encoded)
            return encoded
        return joined(longs(pa.array(lengths)), encoded)

    def _one_by_one(self, values: pa.Array, rows: Rows, problems: Problems) -> pa.Array:
        parts = []
        for place in range(len(values)):
            try:
                parts.append(values.slice(place, 1).cast(self.type))
            except pa.ArrowInvalid as error:
                problems.add(rows[place : place + 1], f"column {self.path} does not fit {self.type}: {error}")
                parts.append(pa.nulls(1, self.type))
        return pa.concat_arrays(parts)


@dataclass
class EnumEncoder(Encoder):
    """enum: the number of the symbol."""

    path: str
    symbols: Sequence[str]

    def write(self, values: pa.Array, rows: Rows, problems: Problems) -> pa.Array:
        self._no_nulls(values, rows, problems)
        numbers = pc.index_in(values, pa.array(self.symbols, pa.string()))
        bad = np.flatnonzero(pc.and_(numbers.is_null(), values.is_valid()).to_numpy(zero_copy_only=False))
        for place in bad.tolist():
            problems.add(
                rows[place : place + 1],
                f"column {self.path} is {values[place].as_py()!r}, which is no symbol of the enum "
                f"({', '.join(self.symbols)})",
            )
        return longs(numbers.cast(pa.int64()))


@dataclass
class RecordEncoder(Encoder):
    """record: the fields' bytes, joined. ``parts``: for each field its encoder, and the name of its column.

    A column that is not there (None) has constant bytes: those of the field's default.
    """

    path: str
    parts: Sequence[tuple[Encoder | bytes, str | None]]

    def write(self, values: pa.Array, rows: Rows, problems: Problems) -> pa.Array:
        self._no_nulls(values, rows, problems)
        names = [values.type.field(place).name for place in range(values.type.num_fields)]
        fields = dict(zip(names, values.flatten(), strict=True))
        if values.null_count:
            # What is null as a whole is no problem of its fields.
            valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
            places = pa.array(valid)
            valid_fields = {name: array.take(places) for name, array in fields.items()}
            return _scatter(self.columns(valid_fields, len(valid), rows[valid], problems), valid, len(values))
        return self.columns(fields, len(values), rows, problems)

    def columns(self, fields: dict[str, pa.Array], count: int, rows: Rows, problems: Problems) -> pa.Array:
        """The bytes of so many records, given their fields."""
        encoded = []
        for encoder, name in self.parts:
            if isinstance(encoder, bytes):
                if encoder:
                    encoded.append(pa.scalar(encoder, pa.binary()))
            else:
                assert name is not None
                encoded.append(encoder.write(fields[name], rows, problems))
        return joined(pa.repeat(_EMPTY, count), *encoded)


@dataclass
class ListEncoder(Encoder):
    """array: one block of all items, and the end."""

    path: str
    items: Encoder

    def write(self, values: pa.Array, rows: Rows, problems: Problems) -> pa.Array:
        self._no_nulls(values, rows, problems)
        counts = pc.list_value_length(values).fill_null(0).cast(pa.int64())
        flat = values.flatten()
        owners = np.repeat(rows, counts.to_numpy())
        return _blocks(self.items.write(flat, owners, problems), counts)


@dataclass
class MapEncoder(Encoder):
    """map: one block of all entries, and the end."""

    path: str
    keys: Encoder
    values: Encoder

    def write(self, values: pa.Array, rows: Rows, problems: Problems) -> pa.Array:
        self._no_nulls(values, rows, problems)
        as_list = values.cast(
            pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)]))
        )
        counts = pc.list_value_length(as_list).fill_null(0).cast(pa.int64())
        flat = as_list.flatten()
        owners = np.repeat(rows, counts.to_numpy())
        keys = self.keys.write(flat.field(0), owners, problems)
        return _blocks(joined(keys, self.values.write(flat.field(1), owners, problems)), counts)


@dataclass
class UnionEncoder(Encoder):
    """union: the number of the branch, and its value.

    ``null`` is the number of the branch null, None: there is none. ``members`` has number and encoder of the others:
    with one, the column has the values; with more, it is a struct of which exactly one field is not null.
    """

    path: str
    null: int | None
    members: Sequence[tuple[int, Encoder]]
    is_struct: bool

    def write(self, values: pa.Array, rows: Rows, problems: Problems) -> pa.Array:
        if not self.is_struct:
            ((number, encoder),) = self.members or [(0, NullEncoder(self.path))]
            return self._with_null(values, rows, problems, number, encoder)
        fields = values.flatten()
        counts = sum(field.is_valid().to_numpy(zero_copy_only=False).astype(np.int64) for field in fields)
        empty = values.is_null().to_numpy(zero_copy_only=False)
        wrong = (counts != 1) & ~empty
        problems.add(
            rows[wrong], f"column {self.path} is a union: exactly one of its members may have a value"
        )
        out = self._nulls(empty, rows, problems)
        for (number, encoder), field in zip(self.members, fields, strict=True):
            has = np.flatnonzero(field.is_valid().to_numpy(zero_copy_only=False) & ~wrong)
            if len(has):
                part = encoder.write(field.take(pa.array(has)), rows[has], problems)
                part = joined(pa.repeat(pa.scalar(_long(number), pa.binary()), len(has)), part)
                out = pc.coalesce(out, _scatter(part, has, len(values)))
        return out

    def _with_null(
        self, values: pa.Array, rows: Rows, problems: Problems, number: int, encoder: Encoder
    ) -> pa.Array:
        head = pa.scalar(_long(number), pa.binary())
        if not values.null_count:
            return joined(pa.repeat(head, len(values)), encoder.write(values, rows, problems))
        empty = values.is_null().to_numpy(zero_copy_only=False)
        out = self._nulls(empty, rows, problems)
        has = np.flatnonzero(~empty)
        part = joined(
            pa.repeat(head, len(has)), encoder.write(values.take(pa.array(has)), rows[has], problems)
        )
        return pc.coalesce(out, _scatter(part, has, len(values)))

    def _nulls(self, empty: npt.NDArray[np.bool_], rows: Rows, problems: Problems) -> pa.Array:
        if self.null is None:
            problems.add(
                rows[empty], f"column {self.path} is null, and the Avro schema does not allow null there"
            )
            return pa.nulls(len(empty), pa.binary())
        return pc.if_else(
            pa.array(empty), pa.scalar(_long(self.null), pa.binary()), pa.scalar(None, pa.binary())
        )


def joined(*parts: Any) -> pa.Array:
    """The bytes of several arrays, row by row; null where one of them is."""
    return pc.binary_join_element_wise(*parts, _EMPTY) if len(parts) > 1 else parts[0]


def longs(values: pa.Array) -> pa.Array:
    """Whole numbers of 64 bits, as int and long: zigzag, seven bits a byte, the lowest first."""
    numbers = values.fill_null(0).to_numpy() if values.null_count else values.to_numpy()
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    count = len(zigzag)
    sizes = np.ones(count, np.int32)
    for bits in range(7, 64, 7):
        more = zigzag >= np.uint64(1 << bits)
        if not more.any():
            break
        sizes += more
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    rows, start = np.arange(count), offsets[:-1]
    for place in range(10):
        if not len(rows):
            break
        last = sizes[rows] == place + 1
        seven = ((zigzag[rows] >> np.uint64(7 * place)) & np.uint64(0x7F)).astype(np.uint8)
        data[start[rows] + place] = np.where(last, seven, seven | 0x80)
        rows = rows[~last]
    return _binary(offsets, data, values)


def floats(values: pa.Array) -> pa.Array:
    """Float and double, as their bytes."""
    filled = values.fill_null(0) if values.null_count else values
    width = values.type.bit_width // 8
    data = np.ascontiguousarray(filled.to_numpy(), f"<f{width}").view(np.uint8)
    offsets = np.arange(len(values) + 1, dtype=np.int32) * width
    return _binary(offsets.astype(np.int32), data, values)


def booleans(values: pa.Array) -> pa.Array:
    """boolean, as a byte."""
    data = values.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)
    return _binary(np.arange(len(values) + 1, dtype=np.int32), data, values)


def text(values: pa.Array) -> pa.Array:
    """Bytes and string: the number of bytes, and the bytes."""
    raw = values.cast(pa.binary())
    return joined(longs(pc.binary_length(raw).cast(pa.int64())), raw)


def decimals(values: pa.Array, size: int | None) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The bytes of decimals, the highest first, and how many each needs; ``size`` of them, or as few as possible."""
    count = len(values)
    words = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    low_first = words[values.offset * 16 : (values.offset + count) * 16].reshape(count, 16)
    sign = np.where(low_first[:, 15] >= 0x80, 0xFF, 0).astype(np.uint8)
    lengths = np.full(count, 16, np.int64)
    redundant = np.ones(count, np.bool_)
    for place in range(15, 0, -1):
        redundant &= (low_first[:, place] == sign) & ((low_first[:, place - 1] >= 0x80) == (sign == 0xFF))
        lengths -= redundant
    width = 16 if size is None else size
    high_first = np.broadcast_to(sign[:, None], (count, max(width, 16))).copy()
    high_first[:, high_first.shape[1] - 16 :] = low_first[:, ::-1]
    sizes = lengths if size is None else np.full(count, size, np.int64)
    columns = np.arange(high_first.shape[1])
    data = high_first[columns >= high_first.shape[1] - sizes[:, None]]
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return _binary(offsets, data, values), lengths


def _long(number: int) -> bytes:
    """A small number as a long."""
    encoded: bytes = longs(pa.array([number], pa.int64()))[0].as_py()
    return encoded


def _blocks(items: pa.Array, counts: pa.Array) -> pa.Array:
    """The items of each row in one block; null where one of them is null."""
    numbers = counts.to_numpy()
    ends = np.concatenate([[0], np.cumsum(numbers)])
    wrong = None
    if items.null_count:
        nulls = np.concatenate([[0], np.cumsum(items.is_null().to_numpy(zero_copy_only=False))])
        wrong = pa.array((nulls[ends[1:]] - nulls[ends[:-1]]) > 0)
        items = items.fill_null(b"")
    if len(items):
        start = np.frombuffer(items.buffers()[1], np.int32)[items.offset : items.offset + len(items) + 1]
        bodies = pa.Array.from_buffers(
            pa.binary(), len(counts), [None, pa.py_buffer(start[ends].astype(np.int32)), items.buffers()[2]]
        )
    else:
        bodies = pa.repeat(_EMPTY, len(counts))
    heads = pc.if_else(pc.equal(counts, 0), _EMPTY, longs(counts))
    blocks = joined(heads, bodies, pa.scalar(b"\0", pa.binary()))
    return blocks if wrong is None else pc.if_else(wrong, pa.scalar(None, pa.binary()), blocks)


def _scatter(part: pa.Array, places: npt.NDArray[Any], count: int) -> pa.Array:
    """The values at their places among so many; null at the others."""
    if len(places) == count:
        return part
    indices = np.full(count, -1, np.int64)
    indices[places] = np.arange(len(places))
    return part.take(pa.array(indices, mask=indices < 0))


def _binary(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], like: pa.Array) -> pa.Array:
    """A binary array, null where another one is."""
    array = pa.Array.from_buffers(
        pa.binary(), len(like), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    )
    if not like.null_count:
        return array
    return pc.if_else(like.is_null(), pa.scalar(None, pa.binary()), array)
