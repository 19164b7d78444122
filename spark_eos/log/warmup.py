"""What is loaded and parsed before the first commit, and not in it: others may be waiting for that one.

On a machine that has much to do, loading a library in the first commit of a process took seconds, during which that
process led the others.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from spark_eos.protocol.encoding import index_pages, snapshots
from spark_eos.protocol.encoding.schema import newest


@cache
def ready_to_commit() -> None:
    """Load what writes and reads entries, snapshots and pages, and parse their schemas."""
    newest()
    snapshots.schemas()
    index_pages.schemas()


@cache
def ready_for_columns() -> None:
    """Load what Arrow needs to make columns of Python's values: before the first ones it looks for pandas."""
    pa.array([b"", None], pa.binary())
