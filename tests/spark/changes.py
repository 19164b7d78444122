"""Every option of the Spark source and sink, changed between two runs: what is done, and what comes of it.

`CHANGES` are small programs. Each does a first run, changes, adds or drops an option, does a second run, and looks
at what the second run did, or at how it was refused. They run on an engine: `Driven` calls the classes that Spark
calls, in Spark's order and without Spark; `OnSpark` is Spark. docs/reference/changed-options.md is written from the
same list.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql.datasource import GreaterThanOrEqual

from spark_eos.errors import EosLogError
from spark_eos.log.data.arrow_file import compression_of
from spark_eos.spark.batch.writer import EosLogBatchWriter
from spark_eos.spark.datasource import EosLogDataSource
from spark_eos.spark.options import parse_any_source, parse_sink, parse_source
from spark_eos.spark.schema import arrow_schema
from spark_eos.spark.sink.sink import EosLogStreamWriter
from spark_eos.spark.source.batch import EosLogBatchReader
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.start import start_query
from spark_eos.spark.topics import source_schema

LEFT_OUT = ("topic", "partition", "offset", "timestamp", "timestampType")
"""Columns of a Kafka-shaped topic that a copy does not take along."""


class Change(NamedTuple):
    """``run`` does it on an engine; ``option``, ``changed`` and ``outcome`` are the row of the table.

    ``needs`` is the extension without which it cannot be run.
    """

    use: str
    option: str
    changed: str
    outcome: str
    run: Callable[[Engine], None]
    needs: str | None = None

    @property
    def id(self) -> str:
        return f"{self.use}: {self.option}: {self.changed}".replace(" ", "-")


class Engine:
    """A log with a topic ``src`` of ten rows, and a query that copies from it to the topic ``out``."""

    def __init__(self, bench, folder, benches):
        self.bench, self.folder, self.benches = bench, Path(folder), benches
        self.bench.topic("src")
        self.fill(0, 10)

    def fill(self, first, end, topic="src", bench=None):
        (bench or self.bench).produce(topic, range(first, end))

    def source(self, given):
        options = {"path": self.bench.url, "subscribe": "src", "startingOffsets": "earliest", **(given or {})}
        return {name: str(value) for name, value in options.items() if value is not None}

    def sink(self, given):
        location = str(self.folder / "checkpoint")
        options = {"path": self.bench.url, "topic": "out", "checkpointLocation": location, **(given or {})}
        return {name: str(value) for name, value in options.items() if value is not None}

    def batch_sink(self, given):
        options = {"path": self.bench.url, "topic": "out", **(given or {})}
        return {name: str(value) for name, value in options.items() if value is not None}

    # -- what came of it ----------------------------------------------------------------------------------

    def out(self, topic="out", bench=None):
        return (bench or self.bench).values(topic)

    def ends(self, checkpoint="checkpoint"):
        """Up to where each micro-batch has read ``src-0``."""
        files = sorted((self.folder / checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        return [json.loads(path.read_text().splitlines()[2])["src"]["0"] for path in files]

    def tasks_of(self, run):
        """How many tasks have written rows in this run of one micro-batch: each writes a file."""
        before = self.bench.files("out") if "out" in self.bench.state.topics else set()
        run()
        return len(self.bench.files("out") - before)

    def forget_last_commit(self):
        """Of Spark: it has not noted that the last micro-batch is done."""
        commits = self.folder / "checkpoint" / "commits"
        number = max(int(path.name) for path in commits.glob("[0-9]*"))
        for name in (str(number), f".{number}.crc"):
            (commits / name).unlink(missing_ok=True)

    def codecs(self, topic="out"):
        """How each batch of the topic is compressed, in order."""
        store = self.bench.log.store
        rows = [row for row in self.bench.partitions(topic)[0].index.tail if row.batch]
        return [
            compression_of(store.read(row.file.name, row.batch.position, row.batch.length)) for row in rows
        ]

    def sizes(self):
        return [row.batch.length for row in self.bench.partitions("out")[0].index.tail if row.batch]

    def headers(self):
        return [row["headers"] for row in self.read(subscribe="out", includeHeaders="true")[0]]

    def columns(self, **given):
        return sorted(self.read(**given)[0][0])

    @contextmanager
    def refuses(self, says):
        """The run in here ends with one of the errors of the log that says so."""
        with pytest.raises(Exception, match=f"(?s){says}") as caught:
            yield
        assert isinstance(caught.value, EosLogError) or "spark_eos.errors." in str(caught.value)


class Driven(Engine):
    """Calls the source and the sink as Spark does, in this process."""

    def __init__(self, *where):
        super().__init__(*where)
        self._ids = {}

    def run(self, source=None, sink=None):
        source, sink = self.source(source), self.sink(sink)
        columns = source_schema(parse_any_source(source))
        reader = EosLogStreamReader(parse_source(source, streaming=True), columns)
        checkpoint = Path(sink.get("checkpointLocation", self.folder / "none"))
        for name in ("offsets", "commits"):
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
        if not (checkpoint / "metadata").exists():
            (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        query_id, run_id = json.loads((checkpoint / "metadata").read_text())["id"], str(uuid.uuid4())
        done = sorted((checkpoint / "commits").iterdir(), key=lambda path: int(path.name))
        number = len(done)
        start = reader.initialOffset()
        if number:
            start = json.loads((checkpoint / "offsets" / str(number - 1)).read_text().splitlines()[2])
            reader.partitions(start, start)
        reader.prepareForTriggerAvailableNow()
        while True:
            written = checkpoint / "offsets" / str(number)
            if written.exists():  # It was begun by a run that died.
                end = json.loads(written.read_text().splitlines()[2])
            else:
                end = reader.latestOffset(start, reader.getDefaultReadLimit())
                if end == start:
                    return
                written.write_text("\n".join(["v1", "{}", json.dumps(end)]))
            frame, write = self._writer(EosLogStreamWriter, columns, sink, streaming=True)
            messages = [
                write.write(_chosen(reader.read(task), frame)) for task in reader.partitions(start, end)
            ]
            for message in messages:
                message.query_id, message.run_id = query_id, run_id
            write.commit(messages, number)
            (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
            start, number = end, number + 1

    def read(self, **given):
        """Rows as dicts, and the number of tasks."""
        given = self.source({"startingOffsets": None, **given})
        columns = source_schema(parse_any_source(given))
        reader = EosLogBatchReader(parse_source(given, streaming=False), columns)
        tasks = reader.partitions()
        rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
        return rows, len(tasks)

    def offsets_from(self, offset, **given):
        """Of the rows that a task hands over where the query has a filter ``offset >= ...``."""
        given = self.source({"startingOffsets": None, **given})
        reader = EosLogDataSource(given).reader(source_schema(parse_any_source(given)))
        list(reader.pushFilters([GreaterThanOrEqual(("offset",), offset)]))
        rows = [
            row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()
        ]
        return [row["offset"] for row in rows]

    def write(self, rows, **given):
        """A batch of rows of text values, with headers."""
        frame = pa.table(
            {
                "key": [str(row).encode() for row in rows],
                "value": [str(row).encode() for row in rows],
                "headers": pa.array(
                    [[{"key": "h", "value": b"x"}]] * len(rows),
                    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
                ),
            }
        )
        schema = _spark_schema(frame.schema)
        options = parse_sink(self.batch_sink(given), streaming=False)
        writer = EosLogBatchWriter(options, schema, overwrite=False)
        writer.commit([writer.write(iter(frame.to_batches()))])

    @staticmethod
    def _writer(kind, columns, sink, *, streaming):
        frame = type(columns)([field for field in columns if field.name not in LEFT_OUT])
        return arrow_schema(frame), kind(parse_sink(sink, streaming=streaming), frame, overwrite=False)


class OnSpark(Engine):
    """The same on Spark."""

    spark = None

    def run(self, source=None, sink=None):
        frame = self.spark.readStream.format("eoslog").options(**self.source(source)).load().drop(*LEFT_OUT)
        sink = self.sink(sink)
        name = sink.pop("queryName", None)
        writer = frame.writeStream.format("eoslog").options(**sink).trigger(availableNow=True)
        query = start_query((writer.queryName(name) if name else writer).start)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def read(self, **given):
        from pyspark.sql.functions import spark_partition_id

        frame = (
            self.spark.read.format("eoslog").options(**self.source({"startingOffsets": None, **given})).load()
        )
        rows = [
            row.asDict(recursive=True) for row in frame.withColumn("_task", spark_partition_id()).collect()
        ]
        tasks = len({row.pop("_task") for row in rows})
        return [
            {name: bytes(v) if isinstance(v, bytearray) else v for name, v in row.items()} for row in rows
        ], tasks

    def offsets_from(self, offset, **given):
        setting = "spark.sql.python.filterPushdown.enabled"
        self.spark.conf.set(setting, "true")
        try:
            frame = self.spark.read.format("eoslog").options(
                **self.source({"startingOffsets": None, **given})
            )
            return [row.offset for row in frame.load().where(f"offset >= {offset}").collect()]
        finally:
            self.spark.conf.unset(setting)

    def write(self, rows, **given):
        made = "key binary, value binary, headers array<struct<key string, value binary>>"
        data = [(str(row).encode(), str(row).encode(), [("h", b"x")]) for row in rows]
        frame = self.spark.createDataFrame(data, made).coalesce(1)
        frame.write.format("eoslog").options(**self.batch_sink(given)).mode("append").save()


def _chosen(batches, frame):
    for batch in batches:
        yield batch.select(frame.names)


def _spark_schema(schema):
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
