"""Kafka's murmur2 over whole Arrow columns, without a Python step per row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.errors import SchemaMismatchError

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_MASK = 0xFFFFFFFF

_ENDS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)
"""The bits of a word that holds the last 0 to 3 bytes of a key."""

_BLOCK_ROWS = 8192
"""Rows hashed at a time: their state stays in the processor's cache."""

_FEW_ROWS = 16
"""With fewer keys than this still going, a step of NumPy costs more than one of Python for each."""

_SHORT_BYTES = 16
"""Keys up to this length are hashed as they lie: a few steps for nothing cost less than to sort them."""

_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint32]
_Longs = npt.NDArray[np.int64]


def murmur2(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """Kafka's ``Utils.murmur2`` of each value of a binary or string column, as int32; null has 0.

    Raises `SchemaMismatchError` for a column of another type.
    """
    if isinstance(column, pa.ChunkedArray):
        hashes = [murmur2(chunk) for chunk in column.chunks]
        return np.concatenate(hashes) if hashes else np.zeros(0, np.int32)
    data, starts, lengths = _ranges(column)
    result = np.empty(len(column), np.uint32)
    for first in range(0, len(column), _BLOCK_ROWS):
        rows = slice(first, first + _BLOCK_ROWS)
        result[rows] = _hash(data, starts[rows], lengths[rows])
    if column.null_count:
        result[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return result.view(np.int32)


def hash_matrix(keys: _Bytes) -> npt.NDArray[np.int32]:
    """murmur2 of each row of a C-contiguous matrix of bytes."""
    rows, width = keys.shape
    return murmur2(pa.Array.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(keys)]))


def _ranges(column: pa.Array) -> tuple[_Bytes, _Longs, _Longs]:
    """The bytes of a column, and where in them each value starts and how long it is."""
    types, kind = pa.types, column.type
    if types.is_fixed_size_binary(kind):
        width = kind.byte_width
        starts = np.arange(column.offset, column.offset + len(column), dtype=np.int64) * width
        return _view(column.buffers()[1]), starts, np.full(len(column), width, np.int64)
    if types.is_binary(kind) or types.is_string(kind):
        offset_type: type[np.signedinteger] = np.int32
    elif types.is_large_binary(kind) or types.is_large_string(kind):
        offset_type = np.int64
    elif types.is_binary_view(kind) or types.is_string_view(kind):
        return _ranges(column.cast(pa.large_binary()))
    else:
        raise SchemaMismatchError(
            f"murmur2 hashes binary and string columns, not {kind}; encode the column first"
        )
    if not len(column):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, offset_buffer, data = column.buffers()
    raw = np.frombuffer(offset_buffer, offset_type)[column.offset : column.offset + len(column) + 1]
    offsets = raw.astype(np.int64)
    return _view(data), offsets[:-1], np.diff(offsets)


def _view(buffer: pa.Buffer | None) -> _Bytes:
    return np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _hash(data: _Bytes, starts: _Longs, lengths: _Longs) -> _Words:
    """Hash the keys ``data[start : start + length]``, the longest first: those still going stay in front."""
    longest = int(lengths.max())
    if int(lengths.min()) == longest:
        return _hash_sorted(data, starts, lengths)
    if longest <= _SHORT_BYTES:
        return _hash_short(data, starts, lengths)
    shortness = longest - lengths
    # A stable sort of 16-bit numbers is a radix sort, ten times as fast as that of wider ones.
    order = np.argsort(shortness.astype(np.uint16) if longest < 1 << 16 else shortness, kind="stable")
    result = np.empty(len(lengths), np.uint32)
    result[order] = _hash_sorted(data, starts[order], lengths[order])
    return result


def _hash_sorted(data: _Bytes, starts: _Longs, lengths: _Longs) -> _Words:
    state: _Words = _SEED ^ lengths.astype(np.uint32)
    # Any four bytes of the data as a little-endian word: words overlap, one begins at each byte.
    if len(data) < 4:
        data = np.concatenate([data, np.zeros(4, np.uint8)])
    words: _Words = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))
    position = starts.copy()
    whole = lengths >> 2
    steps = int(whole[_FEW_ROWS - 1]) if len(whole) >= _FEW_ROWS else 0
    # going[i]: how many keys have more than i whole words.
    going = len(whole) - np.cumsum(np.bincount(np.minimum(whole, steps)))[:steps]
    width = int(lengths[0])
    uniform = lengths[-1] == width and starts[-1] - starts[0] == width * (len(starts) - 1)
    for count in going.tolist():
        front = position[:count]
        # Keys of one length lie at equal distances: a strided view is cheaper than an index.
        chosen = words[front[0] : front[-1] + 1 : width] if uniform else words[front]
        state[:count] = (state[:count] * _M) ^ _mix(chosen)
        front += 4
    _finish_few(words, position, state, whole[: _FEW_ROWS - 1] - steps)
    tail_length = lengths & 3
    # The last one to three bytes; near the end of the data the word that holds them begins before them.
    within = np.minimum(position, len(words) - 1)
    tail = words[within] >> ((position - within) << 3).astype(np.uint32)
    tail &= (np.uint32(1) << (tail_length << 3).astype(np.uint32)) - np.uint32(1)
    state = np.where(tail_length > 0, (state ^ tail) * _M, state)
    return _finish(state)


def _hash_short(data: _Bytes, starts: _Longs, lengths: _Longs) -> _Words:
    """Hash keys that lie one after the other: all take as many steps as the longest, and some do not count."""
    first, end = int(starts[0]), int(starts[-1] + lengths[-1])
    padded = np.zeros(end - first + 4, np.uint8)
    padded[:-4] = data[first:end]
    # The word that begins at each byte, copied out: NumPy takes aligned words four times as fast as others.
    words: _Words = np.ascontiguousarray(np.ndarray((end - first + 1,), "<u4", padded, strides=(1,)))
    position = starts - first
    state: _Words = _SEED ^ lengths.astype(np.uint32)
    whole = lengths >> 2
    for step in range(int(whole.max())):
        # A key that has ended stays at its end: the word there does not count.
        mixed = _mix(words[position])
        mixed ^= state * _M
        going = whole > step
        state ^= (mixed ^ state) & _all_bits(going)
        position += going.astype(np.int64) << 2
    tail_length = lengths & 3
    tail = words[position] & _ENDS[tail_length]
    mixed = (state ^ tail) * _M
    state ^= (mixed ^ state) & _all_bits(tail_length > 0)
    return _finish(state)


def _all_bits(chosen: npt.NDArray[np.bool_]) -> _Words:
    """Words of ones where ``chosen``, else of zeros: to choose by ``&`` does not depend on guesses of branches."""
    return np.negative(chosen.astype(np.uint32))


def _finish(state: _Words) -> _Words:
    state ^= state >> np.uint32(13)
    state *= _M
    state ^= state >> np.uint32(15)
    return state


def _mix(words: _Words) -> _Words:
    mixed: _Words = words * _M
    mixed ^= mixed >> np.uint32(24)
    mixed *= _M
    return mixed


def _finish_few(words: _Words, position: _Longs, state: _Words, left: _Longs) -> None:
    """The remaining whole words of the few longest keys: mixed all at once, chained one by one."""
    factor = int(_M)
    for row, count in enumerate(left.tolist()):
        if count <= 0:
            break
        start = int(position[row])
        value = int(state[row])
        for mixed in _mix(words[start : start + 4 * count : 4]).tolist():
            value = (value * factor & _MASK) ^ mixed
        state[row] = value
        position[row] = start + 4 * count
