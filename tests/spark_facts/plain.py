"""A source and a sink that do as little as they can and write every call down: what is seen is what Spark does.

Spark imports this module in its Python workers. Nothing of spark_eos is in it.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from types import NoneType

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    EqualTo,
    InputPartition,
    WriterCommitMessage,
)

try:
    from pyspark.sql.streaming.datasource import ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
except ModuleNotFoundError:  # Before Spark 4.2.
    ReadMaxRows = ReadMinRows = NoneType

    class SupportsTriggerAvailableNow:
        pass


NAME = "plain"
SHOWN = "the plain source or sink"
"""What `repr` and `str` say of them."""
COLUMNS = "id bigint"
NOT_NULL = pa.schema([pa.field("id", pa.int64(), nullable=False)])


class Recording:
    """The calls of some queries, in the order in which they were made: one JSON object on each line of a file."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def note(self, call, **fields):
        """Append a call; processes that append at the same time do not mix their lines."""
        line = json.dumps({"call": call, "pid": os.getpid(), **fields}) + "\n"
        descriptor = os.open(self.folder / "calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def calls(self, *names, **fields):
        """All calls of these names (all, without one) that have these fields."""
        path = self.folder / "calls"
        found = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
        return [
            call
            for call in found
            if (not names or call["call"] in names)
            and all(name in call and call[name] == value for name, value in fields.items())
        ]

    def put(self, name, value):
        """Tell the sources and sinks something: how far rows reach, whether to fail."""
        new = self.folder / f"{name}.new"
        new.write_text(str(value))
        new.replace(self.folder / name)

    def get(self, name, default=""):
        """What they were told."""
        path = self.folder / name
        return path.read_text() if path.exists() else default


@dataclass
class Message(WriterCommitMessage):
    rows: int
    task: int


@dataclass
class Range(InputPartition):
    first: int
    last: int


class Plain(DataSource):
    """Options: ``record`` (a folder), ``who`` (a name for the calls), ``columns``, and what the readers look at."""

    def __init__(self, options):
        super().__init__(options)
        self.options = {**options, "load": uuid.uuid4().hex}

    @classmethod
    def name(cls):
        return NAME

    def __repr__(self):
        return SHOWN

    def schema(self):
        return self.options.get("columns", COLUMNS)

    def reader(self, schema):
        kind = FilteringReader if self.options.get("filters") else Reader
        return kind(self.options, schema)

    def streamReader(self, schema):
        return StreamReader(self.options)

    def writer(self, schema, overwrite):
        return Writer(self.options, overwrite)

    def streamWriter(self, schema, overwrite):
        return StreamWriter(self.options, overwrite)


class Noted:
    """Writes its calls down, with what the process sees of its surroundings."""

    def __init__(self, options):
        self.options = dict(options)
        self.recording = Recording(options["record"])
        self.copy = uuid.uuid4().hex

    def __repr__(self):
        return SHOWN

    def note(self, call, **fields):
        checkpoint = Path(self.options.get("checkpointlocation", self.options.get("checkpoint", "/none")))
        self.recording.note(
            call,
            who=self.options.get("who", ""),
            copy=self.copy,
            local_dirs=os.environ.get("SPARK_LOCAL_DIRS"),
            begun=_numbers(checkpoint / "offsets"),
            done=_numbers(checkpoint / "commits"),
            **fields,
        )

    def note_in_task(self, call, **fields):
        context = TaskContext.get()
        names = ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id")
        self.note(call, properties={name: context.getLocalProperty(name) for name in names}, **fields)


class Reader(Noted, DataSourceReader):
    """``returns`` names what the first batch is like."""

    def __init__(self, options, schema):
        super().__init__(options)
        self.note("reader", columns=schema.names)

    def partitions(self):
        self.note("partitions")
        return [] if self.options.get("returns") == "nothing" else [Range(0, 3)]

    def read(self, partition):
        self.note_in_task("read", partition=repr(partition))
        if not isinstance(partition, Range):
            return
        yield BATCHES[self.options.get("returns", "ids")]


class FilteringReader(Reader):
    """With ``filters`` "applied" it returns no other ids than those of an equality."""

    ids = None

    def pushFilters(self, filters):
        self.note("pushFilters", filters=[repr(one) for one in filters], load=self.options["load"])
        if self.options["filters"] == "applied":
            self.ids = [one.value for one in filters if isinstance(one, EqualTo)]
        yield from filters

    def read(self, partition):
        for batch in super().read(partition):
            yield (
                batch
                if self.ids is None
                else batch.filter([row["id"] in self.ids for row in batch.to_pylist()])
            )


class StreamReader(Noted, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Rows 0 to what the file ``end-<who>`` says; ten at a time; every answer to `initialOffset` is another one."""

    def __init__(self, options):
        super().__init__(options)
        self.planned = {"at": 0}
        self.note("streamReader")

    def initialOffset(self):
        earlier = self.recording.calls("initialOffset", who=self.options["who"])
        self.note("initialOffset", answer=len(earlier))
        return self._offset(len(earlier))

    def latestOffset(self, start=None, limit=None):
        end = int(self.recording.get(f"end-{self.options['who']}", "0"))
        if limit is None:  # Before Spark 4.2.
            answer = self._offset(min(end, self.planned["at"] + 10))
            self.note("latestOffset", start=start, limit=limit, answer=answer)
            return answer
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["at"] + limit.max_rows)
        if isinstance(limit, ReadMinRows) and end - start["at"] < limit.min_rows:
            end = start["at"]
        answer = self._offset(max(end, start["at"]))
        self.note("latestOffset", start=start, limit=[type(limit).__name__, asdict(limit)], answer=answer)
        return answer

    def getDefaultReadLimit(self):
        self.note("getDefaultReadLimit")
        least = self.options.get("least")
        return ReadMaxRows(10) if least is None else ReadMinRows(int(least))

    def reportLatestOffset(self):
        self.note("reportLatestOffset")
        return {"reported": True}

    def prepareForTriggerAvailableNow(self):
        self.note("prepareForTriggerAvailableNow")

    def partitions(self, start, end):
        self.planned = end
        self.note("partitions", start=start, end=end)
        if self.options.get("tasks") == "0":
            return []
        return [Range(start["at"], end["at"]), Range(0, 0)]

    def commit(self, end):
        self.note("commit offsets", end=end)

    def stop(self):
        self.note("stop")

    def read(self, partition):
        self.note_in_task("read", partition=repr(partition))
        if partition.last > partition.first:
            yield pa.record_batch({"id": range(partition.first, partition.last)})

    def _offset(self, at):
        if self.options.get("keys") != "in turn":
            return {"at": at}
        asked = len(self.recording.calls("latestOffset"))
        return {"at": at, "and": 0} if asked % 2 else {"and": 0, "at": at}


class _Writer(Noted):
    def __init__(self, options, overwrite):
        super().__init__(options)
        self.note(type(self).__name__, overwrite=overwrite, options=self.options)

    def write(self, iterator):
        batches = list(iterator)
        task = TaskContext.get().partitionId()
        rows = [batch.num_rows for batch in batches]
        types = {field.name: str(field.type) for batch in batches[:1] for field in batch.schema}
        self.note_in_task("write", task=task, rows=rows, types=types)
        if self.recording.get("slow task") == str(task):
            self._wait_for_the_other_task()
        self.note("written", task=task)
        fails = self.recording.get("writer")
        if fails == "fails" and task == 1:
            raise RuntimeError("the task fails")
        return None if fails == "no message" else Message(sum(rows), task)

    def _wait_for_the_other_task(self):
        end = time.monotonic() + 120
        while not self.recording.calls("written", copy=self.copy) and time.monotonic() < end:
            time.sleep(0.02)

    def commit(self, messages, batchId=None):
        self.note("commit", messages=[repr(message) for message in messages], batch=batchId)
        if self.recording.get("commit") == "fails":
            raise RuntimeError("the commit fails")

    def abort(self, messages, batchId=None):
        self.note("abort", messages=[repr(message) for message in messages], batch=batchId)


class Writer(_Writer, DataSourceArrowWriter):
    pass


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    pass


def _numbers(folder):
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdecimal())


_IDS = pa.array([0, 1, 2], pa.int64())
BATCHES = {
    "ids": pa.record_batch({"id": _IDS}),
    "not null": pa.record_batch([_IDS], schema=NOT_NULL),
    "two columns": pa.record_batch({"id": _IDS, "text": ["a", "b", "c"]}),
    "two columns in another order": pa.record_batch({"text": ["a", "b", "c"], "id": _IDS}),
    "large strings": pa.record_batch({"id": _IDS, "text": pa.array(["a", "b", "c"], pa.large_string())}),
    "a dictionary": pa.record_batch({"id": _IDS, "text": pa.array(["a", "b", "c"]).dictionary_encode()}),
    "times": pa.record_batch({"time": _IDS.cast(pa.timestamp("us", "UTC"))}),
    "times of another name": pa.record_batch({"time": _IDS.cast(pa.timestamp("us", "Etc/UTC"))}),
}
