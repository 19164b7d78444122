"""A streaming source and sink that write down every call that Spark makes on them.

They are plain: the rows of a source are the numbers below a count in a file, the sink keeps nothing. Options are
``folder`` (where the notes go), ``name`` (which source this is), ``start`` (``earliest`` or ``latest``), ``limit``
(rows of a batch) and ``tasks`` (of a batch). The notes of all processes go to one file, a line each; a line is one
write, so their order is the order of the calls.
"""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from functools import wraps
from itertools import pairwise
from pathlib import Path

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

from spark_eos.spark.version import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

__all__ = ["RecordedDataSource", "feed", "note", "rows_of"]

FORMAT = "recorded"
ROWS = "value LONG, at TIMESTAMP"


def note(folder, **line):
    """Write down one line."""
    with Path(folder, "notes").open("ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\n")


def rows_of(folder, name):
    """How many rows a source has."""
    path = Path(folder, f"rows-{name}")
    return int(path.read_text()) if path.exists() else 0


def feed(folder, name, rows):
    """Let rows arrive."""
    path = Path(folder, f"rows-{name}")
    fresh = path.with_suffix(".new")
    fresh.write_text(str(rows_of(folder, name) + rows))
    fresh.rename(path)
    note(folder, deed=f"{rows} rows arrive in {name}")


def _newest(folder, kind):
    """The newest batch that the checkpoint knows, or -1."""
    current = Path(folder, "current")
    if not current.exists():
        return -1
    path = Path(current.read_text(), kind)
    return max((int(file.name) for file in path.glob("[0-9]*")), default=-1) if path.exists() else -1


