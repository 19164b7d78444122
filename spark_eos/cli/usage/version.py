"""``eoslog --version``."""

from __future__ import annotations

import platform
from importlib.metadata import version

import typer


def version_lines() -> list[str]:
    """This version, what it runs on, and the stored formats that it reads and writes."""
    import fastavro
    import pyarrow as pa

    from spark_eos.protocol.encoding import index_pages, snapshots
    from spark_eos.protocol.encoding.schema import written
    from spark_eos.protocol.types import RULES

    formats = {
        "entries": max(written()),
        "snapshots": max(snapshots.written()),
        "index pages": max(index_pages.written()),
    }
    newest = ", ".join(f"{name} {number}" for name, number in formats.items())
    return [
        f"eoslog {version('spark-eos')}",
        f"Python {platform.python_version()}, pyarrow {pa.__version__}, fastavro {fastavro.__version__}",
        f"formats written: {newest}, rules {RULES}; all earlier ones are read",
    ]


def show_version(value: bool) -> None:
    """The option: print and end."""
    if value:
        print("\n".join(version_lines()))
        raise typer.Exit
