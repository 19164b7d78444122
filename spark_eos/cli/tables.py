"""What commands print: tables for people, and one JSON object per line for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["NOTHING", "print_json", "print_table"]

NOTHING = "-"
"""Stands in a table where there is no value (as in Kafka's tools)."""


def print_json(value: Mapping[str, object]) -> None:
    """One object, one line."""
    print(json.dumps(value, default=str))


def print_table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their longest cell; None and empty text become a dash."""
    lines = [
        [NOTHING if cell is None or cell == "" else str(cell) for cell in row] for row in (header, *rows)
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
