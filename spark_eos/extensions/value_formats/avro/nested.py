"""Avro values with parts, to Arrow columns: unions, records, arrays and maps, all rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.extensions.value_formats.avro.decoder import Decoder, NullDecoder
from spark_eos.extensions.value_formats.avro.lanes import Lanes

MOST_EMPTY_ITEMS = 100_000
"""Items of an array that take no bytes (nulls) are believed up to this number."""


@dataclass
class UnionDecoder(Decoder):
    """union: the number of a branch, and its value. Each branch's decoder returns the same type."""

    path: str
    branches: Sequence[Decoder]
    type: pa.DataType

    def read(self, lanes: Lanes) -> pa.Array:
        numbers = lanes.longs(self.path)
        wrong = (numbers < 0) | (numbers >= len(self.branches))
        lanes.fail(np.flatnonzero(wrong), f"field {self.path}: the union has no branch of that number")
        parts = [pa.nulls(1, self.type)]
        places = np.zeros(len(lanes), np.int64)
        length = 1
        for number, branch in enumerate(self.branches):
            members = np.flatnonzero(numbers == number)
            if not len(members):
                continue
            branch_lanes = lanes.some(members)
            part = branch.read(branch_lanes)
            lanes.put_back(members, branch_lanes)
            if len(members) == len(lanes):
                return part
            if isinstance(branch, NullDecoder):
                continue  # All of them are the first one of the parts.
            parts.append(part)
            places[members] = length + np.arange(len(members))
            length += len(members)
        return pa.concat_arrays(parts).take(pa.array(places))


@dataclass
class RecordDecoder(Decoder):
    """record: its fields one after the other.

    ``writer_fields`` has a decoder for each field as it was written, and the number of the reader's field that it is
    for (None: for none); ``defaults`` an array of one value for each of the others.
    """

    path: str
    writer_fields: Sequence[tuple[Decoder, int | None]]
    defaults: dict[int, pa.Array]
    fields: Sequence[pa.Field]

    def read(self, lanes: Lanes) -> pa.StructArray:
        return pa.StructArray.from_arrays(self.columns(lanes), fields=list(self.fields))

    def columns(self, lanes: Lanes) -> list[pa.Array]:
        """The reader's fields."""
        by_place: dict[int, pa.Array] = {}
        for decoder, place in self.writer_fields:
            array = decoder.read(lanes)
            if place is not None:
                by_place[place] = array
        zeros = pa.array(np.zeros(len(lanes), np.int32)) if self.defaults else None
        for place, value in self.defaults.items():
            by_place[place] = value.take(zeros)
        return [by_place[place] for place in range(len(self.fields))]


@dataclass
class Fields:
    """The fields of a struct that another decoder reads, as columns."""

    inner: Decoder
    fields: Sequence[pa.Field]

    def columns(self, lanes: Lanes) -> list[pa.Array]:
        """The fields; null where the struct is."""
        arrays: list[pa.Array] = self.inner.read(lanes).flatten()
        return arrays


@dataclass
class ArrayDecoder(Decoder):
    """array: blocks of items, each with their number in front; a block of none is the last one."""

    path: str
    items: Decoder
    type: pa.DataType
    least_bytes: int
    """What an item takes at least."""

    def read(self, lanes: Lanes) -> pa.Array:
        offsets, items = _blocks(lanes, self.items, self.path, self.least_bytes)
        return pa.ListArray.from_arrays(offsets, items).cast(self.type)


@dataclass
class MapDecoder(Decoder):
    """map: as an array of keys and values. ``entry`` reads both."""

    path: str
    entry: RecordDecoder
    type: pa.DataType
    least_bytes: int

    def read(self, lanes: Lanes) -> pa.Array:
        offsets, entries = _blocks(lanes, self.entry, self.path, self.least_bytes)
        return pa.MapArray.from_arrays(offsets, entries.field(0), entries.field(1)).cast(self.type)


def _blocks(lanes: Lanes, items: Decoder, path: str, least: int) -> tuple[pa.Array, pa.Array]:
    """Where each lane's items begin, and all items."""
    count = len(lanes)
    parts: list[pa.Array] = []
    owners: list[npt.NDArray[Any]] = []
    totals = np.zeros(count, np.int64)
    items_left = np.zeros(count, np.int64)  # items of the block that each lane is in
    open_ = np.arange(count)
    while len(open_):
        fresh = open_[items_left[open_] == 0]
        if len(fresh):
            items_left[fresh] = _block_sizes(lanes, fresh, totals, path, least)
            open_ = open_[items_left[open_] > 0]
            continue
        open_lanes = lanes.some(open_)
        parts.append(items.read(open_lanes))
        lanes.put_back(open_, open_lanes)
        owners.append(open_)
        totals[open_] += 1
        items_left[open_] -= 1
        at_end = (lanes.at[open_] >= lanes.end[open_]) & (items_left[open_] > 0) & (least > 0)
        lanes.fail(open_[at_end], f"field {path}: the value ends early")
        items_left[open_[at_end]] = 0
        open_ = open_[~at_end]
    offsets = pa.array(np.concatenate([[0], np.cumsum(totals)]).astype(np.int32))
    if not parts:
        return offsets, items.read(lanes.some(np.zeros(0, np.int64)))
    order = np.argsort(np.concatenate(owners), kind="stable")
    return offsets, pa.concat_arrays(parts).take(pa.array(order))


def _block_sizes(
    lanes: Lanes, fresh: npt.NDArray[Any], totals: npt.NDArray[Any], path: str, least: int
) -> npt.NDArray[Any]:
    """The number of items of the next block of some lanes; 0 after the last one."""
    fresh_lanes = lanes.some(fresh)
    sizes = fresh_lanes.longs(path)
    sized = np.flatnonzero(sizes < 0)
    if len(sized):  # The number of bytes follows, for those who pass over the block.
        measured = fresh_lanes.some(sized)
        measured.longs(path)
        fresh_lanes.put_back(sized, measured)
        sizes = np.abs(sizes)
    most = (fresh_lanes.end - fresh_lanes.at) // least if least else MOST_EMPTY_ITEMS - totals[fresh]
    wrong = (sizes > most) | (sizes < 0)
    fresh_lanes.fail(
        np.flatnonzero(wrong), f"field {path}: a block has more items than the value has room for"
    )
    sizes[wrong] = 0
    lanes.put_back(fresh, fresh_lanes)
    return sizes
