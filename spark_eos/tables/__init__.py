"""Topics as tables of open formats: Delta and Iceberg over the log's own sealed files, or over copies of them."""

from __future__ import annotations

from spark_eos.tables.publisher import Published, Publisher
from spark_eos.tables.tables import Table, Tables, TableVersion

__all__ = ["Published", "Publisher", "Table", "TableVersion", "Tables"]
