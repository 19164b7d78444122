"""Avro values to Arrow columns, all rows at once.

A decoder reads one type as it was written, and returns an array of the reader's type. Decoders are made by
`spark_eos.extensions.value_formats.avro.resolution`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.extensions.value_formats.avro.lanes import Lanes


class Decoder(ABC):
    """Reads one value of each lane."""

    path: str

    @abstractmethod
    def read(self, lanes: Lanes) -> pa.Array:
        """The values, as many as there are lanes. What stands in a lane with a problem means nothing."""


@dataclass
class NullDecoder(Decoder):
    """null: no bytes."""

    path: str
    type: pa.DataType

    def read(self, lanes: Lanes) -> pa.Array:
        return pa.nulls(len(lanes), self.type)


@dataclass
class BooleanDecoder(Decoder):
    """boolean: a byte, 0 or 1."""

    path: str

    def read(self, lanes: Lanes) -> pa.Array:
        flags = lanes.words(1, "u1", self.path)
        lanes.fail(np.flatnonzero(flags > 1), f"field {self.path}: a boolean is neither 0 nor 1")
        return pa.array(flags == 1)


@dataclass
class LongDecoder(Decoder):
    """int and long, as a whole number of 32 (``is_int``) or 64 bits."""

    path: str
    is_int: bool
    type: pa.DataType

    def read(self, lanes: Lanes) -> pa.Array:
        numbers = lanes.longs(self.path)
        if self.is_int:
            wide = (numbers < -(2**31)) | (numbers >= 2**31)
            lanes.fail(np.flatnonzero(wide), f"field {self.path}: an int has more than 32 bits")
            narrow = numbers.astype(np.int32)
            return _numbers(narrow, pa.int32()).cast(self.type, safe=False)
        return _numbers(numbers, pa.int64()).cast(self.type, safe=False)


@dataclass
class FloatDecoder(Decoder):
    """float and double: 4 or 8 bytes."""

    path: str
    size: int
    type: pa.DataType

    def read(self, lanes: Lanes) -> pa.Array:
        numbers = lanes.words(self.size, f"<f{self.size}", self.path)
        return pa.array(numbers).cast(self.type)


@dataclass
class TimeDecoder(Decoder):
    """A date or a timestamp: a whole number of another reader's type, times ``factor``."""

    inner: Decoder
    factor: int
    type: pa.DataType

    def __post_init__(self) -> None:
        self.path = self.inner.path

    def read(self, lanes: Lanes) -> pa.Array:
        numbers = self.inner.read(lanes)
        if self.factor > 1:
            times = numbers.to_numpy()
            most = (2**63 - 1) // self.factor
            far = (times > most) | (times < -most)
            lanes.fail(np.flatnonzero(far), f"field {self.path}: the time is out of the range of a timestamp")
            numbers = pa.array(np.where(far, 0, times) * self.factor)
        return numbers.view(self.type)


@dataclass
class BytesDecoder(Decoder):
    """bytes, string and fixed (of ``size`` bytes), as bytes or text."""

    path: str
    size: int | None
    type: pa.DataType

    def read(self, lanes: Lanes) -> pa.Array:
        size = lanes.longs(self.path) if self.size is None else self.size
        array = lanes.slices(*lanes.take(size, self.path))
        return array if self.type == pa.binary() else _text(array, lanes, self.path)