def _task():
    """What the call knows of the task that it is part of."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None
    return {
        "batch": int(context.getLocalProperty("streaming.sql.batchId") or -1),
        "partition": context.partitionId(),
        "attempt": context.attemptNumber(),
    }


def _recorded(method):
    """Write the call down when it has ended, and do before and after it what a trap asks for."""
    name = method.__name__

    @wraps(method)
    def call(self, *args, **kwargs):
        error = answer = None
        try:
            self.spring(name, "before", args)
            answer = method(self, *args, **kwargs)
            self.spring(name, "failing", args)
        except Exception as raised:
            error = type(raised).__name__
            raise
        finally:
            self.tell(name, _plain([*args, *kwargs.values()]), answer=_plain(answer), error=error)
        self.spring(name, "after", args)
        return answer

    return call


def _plain(value):
    """What of arguments and answers goes into a recording."""
    if isinstance(value, dict) or value is None or isinstance(value, (int, str, bool)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, _Range):
        return f"rows {value.start} to {value.end}"
    if isinstance(value, _Written):
        return f"{value.rows} rows"
    if isinstance(value, ReadMaxRows):
        return f"ReadMaxRows({value.max_rows})"
    return type(value).__name__  # Readers, writers, limits and schemas: their kind says enough.


class Trap(Exception):  # noqa: N818
    """What a life cycle wanted to go wrong."""


class Recorded:
    """An object whose calls are written down; each unpickled copy is an object of its own."""

    folder: str
    who: str

    def begin(self, folder, who, made_by=None):
        self.folder, self.who, self.identity = folder, who, uuid.uuid4().hex
        self.tell(type(self).kind, [], made_by=made_by)

    def tell(self, call, args, **more):
        more = {name: value for name, value in more.items() if value is not None}
        task = _task()
        note(
            self.folder,
            who=self.who,
            call=call,
            args=args,
            **more,
            object=self.identity,
            kind=type(self).kind,
            pid=os.getpid(),
            **({"task": task} if task else {}),
            offsets=_newest(self.folder, "offsets"),
            commits=_newest(self.folder, "commits"),
        )

    def __getstate__(self):
        self.tell("pickled", [])
        return dict(self.__dict__)

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.identity = uuid.uuid4().hex
        self.tell("unpickled", [], made_by=state["identity"])

    def spring(self, call, moment, args):
        """A trap is sprung once, by the process that gets hold of it."""
        for path in sorted(Path(self.folder).glob("trap-*")):
            trap = json.loads(path.read_text())
            if (trap["who"], trap["call"], trap["moment"]) != (self.who, call, moment):
                continue
            if trap["batch"] is not None and trap["batch"] != self.batch(call, args):
                continue
            try:
                path.rename(path.with_name(f"sprung-{uuid.uuid4().hex}"))
            except FileNotFoundError:
                continue
            self._do(trap)

    def batch(self, call, args):
        """The batch a call belongs to."""
        if call in {"commit", "abort"} and self.who == "sink":
            return args[1]
        task = _task()
        return task["batch"] if task else _newest(self.folder, "offsets")

    def _do(self, trap):
        if trap["do"] == "feed":
            feed(self.folder, trap["source"], trap["rows"])
        elif trap["do"] == "fail":
            note(self.folder, deed=f"{trap['call']} of {trap['who']} fails")
            raise Trap(trap["call"])
        elif trap["do"] == "hang":
            note(self.folder, deed=f"{trap['call']} of {trap['who']} hangs")
            time.sleep(60)
        else:
            note(self.folder, deed=f"the driver is killed {trap['moment']} {trap['call']} of {trap['who']}")
            os.kill(int(Path(self.folder, "jvm").read_text()), signal.SIGKILL)
            time.sleep(1)
            os._exit(1)


class _Range(InputPartition):
    def __init__(self, start, end):
        self.start, self.end = start, end


class _Written(WriterCommitMessage):
    def __init__(self, rows):
        self.rows = rows


class _Reader(Recorded, DataSourceStreamReader, SupportsTriggerAvailableNow):
    kind = "reader"

    def __init__(self, source):
        self.options = dict(source.options)
        self.bounded, self.target = False, None
        self.begin(source.folder, source.who, source.identity)

    @property
    def _rows(self):
        return rows_of(self.folder, self.options["name"])

    @_recorded
    def initialOffset(self):
        return {"at": self._rows if self.options.get("start") == "latest" else 0}

    @_recorded
    def latestOffset(self, start=None, limit: ReadLimit | None = None):  # Spark 4.1 gives neither.
        end = self._rows
        if self.bounded:
            self.target = end if self.target is None else self.target
            end = min(end, self.target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["at"] + limit.max_rows)
        return {"at": end if start is None else max(end, start["at"])}

    @_recorded
    def getDefaultReadLimit(self):
        return ReadMaxRows(int(self.options["limit"])) if "limit" in self.options else ReadAllAvailable()

    @_recorded
    def reportLatestOffset(self):
        return {"at": self._rows}

    @_recorded
    def prepareForTriggerAvailableNow(self):
        self.bounded = True

    @_recorded
    def partitions(self, start, end):
        pages = int(self.options.get("tasks", "1"))
        edges = [start["at"] + (end["at"] - start["at"]) * n // max(pages, 1) for n in range(pages + 1)]
        return [_Range(*page) for page in pairwise(edges)]

    @_recorded
    def commit(self, end):
        pass

    @_recorded
    def stop(self):
        pass

    @_recorded
    def read(self, partition):
        from datetime import datetime, timedelta, timezone

        if partition is None:
            return iter(())
        begin = datetime(2026, 1, 1, tzinfo=timezone.utc)
        return iter([(n, begin + timedelta(minutes=n)) for n in range(partition.start, partition.end)])


class _Writer(Recorded, DataSourceStreamWriter):
    kind = "writer"

    def __init__(self, source):
        self.begin(source.folder, "sink", source.identity)

    @_recorded
    def write(self, iterator):
        return _Written(sum(1 for _ in iterator))

    @_recorded
    def commit(self, messages, batchId):
        pass

    @_recorded
    def abort(self, messages, batchId):
        pass


class RecordedDataSource(Recorded, DataSource):
    """``format("recorded")``."""

    kind = "data source"

    def __init__(self, options):
        super().__init__(options)
        name = options.get("name")
        self.begin(options["folder"], "sink" if name is None else f"source {name}")

    @classmethod
    def name(cls):
        return FORMAT

    @_recorded
    def schema(self):
        return ROWS

    @_recorded
    def streamReader(self, schema):
        return _Reader(self)

    @_recorded
    def streamWriter(self, schema, overwrite):
        return _Writer(self)
