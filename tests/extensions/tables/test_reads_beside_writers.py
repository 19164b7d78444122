"""Whole reads, and a stream that goes on from a published version, while writers and maintenance are at work."""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pytest

from spark_eos import Admin, Log, Producer, read_duckdb, read_polars
from spark_eos.clients.table_plan import plan_table
from spark_eos.extensions.tables.tables import Tables
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.spark.options import parse_any_source, parse_source
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.topics import source_schema
from spark_eos.spark.version import ReadAllAvailable
from tests.extensions.tables.world import rows_of

SCHEMA = pa.schema([("n", pa.int64())])
COLUMNS = ["n", "_partition", "_offset"]


class Writer:
    """Transactions, numbered: each has one row in both partitions, every fourth one is aborted."""

    def __init__(self, url):
        self.url = url
        self.begun = 0
        self.stopping = False
        with Admin(url) as admin:
            config = {"segment.format": "parquet", "file.delete.delay.ms": "0"}
            admin.create_topic("t", 2, config, schema=SCHEMA)

    def write(self, most):
        with Producer(self.url, {"transactional.id": "w", "linger.ms": 0}) as producer:
            producer.init_transactions()
            while self.begun < most and not self.stopping:
                producer.begin_transaction()
                for partition in (0, 1):
                    producer.send_arrow(
                        "t", pa.table({"n": [self.begun]}, schema=SCHEMA), partition=partition
                    )
                producer.abort_transaction() if self.begun % 4 == 3 else producer.commit_transaction()
                self.begun += 1

    @contextmanager
    def writing(self, most):
        thread = threading.Thread(target=self.write, args=(most,))
        thread.start()
        try:
            yield
        finally:
            self.stopping = True
            thread.join()


def committed(last):
    return [number for number in range(last + 1) if number % 4 != 3]


def check(rows, known):
    """The rows are those of the log at one moment, not before ``known`` transactions were done. How many there are."""
    found = {0: [], 1: []}
    for number, partition, _ in sorted(rows, key=lambda row: row[2]):
        found[partition].append(number)
    assert found[0] == found[1], "a transaction is torn"
    assert found[0] == committed(found[0][-1] if found[0] else -1), "a row is missing, or there twice"
    assert len(found[0]) >= len(committed(known - 1))
    return len(found[0])


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2))
def test_whole_reads_beside_writers_maintenance_and_vacuum(tmp_path, seed):
    """At the smallest ages: a file that a read has planned may be gone, and then the read says so."""
    chance = random.Random(seed)
    writer = Writer(str(tmp_path / "log"))
    log = Log.shared(writer.url)
    maintainer = Maintainer(Log.open(writer.url), min_age_s=30, tail_rows=2)
    connection = duckdb.connect()
    exact = sealed = 0
    with writer.writing(10_000):
        while exact < 12 or (not sealed and exact < 500):
            known = writer.begun
            plans = {
                "polars": lambda: read_polars(log, "t", columns=COLUMNS),
                "duckdb": lambda: read_duckdb(connection, log, "t", columns=COLUMNS),
            }
            engine = chance.choice([*plans])
            frame = plans[engine]()
            if chance.random() < 0.7:
                list(maintainer.run(wait=False))
            try:
                rows = frame.collect().rows() if engine == "polars" else frame.fetchall()
            except Exception as error:  # noqa: BLE001  (each engine has its own)
                assert any(place in str(error) for place in ("_segments", "data/t-")), error  # noqa: PT017
                continue
            check(rows, known)
            exact += 1
            sealed += bool(plan_table(log, "t").files)
    assert sealed


def test_backfill_then_stream(tmp_path):
    """Each committed row once: from the version of the table, or from the stream that goes on where it ends."""
    writer = Writer(str(tmp_path / "log"))
    tables = Tables(Log.open(writer.url))
    tables.create("p", ["t"])
    with writer.writing(10_000):
        versions = []
        while len(versions) < 3:
            if writer.begun > 20 * (len(versions) + 1):
                versions.append(tables.publish("p").versions["t"])
        (table,) = tables.list_tables()
        streams = {}
        for version in versions:
            options = {"path": writer.url, "subscribe": "t", "columns": ",".join(COLUMNS)}
            options |= {"startingTable": table.location, "startingTableVersion": str(version)}
            columns = source_schema(parse_any_source(options))
            reader = EosLogStreamReader(parse_source(options, streaming=True), columns)
            streams[version] = (reader, [reader.initialOffset()], [])
        for _ in range(3):
            for stream in streams.values():
                _advance(*stream)
    for version, stream in streams.items():
        _advance(*stream)
        history = rows_of(table.location, version).select(COLUMNS).to_pylist()
        rows = [tuple(row[name] for name in COLUMNS) for row in (*history, *stream[2])]
        assert history
        assert stream[2]
        assert check(rows, writer.begun) == len(committed(writer.begun - 1))


def _advance(reader, offsets, rows):
    """A micro-batch, as Spark makes it."""
    end = reader.latestOffset(offsets[-1], ReadAllAvailable())
    for task in reader.partitions(offsets[-1], end):
        for batch in reader.read(task):
            rows += batch.to_pylist()
    offsets.append(end)