@dataclass
class DecimalDecoder(Decoder):
    """A decimal in bytes, or in a fixed: a whole number in two's complement, the highest byte first."""

    path: str
    size: int | None
    type: pa.DataType

    def read(self, lanes: Lanes) -> pa.Array:
        size = lanes.longs(self.path) if self.size is None else self.size
        start, sizes = lanes.take(size, self.path)
        count = len(lanes)
        out = np.zeros((count, 16), np.uint8)
        nonempty = sizes > 0
        sign = np.zeros(count, np.uint8)
        sign[nonempty] = np.where(lanes.data[start[nonempty]] >= 0x80, 0xFF, 0)
        for place in range(16):
            out[:, place] = sign
            has = np.flatnonzero(sizes > place)
            out[has, place] = lanes.data[start[has] + sizes[has] - 1 - place]
        self._check_long(lanes, start, sizes, sign, out)
        array = pa.Array.from_buffers(self.type, count, [None, pa.py_buffer(out)])
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            for lane in range(count):
                try:
                    array.slice(lane, 1).validate(full=True)
                except pa.ArrowInvalid:
                    lanes.fail(
                        np.array([lane]), f"field {self.path}: the number has more digits than {self.type}"
                    )
                    out[lane] = 0
            array = pa.Array.from_buffers(self.type, count, [None, pa.py_buffer(out)])
        return array

    def _check_long(
        self,
        lanes: Lanes,
        start: npt.NDArray[Any],
        sizes: npt.NDArray[Any],
        sign: npt.NDArray[Any],
        out: npt.NDArray[Any],
    ) -> None:
        """Bytes before the last 16 may only repeat the sign."""
        for lane in np.flatnonzero(sizes > 16).tolist():
            ahead = lanes.data[start[lane] : start[lane] + sizes[lane] - 16]
            if (ahead != sign[lane]).any() or (out[lane, 15] >= 0x80) != bool(sign[lane]):
                out[lane] = 0
                lanes.fail(np.array([lane]), f"field {self.path}: the number has more than 16 bytes")


@dataclass
class EnumDecoder(Decoder):
    """enum: the number of a symbol. ``symbols`` has for each one what it is for the reader, None: unknown to it."""

    path: str
    writer_symbols: Sequence[str]
    symbols: Sequence[str | None]

    def read(self, lanes: Lanes) -> pa.Array:
        numbers = lanes.longs(self.path)
        wrong = (numbers < 0) | (numbers >= len(self.symbols))
        lanes.fail(np.flatnonzero(wrong), f"field {self.path}: the enum has no symbol of that number")
        numbers = np.where(wrong, 0, numbers)
        for number, symbol in enumerate(self.symbols):
            if symbol is None:
                name = self.writer_symbols[number]
                text = f"field {self.path}: the reader's enum has neither symbol {name!r} nor a default"
                lanes.fail(np.flatnonzero((numbers == number) & ~wrong), text)
        if not self.symbols:
            return pa.nulls(len(lanes), pa.string())
        return pa.array(self.symbols, pa.string()).take(pa.array(numbers))


@dataclass
class Cast(Decoder):
    """Another decoder's values as another type: a number, text for bytes, bytes for text."""

    inner: Decoder
    type: pa.DataType

    def __post_init__(self) -> None:
        self.path = self.inner.path

    def read(self, lanes: Lanes) -> pa.Array:
        array = self.inner.read(lanes)
        if pa.types.is_binary(array.type) and pa.types.is_string(self.type):
            return _text(array, lanes, self.path)
        return array.cast(self.type, safe=False)


@dataclass
class Wrap(Decoder):
    """Another decoder's values as one member of the struct that stands for a union."""

    inner: Decoder
    type: pa.StructType
    member: int

    def __post_init__(self) -> None:
        self.path = self.inner.path

    def read(self, lanes: Lanes) -> pa.Array:
        array, count = self.inner.read(lanes), len(lanes)
        fields = [self.type.field(place) for place in range(self.type.num_fields)]
        arrays = [
            array if place == self.member else pa.nulls(count, part.type) for place, part in enumerate(fields)
        ]
        return pa.StructArray.from_arrays(arrays, fields=fields)


@dataclass
class Refusal(Decoder):
    """What the reader cannot take: a problem wherever it comes up."""

    path: str
    type: pa.DataType
    reason: str

    def read(self, lanes: Lanes) -> pa.Array:
        lanes.fail(np.arange(len(lanes)), self.reason)
        return pa.nulls(len(lanes), self.type)


def _numbers(values: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _text(array: pa.Array, lanes: Lanes, path: str) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        for lane, value in enumerate(array.to_pylist()):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError:
                texts.append("")
                lanes.fail(np.array([lane]), f"field {path}: the text is not UTF-8")
        return pa.array(texts, pa.string())
