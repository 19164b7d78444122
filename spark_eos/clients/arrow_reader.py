"""A topic as a stream of Arrow record batches, for DuckDB, Polars, pandas and whatever else reads Arrow. No Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from spark_eos.clients.opening import check_open_log, store_settings
from spark_eos.config.isolation import Isolation
from spark_eos.config.nearest import nearest
from spark_eos.errors import (
    ConfigError,
    ObjectNotFoundError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.data.planner import Fetch, end_offset, partition_of, plan
from spark_eos.log.data.records import offset_for_time
from spark_eos.log.data.task_io import reading_ahead
from spark_eos.log.handle.missing import error_of_missing
from spark_eos.log.log import Log
from spark_eos.log.selection.columns import place_column, place_names
from spark_eos.log.selection.units import whole_cut
from spark_eos.log.selection.whole_transactions import Cut
from spark_eos.log.time_travel import as_of as log_as_of
from spark_eos.log.time_travel import entry_at_time, parse_time, plan_as_of, topic_as_of
from spark_eos.log.topics import layout_of, topic_of
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import TopicPartition

if TYPE_CHECKING:
    from spark_eos.log.selection.row_filter import RowFilter

Bound = Mapping[int, int] | datetime | None
_PLACES = (pa.string(), pa.int32(), pa.int64())


def read_arrow(
    log: str | os.PathLike[str] | Log,
    topic: str,
    *,
    as_of: int | str | datetime | None = None,
    columns: Sequence[str] | None = None,
    filter: Any = None,  # noqa: A002  (pyarrow and Polars call it that)
    start: Bound = None,
    end: Bound = None,
    isolation_level: str = "read_committed",
    whole_transactions: bool = False,
    config: Mapping[str, object] | None = None,
) -> pa.RecordBatchReader:
    """Read a topic as Arrow record batches, one partition after the other, each in the order of its offsets.

    What is read is decided by this call; the rows are read while the result is iterated, one stored batch at a time.
    The result can be read once. It is what ``duckdb.sql``, ``polars.from_arrow``, ``pandas`` and others take.

    Parameters
    ----------
    log
        A path or URL, or an open `Log`.
    topic
        The name of the topic.
    as_of
        Read the log as it was: after this entry (its number), or at this time (a ``datetime``, or text in ISO 8601; in
        UTC unless it has a time zone). The columns are those that the topic had then. None: as it is now.
    columns
        The columns of the result, in this order. A topic without a schema has ``key``, ``value``, ``topic``,
        ``partition``, ``offset``, ``timestamp`` and ``headers``; one with a schema has its own columns, and
        ``_topic``, ``_partition``, ``_offset`` and ``_timestamp``. None: all of these, without the last four.
    filter
        An expression of ``pyarrow.compute`` over any of these columns, of whatever kind, such as
        ``pc.field("offset") >= 100``. The result has the rows that it is true of. Partitions and batches are not read
        if topic, partition, offset or timestamp alone exclude them.
    start
        Where to begin: an offset for each partition (those that are not named begin at the earliest), or a time: with
        the first record that is not older. None: the earliest.
    end
        Where to end, exclusive: the same, from the other side.
    isolation_level
        ``read_committed``, or ``read_uncommitted`` for records of open and aborted transactions, too.
    whole_transactions
        True: end where no committed transaction is split, in whatever topics of the log it has records. What waits in
        one of its partitions for an open transaction waits in all. All reads as of one entry (``as_of``) have the same
        ends. False: read each partition up to its own last stable offset, as a consumer does.
    config
        Settings of an object store, as `Consumer` takes them. Not with an open `Log`.

    Returns
    -------
    pyarrow.RecordBatchReader
        The rows. Its schema is known at once.

    Raises
    ------
    ConfigError
        A column, the filter or another argument does not fit.
    UnknownTopicOrPartitionError
        There is no such topic or partition.
    OffsetOutOfRangeError
        The partition has no such offsets, or not any more.
    InvalidRequestError
        ``as_of`` is not in the log, or not any more; nor are the entries by which ``whole_transactions`` is known.
    NotALogError
        There is no log.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> from spark_eos import Log, Producer, read_arrow
    >>> from spark_eos.storage import MemoryStore
    >>> log = Log.create(MemoryStore())
    >>> with Producer(log) as producer:
    ...     for value in (b"one", b"two", b"three"):
    ...         _ = producer.send("orders", value)
    >>> read_arrow(log, "orders", columns=["offset", "value"]).read_all().to_pydict()
    {'offset': [0, 1, 2], 'value': [b'one', b'two', b'three']}
    >>> late = read_arrow(log, "orders", filter=pc.field("offset") >= 2)
    >>> [batch.num_rows for batch in late]
    [1]
    """
    handle = opened_log(log, config)
    isolation = _isolation(isolation_level)
    check_whole(whole_transactions)
    if whole_transactions and (isolation is not Isolation.READ_COMMITTED or end is not None):
        argument = "end" if end is not None else f"isolation_level={isolation_level!r}"
        raise ConfigError(
            f"read_arrow: whole_transactions and {argument} contradict each other: whole_transactions says where "
            "reading ends, and that is never in an open transaction. Keep one of them"
        )
    past = past_log(handle, topic, as_of)  # First: what is planned on is not older than what is shown.
    # A reader of committed records waits for no transaction whose time is over.
    state = handle.as_decided(handle.end_overdue()) if isolation is Isolation.READ_COMMITTED else handle.state
    topic_now = topic_of(state, topic, handle.url)
    if past is not None:
        topic_now = topic_as_of(topic_now, past.state.topics[topic])
    available = available_columns(topic_now)
    names = chosen_columns(topic_now, available, columns)
    row_filter = None if filter is None else _row_filter(filter, available, topic_now)
    # All of one state: other threads may move the handle on meanwhile.
    shown_log, shown_state = (handle, state) if past is None else (past, past.state)
    cut = whole_cut(handle, shown_state) if whole_transactions else {}
    ranges = _ranges(shown_log, shown_state, topic, (start, end), isolation, cut)
    fetches: list[Fetch] = []
    for at, (first, stop) in ranges.items():
        if row_filter is not None:
            first, stop = row_filter.narrowed(at, first, stop)  # noqa: PLW2901
        if past is None:
            of_partition = plan(state, at, first, stop, isolation, handle.load)
        else:
            of_partition = plan_as_of(handle, state, past, at, first, stop, isolation)
        fetches += of_partition if row_filter is None else row_filter.kept(of_partition)
    needed = {*names, *(() if row_filter is None else row_filter.columns)}
    read_schema = pa.schema([field for field in available if field.name in needed])
    schema = pa.schema([available.field(name) for name in names])
    work = ArrowWork(handle, topic_now, tuple(fetches), read_schema, schema, row_filter)
    return pa.RecordBatchReader.from_batches(schema, work.batches())


class ArrowWork(NamedTuple):
    """What the reader does when it is iterated: the columns ``read`` are needed, those of ``schema`` are handed on."""

    log: Log
    topic: Topic
    fetches: tuple[Fetch, ...]
    read: pa.Schema
    schema: pa.Schema
    row_filter: RowFilter | None

    def batches(self) -> Iterator[pa.RecordBatch]:
        names = frozenset(self.read.names)
        topics = {self.topic.name: self.topic}
        is_empty = True
        with reading_ahead(self.log.store, topics, self.fetches, names) as read_one:
            for fetch in self.fetches:
                try:
                    records = read_one(fetch)
                except ObjectNotFoundError as error:
                    raise error_of_missing(
                        self.log,
                        fetch,
                        error,
                        "It was there when read_arrow planned this read: its records were deleted or "
                        "rewritten since, and it went when file.delete.delay.ms of its topic was over. Call read_arrow "
                        "again, or raise that setting if reading takes so long",
                    ) from error
                arrays = []
                for field in self.read:
                    place = place_column(field, records, fetch, is_typed=bool(self.topic.schemas))
                    arrays.append(records.column(field.name) if place is None else place)
                table = pa.Table.from_arrays(arrays, schema=self.read)
                if self.row_filter is not None:
                    table = self.row_filter.apply(table)
                batches = table.select(self.schema.names).to_batches()
                is_empty = is_empty and not batches
                yield from batches
        if is_empty:  # Polars makes no frame of a reader without a batch.
            yield pa.RecordBatch.from_pylist([], self.schema)


def opened_log(log: str | os.PathLike[str] | Log, config: Mapping[str, object] | None) -> Log:
    """The log of the arguments ``log`` and ``config``, at its newest entry. Raises `ConfigError`, `NotALogError`."""
    settings = store_settings(config)
    unknown = [name for name in config or {} if name not in settings]
    if unknown:
        raise ConfigError(
            f"read_arrow: {unknown[0]} is no setting of an object store; leave it out of config"
        )
    if isinstance(log, Log):
        check_open_log(config)
        log.follow()
        return log.without_maintenance()
    return Log.shared(log, settings, maintenance=False)


def check_whole(value: object) -> None:
    """Raise `ConfigError` unless the argument ``whole_transactions`` is one of the two: text is always true."""
    if not isinstance(value, bool):
        raise ConfigError(f"whole_transactions={value!r}; expected True or False")


def _isolation(text: str) -> Isolation:
    try:
        return Isolation(text)
    except ValueError:
        allowed = " or ".join(level.value for level in Isolation)
        raise ConfigError(f"read_arrow: isolation_level={text!r}; expected {allowed}") from None


def past_log(log: Log, topic: str, as_of: int | str | datetime | None) -> Log | None:
    """The log as of an entry or a time."""
    if as_of is None:
        return None
    if isinstance(as_of, int) and not isinstance(as_of, bool):
        seq = as_of
    else:
        seq = entry_at_time(log, _milliseconds("as_of", as_of))
    past = log_as_of(log, seq)
    if topic not in past.state.topics:
        raise UnknownTopicOrPartitionError(
            f"the log {log.url} had no topic {topic!r} after entry {past.state.seq}: read as of a later entry"
        )
    return past


def _milliseconds(name: str, moment: object) -> int:
    try:
        if isinstance(moment, str):
            moment = parse_time(moment)
        if isinstance(moment, datetime):
            aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
            whole = int(aware.replace(microsecond=0).timestamp()) * 1000
            # An entry of this very millisecond may be as of now; a record of it is older than what begins within it.
            return whole + (aware.microsecond // 1000 if name == "as_of" else -(-aware.microsecond // 1000))
    except (ValueError, OverflowError):
        pass
    expected = "an entry's number, a datetime or a time in ISO 8601" if name == "as_of" else "a datetime"
    raise ConfigError(f"read_arrow: {name}={moment!r}; expected {expected}, such as 2026-11-21T16:30:00Z")


def available_columns(topic: Topic) -> pa.Schema:
    """All columns that there are, in the order of the result."""
    layout = layout_of(topic)
    names = place_names(is_typed=not layout.is_kafka)
    places = [*map(pa.field, names, _PLACES), layout.physical.field(layout.timestamp_column)]
    own = [field for field in layout.physical if field.name != layout.timestamp_column]
    if layout.is_kafka:
        headers = own.pop()
        return pa.schema([*own, *places, headers])
    return pa.schema([*own, *places])


def chosen_columns(topic: Topic, available: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    """The names of the argument ``columns``, or those of all that is shown without it. Raises `ConfigError`."""
    if columns is None:
        return [
            name for name in available.names if not topic.schemas or name not in place_names(is_typed=True)
        ]
    if isinstance(columns, str) or not columns:
        raise ConfigError(f"read_arrow: columns={columns!r}; expected a list of names, such as ['offset']")
    chosen = list(columns)
    for name in chosen:
        if name not in available.names:
            near = nearest(str(name), available.names)
            hint = f"did you mean {near!r}? It" if near else "it"
            raise ConfigError(
                f"read_arrow: topic {topic.name!r} has no column {name!r}; {hint} has {', '.join(available.names)}"
            )
        if chosen.count(name) > 1:
            raise ConfigError(f"read_arrow: column {name!r} is chosen twice; keep one")
    return chosen


def _row_filter(expression: Any, available: pa.Schema, topic: Topic) -> RowFilter:
    import pyarrow.compute as pc

    from spark_eos.log.selection.row_filter import RowFilter

    if not isinstance(expression, pc.Expression):
        raise ConfigError(
            f"read_arrow: filter={expression!r}; expected an expression of pyarrow.compute, such as "
            "pc.field('offset') >= 100"
        )
    try:
        return RowFilter(expression, available, is_typed=bool(topic.schemas))
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"read_arrow: the filter {expression} does not fit topic {topic.name!r}, which has "
            f"{', '.join(f'{field.name} ({field.type})' for field in available)}: {str(error).splitlines()[0]}"
        ) from error


def _ranges(
    log: Log, state: State, topic: str, bounds: tuple[Bound, Bound], isolation: Isolation, cut: Cut
) -> dict[TopicPartition, tuple[int, int]]:
    """From where to where each partition is read in ``state``, not past the cut. ``log`` is the one of then."""
    partitions = state.topics[topic].partitions
    for name, bound in zip(("start", "end"), bounds, strict=True):
        _check_bound(name, bound, topic, partitions)
    look = partial(offset_for_time, log.store, state, load=log.load)
    ranges = {}
    for number in range(partitions):
        at = TopicPartition(topic, number)
        partition = partition_of(state, at)
        first, last = partition.start, end_offset(partition, isolation)
        start = _resolved(look, at, bounds[0], isolation, first, last)
        end = _resolved(look, at, bounds[1], isolation, last, last)
        if not (first <= start <= last and first <= end <= last):
            raise OffsetOutOfRangeError(
                f"read_arrow: offsets {start} to {end} of {at} are out of range: it has {first} to {last}"
            )
        end = min(end, cut.get((state.topics[topic].topic_id, number), end))
        ranges[at] = (start, max(start, end))
    return ranges


def _check_bound(name: str, bound: object, topic: str, partitions: int) -> None:
    if bound is None or isinstance(bound, datetime):
        return
    if not isinstance(bound, Mapping):
        raise ConfigError(
            f"read_arrow: {name}={bound!r}; expected offsets by partition, such as {{0: 23}}, or a datetime"
        )
    for number, offset in bound.items():
        if type(number) is not int or type(offset) is not int:
            raise ConfigError(f"read_arrow: {name} has {number!r}: {offset!r}; expected whole numbers")
        if not 0 <= number < partitions:
            raise UnknownTopicOrPartitionError(
                f"read_arrow: {name} names partition {number} of topic {topic!r}, which has 0 to {partitions - 1}"
            )


def _resolved(
    look: Callable[[TopicPartition, int, Isolation], tuple[int, int] | None],
    at: TopicPartition,
    bound: Bound,
    isolation: Isolation,
    default: int,
    last: int,
) -> int:
    if bound is None:
        return default
    if isinstance(bound, datetime):
        position = look(at, _milliseconds("start", bound), isolation)
        return last if position is None else position[0]
    return bound.get(at.partition, default)
