"""What commands print: tables for people, and one JSON object per line for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from spark_eos.cli.usage.table import Columns

NOTHING = "-"
"""Stands in a table where there is no value (as in Kafka's tools)."""

PAGES = "https://github.com/spark-eos/spark-eos/blob/main/docs/"
"""Where the pages are that commands name."""


def print_json(value: Mapping[str, object]) -> None:
    """One object, one line."""
    print(json.dumps(value, default=str))


def print_table(columns: Columns, rows: Iterable[Sequence[object]]) -> None:
    """A table, drawn on a terminal; elsewhere columns of plain text. None and empty text become a dash.

    Ids and points in time are names, not numbers: they are given as text.
    """
    lines = [[_cell(cell) for cell in row] for row in (columns.names, *rows)]
    if sys.stdout.isatty():
        _draw(lines[0], lines[1:])
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def figure(number: int) -> str:
    """A number in a table: ``56,017`` on a terminal, as on the page; elsewhere ``56017``, for ``awk`` and its like."""
    return f"{number:,}" if sys.stdout.isatty() else str(number)


def _cell(cell: object) -> str:
    if isinstance(cell, int) and not isinstance(cell, bool):
        return figure(cell)
    return NOTHING if cell is None or cell == "" else printable(str(cell))


def printable(text: str) -> str:
    """Text that cannot break a line or steer a terminal: what is not printable is written as in Python."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def _draw(header: list[str], rows: list[list[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=box.ROUNDED)
    for name, *cells in zip(header, *rows, strict=True):
        is_number = any(cell != NOTHING for cell in cells) and all(map(_is_number, cells))
        table.add_column(Text(name), justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    width = console.measure(table, options=console.options.update(max_width=sys.maxsize)).maximum
    if width <= console.width:
        console.print(table)
        return
    if not rows:
        console.print(Text("  ".join(header), style="bold"), soft_wrap=True)
    # Too wide for this terminal: each row as a list of its own, as psql does it.
    for row in rows:
        record = Table(box=box.ROUNDED, show_header=False)
        record.add_column(style="bold", overflow="fold", max_width=max(console.width // 2 - 4, 1))
        record.add_column(overflow="fold")
        for name, cell in zip(header, row, strict=True):
            record.add_row(Text(name), Text(cell))
        console.print(record)


def _is_number(cell: str) -> bool:
    return cell == NOTHING or cell.lstrip("-").replace(",", "").isdecimal()
