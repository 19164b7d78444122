"""What an extension adds to ``eoslog``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import typer

from spark_eos.cli.usage.table import Columns


class Added(NamedTuple):
    """Commands of an extension, with examples for each (`spark_eos.cli.usage.examples`), and the tables they print."""

    app: typer.Typer
    examples: Mapping[str, tuple[str, ...]]
    tables: tuple[Columns, ...] = ()
