"""Every way in which Spark commits: real sources and sinks, and Spark's part as Spark does it.

The checkpoint is kept in the store as well, under ``_checkpoint/``, so that its files are operations to crash
at. Every process is a run of the query, with handles of its own.
"""

from __future__ import annotations

import itertools
import json
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest import mock
from uuid import UUID

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from spark_eos.errors import ObjectNotFoundError, RetriableError
from spark_eos.log import log as log_module
from spark_eos.log.clock import Retry
from spark_eos.log.data import task_io
from spark_eos.spark.batch.writer import EosLogBatchWriter
from spark_eos.spark.host import Host, hosted
from spark_eos.spark.options import parse_sink, parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.sink.sink import EosLogStreamWriter
from spark_eos.spark.sink.task import TaskMessage
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.transactions import micro_batch, running_query
from spark_eos.spark.transactions.micro_batch import MicroBatchTransaction
from tests.crashpoints.app import Scenario
from tests.crashpoints.clients import ENDS, INPUT, fill

URL = "memory://crashpoints"
LOCATION = "/checkpoint"
QUERY_ID = "11111111-2222-4333-8444-555555555555"
ROWS = StructType([StructField("value", BinaryType()), StructField("partition", IntegerType())])
ALL_VALUES = sorted(value for rows in INPUT.values() for value in rows)


class _Host(Host):
    """The checkpoint is in the store of the process, so that its operations are counted. Its notes are its own."""

    def __init__(self, store, notes=None):
        self._store, self._notes = store, notes

    def notes(self):
        return self._notes

    def read_bytes(self, path):
        if path.name.startswith("."):  # It has no sums.
            raise FileNotFoundError(path)
        try:
            return self._store.read(f"_checkpoint/{path.relative_to(LOCATION).as_posix()}").to_pybytes()
        except ObjectNotFoundError:
            raise FileNotFoundError(path) from None

    def exists(self, path):
        try:
            self.read_bytes(path)
        except FileNotFoundError:
            return False
        return True

    def write_bytes(self, path, data):
        self._store.overwrite(f"_checkpoint/{path.relative_to(LOCATION).as_posix()}", data)


@contextmanager
def driver(app):
    """Whatever opens the log by its URL gets this process's store, and nothing that another process knew."""

    def opens(_url, _settings):
        return app.store

    retry = Retry(deadline_s=30 if app.patient else 0, first_s=0)
    with (
        TemporaryDirectory() as notes,
        mock.patch.object(log_module, "shared_store", opens),
        mock.patch.object(task_io, "shared_store", opens),
        mock.patch.object(log_module, "Retry", return_value=retry),
        mock.patch.dict(log_module._SHARED, clear=True),
        hosted(_Host(app.store, Path(notes))),
    ):
        yield


