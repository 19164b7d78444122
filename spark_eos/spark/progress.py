"""A streaming query's progress as Spark's Kafka connector reports it: names of logs and topics, and how far behind.

Spark describes a Python source or sink by a Java object and takes no metrics from it
(tests/spark_facts/test_progress.py). All of it is in the offsets of the progress, and in the log.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_eos.config.isolation import Isolation
from spark_eos.errors import EosLogError, InvalidRequestError
from spark_eos.errors.hidden import safe_url
from spark_eos.log.data.planner import plan
from spark_eos.log.time_travel import earliest, replay, state_at
from spark_eos.protocol.actions import AppendBatches, CommitMicroBatch, Entry
from spark_eos.protocol.rules.apply import Accepted, apply
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.host import host
from spark_eos.spark.source.offsets import META_KEY, SourceOffset, is_beginning
from spark_eos.storage import Settings, log_settings_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

    from spark_eos.log.log import Log
    from spark_eos.protocol.state import Partition, State

_FIRST_LOOK = 64
"""So many entries back a micro-batch is looked for when a log is looked into for the first time."""

_KEPT = 1000
"""Micro-batches that are remembered of a log, as their progress may arrive late."""


def query_progress(
    query: StreamingQuery | StreamingQueryProgress,
    *logs: str,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """``query.lastProgress`` as Spark's Kafka connector would report it.

    Spark shows a Python source or sink as the name of a Java object, without metrics. Here ``description`` names the
    log and the topics, and ``metrics`` of a source has ``minOffsetsBehindLatest``, ``avgOffsetsBehindLatest`` and
    ``maxOffsetsBehindLatest``, over its partitions. They need nothing but the progress itself. With ``logs``, what is
    in the log is added: ``numInputBytes`` and ``estimatedTotalBytesBehindLatest`` of a source; ``numOutputRecords``,
    ``numOutputBytes`` and ``entry`` (the number of the entry) of an exactly-once sink. All metrics are texts, as
    Spark's are. Works with Spark Connect, too.

    Parameters
    ----------
    query
        A query, or one progress of it (of ``recentProgress``, or of a listener's event).
    logs
        The logs that the query reads and writes, as URLs. A log that is not named appears by its id.
    settings
        Settings of the object stores of these logs (``s3.…``, ``adls.…``, ``gcs.…``).

    Returns
    -------
    dict or None
        The progress; None if the query has made none. Sources and sinks of other formats are as Spark reports them.

    Examples
    --------
    >>> from spark_eos import query_progress, start_query
    >>> log = folder + "/log"
    >>> spark.range(5).selectExpr("'x' AS value").write.format("eoslog").option("topic", "in").mode(
    ...     "append"
    ... ).save(log)
    >>> rows = (
    ...     spark.readStream.format("eoslog").option("subscribe", "in").option("startingOffsets", "earliest")
    ... )
    >>> writer = rows.load(log).writeStream.format("eoslog").option("topic", "out").trigger(availableNow=True)
    >>> writer = writer.option("checkpointLocation", folder + "/checkpoint")
    >>> query = start_query(lambda: writer.start(log))
    >>> query.awaitTermination()
    >>> source = query_progress(query)["sources"][0]
    >>> source["metrics"]["maxOffsetsBehindLatest"]
    '0'
    """
    progress: Any = getattr(query, "lastProgress", query)
    if progress is None:
        return None
    return ProgressReport([KnownLog(url, settings) for url in logs]).of(progress)


class Batch(NamedTuple):
    """What a micro-batch of a query has written: the number of its entry, topics, records, bytes."""

    entry: int
    topics: tuple[str, ...]
    records: int
    bytes: int


class KnownLog:
    """A log that a query reads or writes, and the micro-batches that its newest entries have."""

    def __init__(self, url: str, settings: Mapping[str, Any] | None = None) -> None:
        self._url = url
        self._settings = log_settings_of(url, Settings(settings or {}))
        self._state: State | None = None
        self._batches: OrderedDict[tuple[str, int], Batch] = OrderedDict()

    def log(self) -> Log:
        """The log as it is now."""
        return host().log(self._url, self._settings)

    def batch(self, log: Log, query_id: str, batch_id: int) -> Batch | None:
        """What the micro-batch wrote here; None if it is none of this log's, or its entry is retired."""
        if (query_id, batch_id) not in self._batches:
            self._read_on(log)
        return self._batches.get((query_id, batch_id))

    def _read_on(self, log: Log) -> None:
        end = log.state
        start = self._state
        if start is None:
            try:
                start = state_at(log, max(end.seq - _FIRST_LOOK, 0))
            except InvalidRequestError:  # Retired; to find the earliest one costs more.
                start = earliest(log)
        try:
            for step in replay(log, start, end.seq):
                self._note(step.entry, step.before)
        except InvalidRequestError:  # An entry was retired meanwhile.
            pass
        self._state = end
        while len(self._batches) > _KEPT:
            self._batches.popitem(last=False)

    def _note(self, entry: Entry, state: State) -> None:
        if not any(
            isinstance(action, CommitMicroBatch) for request in entry.requests for action in request.actions
        ):
            return
        for request in entry.requests:
            state, outcome = apply(state, request)
            batch = next((action for action in request.actions if isinstance(action, CommitMicroBatch)), None)
            if batch is None or not isinstance(outcome, Accepted):
                continue
            files = [
                file
                for action in request.actions
                if isinstance(action, AppendBatches)
                for file in action.files
            ]
            parts = [part for file in files for part in file.batches]
            self._batches[batch.query_id, batch.batch_id] = Batch(
                entry.seq,
                tuple(sorted({file.topic for file in files})),
                sum(part.count for part in parts),
                sum(part.length for part in parts),
            )


class ProgressReport:
    """Makes progress reports; ``logs`` are those that may be looked into."""

    def __init__(self, logs: Iterable[KnownLog] = ()) -> None:
        self._logs = tuple(logs)

    def of(self, progress: StreamingQueryProgress | Mapping[str, Any]) -> dict[str, Any]:
        """``progress`` with descriptions and metrics. Raises what opening a log raises."""
        report: dict[str, Any] = json.loads(_json(progress))
        opened = [(known_log, known_log.log()) for known_log in self._logs]
        for source in report["sources"]:
            if SourceOffset.is_ours(_text(source.get("endOffset"))):
                for name in ("startOffset", "endOffset", "latestOffset"):
                    source[name] = json.loads(_text(source.get(name)) or "null")
                _describe(source, [log for _, log in opened])
        for known_log, log in opened:
            batch = known_log.batch(log, report["id"], report["batchId"])
            if batch is not None:
                topics = ", ".join(batch.topics) or "no rows"
                report["sink"]["description"] = f"eoslog[{topics} of {safe_url(log.url)}]"
                report["sink"]["metrics"] = {
                    "numOutputRecords": str(batch.records),
                    "numOutputBytes": str(batch.bytes),
                    "entry": str(batch.entry),
                }
        return report


def _json(progress: StreamingQueryProgress | Mapping[str, Any]) -> str:
    text = getattr(progress, "json", None)
    return text if isinstance(text, str) else json.dumps(progress)


def _text(offset: object) -> str | None:
    """An offset as JSON text, which it is already in what Spark Connect returns."""
    return offset if offset is None or isinstance(offset, str) else json.dumps(offset)


def _describe(source: dict[str, Any], logs: list[Log]) -> None:
    end = SourceOffset.from_json_dict(source["endOffset"])
    log = next((log for log in logs if log.log_id == end.log_id), None)
    where = f"log {end.log_id}" if log is None else safe_url(log.url)
    source["description"] = f"eoslog[{', '.join(sorted(end.topic_ids))} of {where}]"
    latest = _positions(source.get("latestOffset"))
    ends = {at: max(latest[at], position) for at, position in end.positions.items() if at in latest}
    metrics = {}
    if ends:
        behind = [stop - end.positions[at] for at, stop in ends.items()]
        metrics = {
            "minOffsetsBehindLatest": str(min(behind)),
            "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
            "maxOffsetsBehindLatest": str(max(behind)),
        }
    if log is not None:
        metrics["numInputBytes"] = str(_input_bytes(log, source.get("startOffset"), end))
        if ends:
            metrics["estimatedTotalBytesBehindLatest"] = str(_bytes_behind(log.state, end, ends))
    source["metrics"] = {**source.get("metrics", {}), **metrics}


def _positions(offset: object) -> dict[TopicPartition, int]:
    """Of the ends that the source reports (`EosLogStreamReader.reportLatestOffset`)."""
    topics = offset if isinstance(offset, dict) else {}
    return {
        TopicPartition(topic, int(number)): end
        for topic, partitions in topics.items()
        if topic != META_KEY
        for number, end in partitions.items()
    }


def _input_bytes(log: Log, start: object, end: SourceOffset) -> int:
    """Bytes of the batches that have the records of a micro-batch."""
    # Of the first micro-batch there is no start, and `end.initial` has it.
    first = {} if start is None or is_beginning(start) else SourceOffset.from_json_dict(start).positions
    size = 0
    for at, stop in end.positions.items():
        partition = log.state.partitions.get((end.topic_ids[at.topic], at.partition))
        begin = first.get(at, end.initial.get(at, stop))
        if partition is None or begin >= stop:
            continue
        try:
            fetches = plan(
                log.state, at, max(begin, partition.start), stop, Isolation.READ_UNCOMMITTED, log.load
            )
        except EosLogError:  # Retention has removed it meanwhile.
            continue
        size += sum(_share(fetch.size, fetch.records, fetch.batch.count) for fetch in fetches)
    return size


def _bytes_behind(state: State, end: SourceOffset, ends: Mapping[TopicPartition, int]) -> int:
    size = 0
    for at, stop in ends.items():
        partition = state.partitions.get((end.topic_ids[at.topic], at.partition))
        if partition is not None:
            size += _estimate(partition, end.positions[at], stop)
    return size


def _estimate(partition: Partition, start: int, stop: int) -> int:
    """Bytes of the batches between two offsets; of a sealed page in its middle, by the share of its offsets.

    Loads nothing: a query that is far behind would read many index pages for each micro-batch.
    """
    size = 0
    for page in partition.index.pages:
        inside = min(stop, page.next_offset) - max(start, page.base_offset)
        if inside > 0:
            size += _share(page.bytes, inside, page.next_offset - page.base_offset)
    tail = partition.index.tail
    for row in tail.rows(tail.find(start)):
        if row.base_offset >= stop:
            break
        inside = min(stop, row.next_offset) - max(start, row.base_offset)
        if row.batch is not None and inside > 0:
            size += _share(row.batch.length, inside, row.count)
    return size


def _share(size: int, part: int, whole: int) -> int:
    return size * part // max(whole, 1)
