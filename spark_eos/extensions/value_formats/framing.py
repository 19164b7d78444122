"""The bytes in front of a value that say with which schema it was written: read and made for whole columns."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.log.values.problems import Problems

CONFLUENT_MAGIC = b"\x00"
SINGLE_OBJECT_MAGIC = b"\xc3\x01"


class Framing:
    """A kind of header: ``magic``, then ``size`` bytes that name the schema."""

    def __init__(self, title: str, magic: bytes, size: int) -> None:
        self.title, self.magic, self.size = title, magic, size
        self.length = len(magic) + size

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """What names the schema, and the rest. Raises `ValueError`."""
        if len(data) < self.length or not data.startswith(self.magic):
            raise ValueError(self._refusal(data))
        return data[len(self.magic) : self.length], data[self.length :]

    def schemas(self, values: pa.Array, problems: Problems) -> list[tuple[bytes, npt.NDArray[Any]]]:
        """The names of schemas in a binary array without nulls, and the numbers of the rows of each, in order."""
        count = len(values)
        offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + count + 1]
        data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
        whole = np.flatnonzero(np.diff(offsets) >= self.length)
        heads = data[offsets[whole].astype(np.int64)[:, None] + np.arange(self.length)]
        matches = (heads[:, : len(self.magic)] == np.frombuffer(self.magic, np.uint8)).all(axis=1)
        good = whole[matches]
        for row in np.setdiff1d(np.arange(count), good).tolist():
            problems.add([row], self._refusal(values[row].as_py()))
        names = np.ascontiguousarray(heads[matches, len(self.magic) :]).view(f"V{self.size}")[:, 0]
        if not len(names):
            return []
        if (names == names[0]).all():
            return [(bytes(names[0]), good)]
        distinct, inverse = np.unique(names, return_inverse=True)
        return [(bytes(name), good[inverse == place]) for place, name in enumerate(distinct)]

    def _refusal(self, data: bytes) -> str:
        return f"the value does not begin with {self.title}; its first bytes are {data[: self.length].hex() or 'none'}"


CONFLUENT = Framing("Confluent's header (a zero byte and a schema id of 4 bytes)", CONFLUENT_MAGIC, 4)
SINGLE_OBJECT = Framing(
    "Avro's single-object header (C3 01 and a fingerprint of 8 bytes)", SINGLE_OBJECT_MAGIC, 8
)


def confluent_header(schema_id: int) -> bytes:
    """Confluent's header for a schema id."""
    return CONFLUENT_MAGIC + struct.pack(">I", schema_id)


def single_object_header(fingerprint: bytes) -> bytes:
    """The header of Avro's single-object encoding for a fingerprint of 8 bytes."""
    return SINGLE_OBJECT_MAGIC + fingerprint
