"""Lanes: many encoded values that are read side by side, each step for all of them at once.

Avro's values have no fixed places: where a field begins depends on what is before it. So one value cannot be read by
columns, but many can: the first field of all rows, then the second field of all rows, each by a few calls of NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.log.values.problems import Problems

Numbers = npt.NDArray[np.int64]


class Lanes:
    """Positions in one buffer: where the rest of each value begins and ends, and of which row it is.

    Lanes are in the order of the buffer. A lane with a problem is at its end.
    """

    __slots__ = ("at", "buffer", "data", "end", "problems", "rows")

    def __init__(
        self, buffer: pa.Buffer, at: Numbers, end: Numbers, rows: Numbers, problems: Problems
    ) -> None:
        self.buffer, self.at, self.end, self.rows, self.problems = buffer, at, end, rows, problems
        self.data: npt.NDArray[np.uint8] = np.frombuffer(buffer, np.uint8)

    @staticmethod
    def of(values: pa.Array, skip: int, problems: Problems) -> Lanes:
        """The lanes of a binary array without nulls, whose first ``skip`` bytes are no part of the values."""
        offsets: Numbers = (
            np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
        ).astype(np.int64)
        buffer = values.buffers()[2] or pa.py_buffer(b"")
        return Lanes(buffer, offsets[:-1] + skip, offsets[1:].copy(), np.arange(len(values)), problems)

    def __len__(self) -> int:
        return len(self.at)

    def some(self, numbers: npt.NDArray[Any]) -> Lanes:
        """Some of the lanes, by number, in order. What is read there is read here after `put_back`."""
        lanes: Lanes = object.__new__(Lanes)
        lanes.buffer, lanes.data, lanes.problems = self.buffer, self.data, self.problems
        lanes.at, lanes.end, lanes.rows = self.at[numbers], self.end[numbers], self.rows[numbers]
        return lanes

    def put_back(self, numbers: npt.NDArray[Any], read: Lanes) -> None:
        """Where the lanes of `some` have come to."""
        self.at[numbers] = read.at

    def fail(self, lanes: npt.NDArray[Any], reason: str) -> None:
        """These lanes, by number, cannot be read."""
        if len(lanes):
            self.problems.add(self.rows[lanes], reason)
            self.at[lanes] = self.end[lanes]

    def take(self, size: int | Numbers, path: str) -> tuple[Numbers, Numbers]:
        """Go on by so many bytes: where they begin, and how many there are (0 in a lane that has fewer)."""
        sizes = np.broadcast_to(np.asarray(size, np.int64), len(self)).copy()
        wrong = np.flatnonzero((sizes < 0) | (sizes > self.end - self.at))
        if len(wrong):
            self.fail(wrong, f"field {path}: the value ends early, or its length is wrong")
            sizes[wrong] = 0
        start = self.at.copy()
        self.at += sizes
        return start, sizes

    def longs(self, path: str) -> Numbers:
        """The next number of each lane, of variable length; 0 where there is none."""
        short = self.at >= self.end
        if short.any():
            return self._long_numbers(path)
        first = self.data[self.at]
        if (first & 0x80).any():
            return self._long_numbers(path)
        self.at += 1
        small = first.astype(np.int64)
        return (small >> 1) ^ -(small & 1)

    def _long_numbers(self, path: str) -> Numbers:
        value = np.zeros(len(self), np.uint64)
        open_lanes = np.arange(len(self))
        for shift in range(0, 70, 7):
            short = self.at[open_lanes] >= self.end[open_lanes]
            if short.any():
                self.fail(open_lanes[short], f"field {path}: the value ends early")
                value[open_lanes[short]] = 0
                open_lanes = open_lanes[~short]
            byte = self.data[self.at[open_lanes]]
            self.at[open_lanes] += 1
            value[open_lanes] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            open_lanes = open_lanes[byte >= 0x80]
            if not len(open_lanes):
                break
        else:
            self.fail(open_lanes, f"field {path}: a number is longer than 10 bytes")
            value[open_lanes] = 0
        signed: Numbers = (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
        return signed

    def words(self, size: int, dtype: str, path: str) -> npt.NDArray[Any]:
        """The next value of each lane, of so many bytes, as a NumPy type."""
        start, sizes = self.take(size, path)
        bad = sizes != size
        if bad.any():
            words = np.zeros((len(self), size), np.uint8)
            good = np.flatnonzero(~bad)
            words[good] = self.data[start[good, None] + np.arange(size)]
        else:
            words = self.data[start[:, None] + np.arange(size)]
        return words.view(dtype)[:, 0] if len(words) else np.zeros(0, dtype)

    def slices(self, start: Numbers, sizes: Numbers) -> pa.Array:
        """The bytes from each start on, as a binary array."""
        count = len(start)
        if not count:
            return pa.array([], pa.binary())
        # Values and the bytes between them, in turn: every second one is a value. Arrow copies them.
        bounds = np.empty(2 * count, np.int32)
        bounds[0::2], bounds[1::2] = start, start + sizes
        with_gaps = pa.Array.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), self.buffer]
        )
        return with_gaps.take(pa.array(np.arange(0, 2 * count, 2)))
