"""What is wrong with rows that cannot be converted: the first reason of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.int64]


class Problems:
    """The rows that cannot be converted, by number, and why not. The first reason of a row counts."""

    def __init__(self) -> None:
        self.reasons: dict[int, str] = {}

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def __len__(self) -> int:
        return len(self.reasons)

    def add(self, rows: npt.NDArray[Any] | list[int], reason: str) -> None:
        """The same reason for some rows."""
        for row in rows.tolist() if isinstance(rows, np.ndarray) else rows:
            self.reasons.setdefault(row, reason)

    def move(self, problems: Problems, rows: npt.NDArray[Any]) -> None:
        """The problems of a selection, of which row ``i`` is ``rows[i]`` here."""
        for row, reason in problems.reasons.items():
            self.reasons.setdefault(int(rows[row]), reason)

    def mask(self, rows: int) -> npt.NDArray[np.bool_]:
        """Of so many rows, which ones have a problem."""
        mask = np.zeros(rows, np.bool_)
        if self.reasons:
            mask[list(self.reasons)] = True
        return mask


def without(array: pa.Array, problems: Problems) -> pa.Array:
    """The array, null in each row with a problem."""
    if not problems:
        return array
    keep = np.flatnonzero(~problems.mask(len(array)))
    indices = np.full(len(array), -1, np.int64)
    indices[keep] = keep
    return array.take(pa.array(indices, mask=indices < 0))
