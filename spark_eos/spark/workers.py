"""Spark's Python workers, which run task after task."""

from __future__ import annotations

import gc
import sys
from functools import cache

from pyspark import TaskContext


def freeze_imports() -> None:
    """Leave what a worker has imported out of the garbage collection that Spark asks for after every task.

    ``pyspark.daemon`` calls ``gc.collect()`` before a worker takes its next task. With pyspark, pandas and pyarrow
    loaded that is a walk over 80,000 objects that never change, which took 36 ms where reading 16 MB took 10. In
    a worker only, and only if it has imported something since: all else is collected as ever.
    """
    if TaskContext.get() is not None:
        _freeze(len(sys.modules))


@cache
def _freeze(modules: int) -> None:  # noqa: ARG001 - what it is cached by
    gc.freeze()