class Query:
    """One run of ``in -> out``. Each batch takes two records or so."""

    def __init__(self, app, *, complete=False, **sink):
        self.app, self.complete = app, complete
        self.run_id = str(UUID(bytes=app.clock.unique()))
        source = {"path": URL, "subscribe": "in", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
        self.reader = EosLogStreamReader(parse_source(source, streaming=True), kafka_schema())
        named = {name.replace("_", "."): value for name, value in sink.items()}
        self.options = parse_sink(
            {"path": URL, "topic": "out", "checkpointLocation": LOCATION, "group.id": "g", **named},
            streaming=True,
        )

    def go_on(self, batches=20):
        """Micro-batches until there is nothing more; the last one again if it was not noted as done."""
        if self._read("metadata") is None:
            self._add("metadata", json.dumps({"id": QUERY_ID}))
        done = [number for number in range(20) if self._read(f"offsets/{number}") is not None]
        last = done[-1] if done else -1
        if last >= 0 and self._read(f"commits/{last}") is None:
            start = self._offsets(last - 1) if last else self.reader.initialOffset()
            self.batch(last, start, self._offsets(last))
        for _ in range(batches):
            last_and_bounds = self.plan(last)
            if last_and_bounds is None:
                return
            last = last_and_bounds[0]
            self.batch(*last_and_bounds)

    def plan(self, last):
        """The next batch, written down; None if there is nothing to read."""
        start = self._offsets(last) if last >= 0 else self.reader.initialOffset()
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        if end == start:
            return None
        self._add(f"offsets/{last + 1}", "v1\n{}\n" + json.dumps(end))
        return last + 1, start, end

    def batch(self, number, start, end):
        writer = EosLogStreamWriter(self.options, ROWS, overwrite=self.complete)
        written = [self.rows(task, end) for task in self.reader.partitions(start, end)]
        messages = [write(self.app, writer, *rows) for rows in written] or [TaskMessage()]
        for message in messages:
            message.query_id, message.run_id = QUERY_ID, self.run_id
        writer.commit(messages, number)
        for value in sorted({value for values, _ in written for value in values}):
            self.app.store.note(("sent", "out", value))
        self._add(f"commits/{number}", "v1\n{}")

    def rows(self, task, end):
        """What a task writes: values and partitions."""
        values, partitions = [], []
        for batch in self.app.patiently(lambda: [*self.reader.read(task)]):
            values += [value.decode() for value in batch.column("value").to_pylist()]
            partitions += batch.column("partition").to_pylist()
        if self.complete:
            # The whole result, as an aggregation without keys keeps it.
            limits = {int(n): at for n, at in end["in"].items()}
            values = [value for n, limit in limits.items() for value in INPUT[n][:limit]]
            partitions = [n for n, limit in limits.items() for _ in INPUT[n][:limit]]
        return values, partitions

    def _offsets(self, number):
        return json.loads(self._read(f"offsets/{number}").split("\n")[2])

    def _read(self, name):
        try:
            return _Host(self.app.store).read_bytes(Path(LOCATION) / name).decode()
        except FileNotFoundError:
            return None

    def _add(self, name, text):
        self.app.store.create(f"_checkpoint/{name}", text.encode())


def write(app, writer, values, partitions):
    """A task; one that failed is tried again."""
    numbers = [partitions] * len(values) if isinstance(partitions, int) else partitions
    columns = [pa.array([value.encode() for value in values], pa.binary()), pa.array(numbers, pa.int32())]
    rows = pa.record_batch(columns, ["value", "partition"])
    return app.patiently(lambda: writer.write(iter([rows])))


class Frame:
    """A DataFrame, as far as a transaction asks it: rows of values and partitions, in one task."""

    isStreaming = False  # noqa: N815
    schema = ROWS

    def __init__(self, app, values, partitions, properties):
        self._app, self._values, self._partitions, self._properties = app, values, partitions, properties

    @property
    def sparkSession(self):
        return SimpleNamespace(sparkContext=self)

    def getLocalProperty(self, name):
        return self._properties[name]

    def mapInArrow(self, function, _schema):
        rows = pa.record_batch(
            [
                pa.array([value.encode() for value in self._values], pa.binary()),
                pa.array(self._partitions, pa.int32()),
            ],
            ["value", "partition"],
        )
        batches = self._app.patiently(lambda: [*function(iter([rows]))])
        return SimpleNamespace(collect=lambda: [row for batch in batches for row in batch.to_pylist()])


class ForeachBatch(Query):
    """One run of a function that writes each micro-batch to two topics."""

    def batch(self, number, start, end):
        written = [self.rows(task, end) for task in self.reader.partitions(start, end)]
        values, partitions = [*map(list, map(itertools.chain.from_iterable, zip(*written, strict=True)))] or (
            [],
            [],
        )
        properties = {
            "sql.streaming.queryId": QUERY_ID,
            "spark.jobGroup.id": self.run_id,
            "streaming.sql.batchId": str(number),
        }
        frame = Frame(self.app, values, partitions, properties)
        options = {"checkpointLocation": LOCATION, "group.id": "g"}
        with (
            mock.patch.object(running_query, "_notes", return_value=None),
            MicroBatchTransaction(frame, number, URL, options) as transaction,
        ):
            transaction.write(frame, "out", mode="overwrite" if self.complete else "append")
            transaction.write(frame, "copy", options={"num.partitions": 2})
        for value in sorted(set(values)):
            self.app.store.note(("sent", "out", value))
            self.app.store.note(("sent", "copy", value))
        self._add(f"commits/{number}", "v1\n{}")


def foreach_batch(app):
    """Whatever has happened: both topics have the same records, or a transaction was halved."""
    copies = [[row for rows in app.values(topic).values() for row in rows] for topic in ("out", "copy")]
    assert sorted(copies[0]) == sorted(copies[1]), "half a transaction"
    with driver(app), mock.patch.dict(micro_batch._COMMITTED, clear=True):
        ForeachBatch(app).go_on()
    app.store.note(("ended",))


def batch_job(app):
    """A job that is repeated until it ends well, under one version: it never looks into the log."""
    with driver(app):
        options = parse_sink(
            {"path": URL, "topic": "out", "txnAppId": "job", "txnVersion": "3"}, streaming=False
        )
        for _ in range(20):
            there = [value for rows in app.values("out").values() for value in rows]
            assert sorted(there) in ([], ALL_VALUES), "half a job, or twice"
            writer = app.patiently(lambda: EosLogBatchWriter(options, ROWS, overwrite=False))
            messages = [write(app, writer, values, n) for n, values in INPUT.items()]
            try:
                writer.commit(messages)
            except RetriableError:
                continue
            break
    for value in ALL_VALUES:
        app.store.note(("sent", "out", value))


def query(**settings):
    def run(app):
        with driver(app):
            Query(app, **settings).go_on()
        app.store.note(("ended",))

    return run


def before_commit(app):
    """A run that wrote down batch 1 and died before its tasks ran."""
    fill(app)
    with driver(app):
        run = Query(app)
        run.go_on(batches=1)
        run.plan(0)


def after_commit(app):
    """A run whose last batch is in the log, and which died before it noted that."""
    fill(app)
    with driver(app):
        Query(app).go_on()
    app.store.delete("_checkpoint/commits/1")


def after_transaction(app):
    """A run whose last transaction is in the log, and which died before Spark noted that."""
    fill(app)
    foreach_batch(app)
    app.store.delete("_checkpoint/commits/1")


def check_copied(app):
    state = app.log.follow()
    assert {at: known.offset for at, known in state.offsets["g"].items()} == ENDS
    check_all_there(app)


def check_all_there(app):
    found = {value for rows in app.values("out").values() for value in rows}
    assert sorted(found) == ALL_VALUES


def batch_write(*, overwrite=False, **settings):
    """One job of two tasks. Who does not know whether it was done looks into the log, unless it overwrites."""
    named = {name.replace("_", "."): value for name, value in settings.items()}

    def run(app):
        with driver(app):
            options = parse_sink({"path": URL, "topic": "out", **named}, streaming=False)
            for _ in range(20):
                there = [value for rows in app.values("out").values() for value in rows]
                assert sorted(there) in ([], ["old"], ALL_VALUES), "half a job"
                if sorted(there) == ALL_VALUES:
                    return
                writer = app.patiently(lambda: EosLogBatchWriter(options, ROWS, overwrite=overwrite))
                messages = [write(app, writer, values, n) for n, values in INPUT.items()]
                try:
                    writer.commit(messages)
                except RetriableError:
                    continue
                for value in ALL_VALUES:
                    app.store.note(("sent", "out", value))

    return run


def old_rows(app):
    from spark_eos import Producer

    fill(app)
    producer = Producer(app.log)
    producer.send("out", "old", partition=0)
    producer.flush()


def streaming(run, prepare, check=check_copied, **options):
    return Scenario(run, prepare, check, gives_up=True, **options)


QUERIES = {
    "query": streaming(query(), fill),
    "query, transactional.id": streaming(query(transactional_id="mine"), fill),
    "replay before the commit": streaming(query(), before_commit),
    "replay after the commit": streaming(query(), after_commit),
    "complete mode": streaming(query(complete=True), fill),
    "at least once": streaming(
        query(processing_guarantee="at_least_once"), fill, check_all_there, repeats=True, same=False
    ),
    "foreachBatch": streaming(foreach_batch, fill),
    "foreachBatch, replay after the commit": streaming(foreach_batch, after_transaction),
    "batch": Scenario(batch_write(), fill),
    "batch, txnVersion": Scenario(batch_job, fill, check_all_there),
    "batch, transactional.id": Scenario(batch_write(transactional_id="job"), fill),
    "batch, overwrite": Scenario(batch_write(overwrite=True), old_rows),
}
