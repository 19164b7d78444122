"""A log with topics that are published, and the comparison of a table's version with a read of the log."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable

from spark_eos import Admin, Log, read_arrow
from spark_eos.extensions.tables.tables import Tables
from spark_eos.log.topics import schema_of
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.storage.objects.library_options import library_options

TYPED = pa.schema([("id", pa.int64()), ("name", pa.string())])

KAFKA = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def typed_row(number):
    return {"id": number, "name": f"n{number}"}


def kafka_row(number):
    return {"key": b"k%d" % (number % 3), "value": b"v%d" % number}


ROWS = {"orders": typed_row}


class World:
    """A log with a Kafka-shaped topic ``events`` and a typed one ``orders``, of two partitions each."""

    def __init__(self, url, settings=None, log=None):
        self.url = str(url)
        self.settings = settings
        self.log = log or Log.open_or_create(self.url, **({"settings": settings} if settings else {}))
        self.admin = Admin(self.log)
        self.admin.create_topic("events", 2)
        self.admin.create_topic("orders", 2, schema=TYPED)
        self.tables = Tables(self.log)
        self.count = 0

    def write(self, rows=3, topics=("events", "orders"), make=None):
        """So many rows into each partition, in one entry. ``make`` gives the row of a number, by topic."""
        files = []
        for name in topics:
            topic = self.log.topic(name)
            schema = schema_of(topic) or KAFKA
            make_row = ROWS.get(name, kafka_row) if make is None or name not in make else make[name]
            with self.log.stage(topic) as writer:
                for partition in range(topic.partitions):
                    made = [make_row(number) for number in range(self.count, self.count + rows)]
                    self.count += rows
                    writer.append(pa.RecordBatch.from_pylist(made, schema), partition)
                files += writer.finish()
        ids = tuple((name, self.log.topic(name).topic_id) for name in topics)
        return self.log.commit(lambda _: (AppendBatches(NO_PRODUCER, ids, tuple(files)),)).state.seq

    def check(self, name="p", topics=("events", "orders"), *, location=None):
        """Every version that every table has is the log's rows as of the entry that it names, up to its own ends."""
        checked = 0
        for version in self.tables.versions(name):
            if version.topic not in topics:
                continue
            (table,) = [
                one
                for one in self.tables.list_tables()
                if (one.publication, one.topic) == (name, version.topic)
            ]
            found = rows_of(table.location, version.version, self.settings)
            wanted = self.expected(version.topic, version.entry, [*found.schema.names])
            assert found == until(wanted, version.offsets)
            checked += 1
        return checked

    def expected(self, topic, entry, names):
        read = read_arrow(self.log, topic, as_of=entry, columns=names).read_all()
        return in_order(read)


def rows_of(location, version=None, settings=None):
    options = library_options(location, settings) if settings else None
    table = DeltaTable(location, version=version, storage_options=options)
    return in_order(table.to_pyarrow_dataset().to_table())


def until(table, offsets):
    """The rows before the ends of their partitions."""
    prefix = "" if "offset" in table.schema.names else "_"
    places = zip(table[f"{prefix}partition"].to_pylist(), table[f"{prefix}offset"].to_pylist(), strict=True)
    return table.filter(pa.array([offset < offsets[number][1] for number, offset in places], pa.bool_()))


def in_order(table):
    """The rows by their places; timestamps in milliseconds, as the log has them."""
    prefix = "" if "offset" in table.schema.names else "_"
    table = table.sort_by([(f"{prefix}partition", "ascending"), (f"{prefix}offset", "ascending")])
    at = table.schema.get_field_index(f"{prefix}timestamp")
    table = table.set_column(at, f"{prefix}timestamp", table.column(at).cast(pa.timestamp("ms", "UTC")))
    schema = pa.schema([pa.field(field.name, field.type) for field in table.schema])
    return pa.Table.from_pylist(table.to_pylist(), schema=schema)
