"""A topic as a table of Delta and as one of Iceberg, read by their own libraries."""

import os
from pathlib import Path

from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from spark_eos import Producer
from spark_eos.extensions.tables.tables import Tables

CATALOG = f"sqlite:///{Path('catalog.db').absolute()}"
os.environ["PYICEBERG_CATALOG__NIGHTLY__URI"] = CATALOG
with Producer("log") as producer:
    producer.send("orders", b"one")
tables = Tables("log")
tables.create("delta", ["orders"], "delta")
tables.create("iceberg", ["orders"], "iceberg", config={"catalog": "nightly", "namespace": "shop"})
for name in ("delta", "iceberg"):
    tables.publish(name)
where = {table.publication: table.location for table in tables.list_tables()}
found = [
    DeltaTable(where["delta"]).to_pyarrow_table(),
    load_catalog("nightly", uri=CATALOG).load_table("shop.orders").scan().to_arrow(),
]
assert [table["value"].to_pylist() for table in found] == [[b"one"], [b"one"]]
