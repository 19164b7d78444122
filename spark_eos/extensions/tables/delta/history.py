"""The commits of a Delta table with their right numbers, also while other processes commit."""

from __future__ import annotations

from typing import Any

from spark_eos.errors import TableChangedError

_LOOKS = 50
"""A history during which the table was changed is read again so often."""


def history(table: Any, limit: int | None) -> list[dict[str, Any]]:
    """The commits, the newest first; ``table`` is at the newest one afterwards.

    delta-rs lists the commits that are there, and numbers them from the version that the table was opened at: if one
    has come since, all numbers are wrong. So it is asked until none has come. Raises `TableChangedError`.
    """
    for _ in range(_LOOKS):
        native = table.version()
        commits: list[dict[str, Any]] = table.history(limit)
        table.update_incremental()
        if table.version() == native:
            return commits
    raise TableChangedError("other processes commit to the Delta table faster than its history can be read")
