"""What compaction keeps: pure, on batches of keys.

The map of keys holds a hash of each in place of the key, as Kafka's cleaner does: 24 bytes for a key of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.log.data.records import Records
from spark_eos.maintenance.rewrite import CLEAN

_HASH = np.dtype("S16")
_MERGE = 1 << 16
_FULL = 0.9

Flags = npt.NDArray[np.bool_]


class Keys(NamedTuple):
    """Of each record: the hash of its key, whether it has one, and whether it is a tombstone."""

    hashes: npt.NDArray[np.bytes_]
    present: Flags
    tombstones: Flags


def keys_of(records: Records, keys: Sequence[str], values: Sequence[str]) -> Keys:
    """The keys of records, whose columns are ``keys`` and ``values``, of which a tombstone has none.

    A record has a key if one of its columns is not null. Without columns of values there are no tombstones.
    """
    columns = [records.column(name) for name in keys]
    nulls = np.logical_and.reduce([_is_null(column) for column in columns])
    hashes = hashes_of(columns)
    empty = np.zeros(records.num_rows, np.bool_)
    if values and records.num_rows:
        empty = np.logical_and.reduce([_is_null(records.column(name)) for name in values])
    return Keys(hashes, ~nulls, empty & ~nulls)


def hashes_of(columns: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.bytes_]:
    """The hash of each key, whose columns these are: two rows have the same one if they have the same key."""
    if len(columns) == 1 and pa.types.is_binary(columns[0].type):
        texts = [key or b"" for key in columns[0].to_pylist()]
    else:
        # Any text will do that says which are the same: it is never stored.
        parts = [_bytes(pa.concat_arrays(column.chunks)) if column.chunks else [] for column in columns]
        texts = [b"".join(row) for row in zip(*parts, strict=True)]
    # No collision by chance, nor with chosen keys: of two keys with one hash, one would be lost.
    return np.array([blake2b(text, digest_size=16).digest() for text in texts], _HASH)


def _bytes(array: pa.Array) -> list[bytes]:
    """Each value as it is stored, so that two are one key only if no byte differs. No two have the same bytes.

    Not as Python has them: it lacks some, as times after the year 9999, and takes others for the same.
    """
    type_ = array.type
    if pa.types.is_struct(type_):
        flat = [_bytes(child) for child in array.flatten()]
        values = [b"".join(row) for row in zip(*flat, strict=True)] if flat else [b""] * len(array)
    elif pa.types.is_map(type_) or pa.types.is_list(type_):
        if pa.types.is_map(type_):
            entry = pa.struct([type_.key_field, type_.item_field])
            array = array.cast(pa.list_(pa.field("entries", entry, nullable=False)))
        inner = iter(_bytes(array.flatten()))
        lengths = pc.list_value_length(array).fill_null(0).to_pylist()
        values = [b"".join(islice(inner, length)) for length in lengths]
    elif pa.types.is_string(type_) or pa.types.is_binary(type_):
        values = array.view(pa.binary()).to_pylist()
    else:
        plain = array.cast(pa.int8()) if pa.types.is_boolean(type_) else array
        values = plain.view(pa.binary(plain.type.bit_width // 8)).to_pylist()
    present = array.is_valid().to_pylist()
    return [
        b"%d:%b" % (len(value), value) if is_there else b"-"
        for value, is_there in zip(values, present, strict=True)
    ]


def _is_null(column: pa.ChunkedArray) -> Flags:
    flags: Flags = column.is_null().to_numpy()
    return flags


class KeyMap:
    """The newest offset of each key, of at most about ``capacity`` keys."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._hashes: npt.NDArray[np.bytes_] = np.empty(0, _HASH)
        self._offsets: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._waiting: list[tuple[npt.NDArray[np.bytes_], npt.NDArray[np.int64]]] = []
        self._waits = 0

    def __len__(self) -> int:
        self._merge()
        return len(self._hashes)

    def add(self, hashes: npt.NDArray[np.bytes_], offsets: npt.NDArray[np.int64]) -> bool:
        """Records after all that were added before. False, and nothing is added, if there is no room for them.

        The first ones are always taken: else there would be no progress.
        """
        if self._waits + len(hashes) > min(_MERGE, self._capacity - len(self._hashes)):
            self._merge()
        taken = len(self._hashes)
        if taken and (taken >= _FULL * self._capacity or taken + len(hashes) > self._capacity):
            return False
        self._waiting.append((hashes, offsets))
        self._waits += len(hashes)
        return True

    def latest(self, hashes: npt.NDArray[np.bytes_]) -> npt.NDArray[np.int64]:
        """The newest offset of each key, -1 for those that are not there."""
        self._merge()
        if not len(self._hashes):
            return np.full(len(hashes), -1, np.int64)
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        return np.where(self._hashes[at] == hashes, self._offsets[at], -1)

    def _merge(self) -> None:
        if not self._waiting:
            return
        hashes = np.concatenate([self._hashes, *(waiting_hashes for waiting_hashes, _ in self._waiting)])
        offsets = np.concatenate([self._offsets, *(waiting_offsets for _, waiting_offsets in self._waiting)])
        order = np.argsort(hashes, kind="stable")
        hashes, offsets = hashes[order], offsets[order]
        last = np.append(hashes[1:] != hashes[:-1], True) if len(hashes) else np.empty(0, np.bool_)
        self._hashes, self._offsets = hashes[last], offsets[last]
        self._waiting, self._waits = [], 0


def is_kept(keys: Keys, offsets: npt.NDArray[np.int64], newest: KeyMap, *, tombstones: bool) -> Flags:
    """Which records stay: their key's newest, as far as the map knows; tombstones if they may; all without a key."""
    flags: Flags = ~keys.present | (newest.latest(keys.hashes) <= offsets)
    return flags if tombstones else flags & ~keys.tombstones


def label_of(time_ms: int | None) -> int:
    """What a compacted batch has for a sequence: since when its tombstones have been the first of their keys."""
    return CLEAN if time_ms is None else CLEAN - 1 - time_ms


def since(label: int) -> int | None:
    """The time of a label; None for a batch that has no tombstones, or was not compacted."""
    return CLEAN - 1 - label if label < CLEAN else None
