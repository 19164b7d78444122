"""Arrow arrays straight from numbers.

``pa.array`` and ``pa.scalar`` import pandas before they do anything: 0.3 s in every new worker of Spark, and 30,000
objects more for each of its garbage collections.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["array_from_numpy", "constant_array"]


def array_from_numpy(values: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    """An array of ``type_``, none of them null, in the memory of ``values``: as wide as the type, without gaps."""
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])


def constant_array(value: int | str, type_: pa.DataType, count: int) -> pa.Array:
    """``count`` times the same value: of text, or of a type that holds whole numbers."""
    if isinstance(value, int):
        return array_from_numpy(np.full(count, value, f"i{type_.bit_width // 8}"), type_)
    text = value.encode()
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
    return pa.Array.from_buffers(type_, count, [None, pa.py_buffer(ends), pa.py_buffer(text * count)])
