"""Entries that are likely to be there, read at the same time where a read is a request.

A process that opens the log, or is far behind, would else read as fast as others write, and never get to the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress

import pyarrow as pa

from spark_eos.errors import ObjectNotFoundError
from spark_eos.storage import Store

FAR = 8
"""A process that has found so many entries in a row, or was told of more, is far behind."""

AHEAD = 16
"""So many entries are read at a time, at most."""

BELIEVED_S = 2.0
"""What was read longer ago is read again: an entry may be retired, or the log put back from a copy."""


def likely(store: Store, in_a_row: int, announced: int) -> int:
    """How many entries to read at a time, after so many ``in_a_row``, if so many more were ``announced``.

    Where none were announced, half as many as were found: so few are asked for in vain.
    """
    if store.requests_are_free:
        return 1
    return max(1, min(announced or (in_a_row // 2 if in_a_row >= FAR else 1), AHEAD))


def read_slots(
    store: Store, names: Sequence[str], make_pool: Callable[[int, str], Executor]
) -> deque[pa.Buffer | None]:
    """What is in the slots, or in the first one at least. None stands for one that is free.

    ``make_pool`` is as `spark_eos.log.environment.Environment.pool`.
    """

    def read(name: str) -> pa.Buffer | None:
        try:
            return store.read(name)
        except ObjectNotFoundError:
            return None

    if len(names) > 1:
        with suppress(RuntimeError), make_pool(len(names), "read-ahead") as pool:
            return deque(pool.map(read, names))
        # The process ends and has no new threads: one is read after the other.
    return deque([read(names[0])])
