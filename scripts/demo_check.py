"""What the topics must hold, computed by DuckDB from the published CSV, and whether they hold exactly that."""

# ruff: noqa: S608  (the SQL is made of names and paths of this program alone)

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from immutables import Map

from spark_eos.config.isolation import Isolation
from spark_eos.log.data.planner import plan
from spark_eos.log.log import Log
from spark_eos.protocol.index import Kind
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition

__all__ = ["Check", "check_positions", "check_topic", "expect", "partition_of_key", "read_topic"]

_COLUMNS = {
    "year": "INT", "month": "INT", "day": "INT", "dep_time": "INT", "sched_dep_time": "INT", "dep_delay": "INT",
    "arr_time": "INT", "sched_arr_time": "INT", "arr_delay": "INT", "carrier": "VARCHAR", "flight": "INT",
    "tailnum": "VARCHAR", "origin": "VARCHAR", "dest": "VARCHAR", "air_time": "INT", "distance": "INT",
    "hour": "INT", "minute": "INT", "time_hour": "VARCHAR",
}  # fmt: skip

# to_json keeps nulls; merging into an empty object drops them, as Spark's to_json does.
_ROW = f"json_merge_patch('{{}}', to_json({{{', '.join(f'{name}: {name}' for name in _COLUMNS)}}}))"
_RESULT = """json_merge_patch('{}', to_json({scheduled: time_hour, flight: carrier || flight, airline: name,
    tailnum: tailnum, origin: origin, dest: dest, dep_delay: dep_delay, arr_delay: arr_delay,
    made_up: dep_delay - arr_delay}))"""
_TOPICS = {
    "flights": (_ROW, "true"),
    "departures": (_RESULT, "dep_time IS NOT NULL"),
    "cancelled": (_RESULT, "dep_time IS NULL"),
}


class Check(NamedTuple):
    """A line of the report: what was compared, what had to be found, what was found."""

    what: str
    expected: object
    found: object

    @property
    def exact(self) -> bool:
        """Whether it is just what had to be found."""
        return self.expected == self.found


def expect(
    connection: duckdb.DuckDBPyConnection, flights: Path, airlines: Path, rows: int, partitions: int
) -> None:
    """Make the tables ``expected_flights``, ``expected_departures`` and ``expected_cancelled``.

    Each has the columns partition, position (within the partition, from 0), key and value (JSON text).
    """
    columns = ", ".join(f"'{name}': '{type_}'" for name, type_ in _COLUMNS.items())
    connection.execute(
        f"""CREATE TEMP TABLE flight AS
        WITH published AS (
            SELECT row_number() OVER () AS line, * FROM read_csv('{_quoted(flights)}', header = true,
            nullstr = 'NA', parallel = false, columns = {{{columns}}})
        )
        SELECT row_number() OVER (ORDER BY month, line) AS number, * FROM published
        QUALIFY number <= {rows}"""
    )
    connection.execute(
        f"CREATE TEMP TABLE airline AS SELECT * FROM read_csv('{_quoted(airlines)}', header = true)"
    )
    carriers = [key for (key,) in connection.execute("SELECT DISTINCT carrier FROM flight").fetchall()]
    homes = pa.table(
        {
            "key": pa.array(carriers, pa.string()),
            "home": pa.array([partition_of_key(key.encode(), partitions) for key in carriers], pa.int32()),
        }
    )
    connection.register("home_of_key", homes)
    connection.execute(
        """CREATE TEMP TABLE joined AS SELECT flight.*, airline.name, home_of_key.home FROM flight
        LEFT JOIN airline ON flight.carrier = airline.carrier JOIN home_of_key ON flight.carrier = key"""
    )
    for topic, (value, condition) in _TOPICS.items():
        connection.execute(
            f"""CREATE TEMP TABLE expected_{topic} AS
            SELECT home AS partition, row_number() OVER (PARTITION BY home ORDER BY number) - 1 AS position,
                carrier AS key, {value} AS value
            FROM joined
            WHERE {condition}"""
        )


def read_topic(log: Log, name: str) -> pa.Table:
    """All committed records of a Kafka-shaped topic: partition, offset, key and value (text)."""
    state = log.follow()
    parts = [_records(partition=pa.array([], pa.int32()), offset=pa.array([], pa.int64()))]
    topic = state.topics.get(name)
    if topic is None:
        return parts[0]
    for number in range(topic.partitions):
        partition = state.partitions[topic.topic_id, number]
        stable = partition.last_stable_offset
        for fetch in plan(
            state, TopicPartition(name, number), partition.start, stable, Isolation.READ_COMMITTED, log.load
        ):
            rows = log.read(topic, fetch)
            parts.append(
                _records(
                    partition=pa.array([number] * rows.num_rows, pa.int32()),
                    offset=pa.array(rows.offsets),
                    key=rows.column("key").cast(pa.string()),
                    value=rows.column("value").cast(pa.string()),
                )
            )
    return pa.concat_tables(parts)


def check_topic(connection: duckdb.DuckDBPyConnection, topic: str, found: pa.Table) -> list[Check]:
    """Compare records (partition, offset, key, value) with the table ``expected_<topic>``.

    Once as a bag: every record as often as it has to be there; once in order: the n-th of a partition is
    the n-th that has to be there.
    """
    connection.register("found", found)
    columns = "partition, key, value"
    counts = connection.execute(
        f"""SELECT (SELECT count(*) FROM expected_{topic}), (SELECT count(*) FROM found),
        (SELECT count(*) FROM (SELECT {columns} FROM expected_{topic} EXCEPT ALL SELECT {columns} FROM found)),
        (SELECT count(*) FROM (SELECT {columns} FROM found EXCEPT ALL SELECT {columns} FROM expected_{topic})),
        (SELECT count(*) FROM expected_{topic} AS e FULL JOIN (
            SELECT *, row_number() OVER (PARTITION BY partition ORDER BY "offset") - 1 AS position FROM found
        ) AS f ON e.partition = f.partition AND e.position = f.position
        WHERE e.key IS DISTINCT FROM f.key OR e.value IS DISTINCT FROM f.value)"""
    ).fetchall()
    connection.unregister("found")
    ((expected, rows, missing, surplus, displaced),) = counts
    return [
        Check(f"{topic}: records", expected, rows),
        Check(f"{topic}: records that are missing", 0, missing),
        Check(f"{topic}: records too many, or other than expected", 0, surplus),
        Check(f"{topic}: records out of their partition's order", 0, displaced),
    ]


def check_positions(log: Log, topics: Iterable[str], source: str, group: str) -> list[Check]:
    """Offsets without a hole in every partition, and the group at the end of every partition of its source."""
    holes = 0
    markers = 0
    state = log.state
    for name in topics:
        for _, partition in _partitions(state, name):
            position = partition.start
            for row in partition.index.scan(0, log.load):
                holes += row.base_offset != position
                markers += row.kind is not Kind.DATA
                position = row.next_offset
            holes += position != partition.end
    ends = {number: partition.end for number, partition in _partitions(state, source)}
    offsets = {at: known.offset for at, known in state.offsets.get(group, Map()).items()}
    committed = {number: offsets.get((source, number)) for number in ends}
    return [
        Check(f"holes in the offsets (over {markers} COMMIT markers)", 0, holes),
        Check(f"offsets of {source} that the job committed", _listed(ends), _listed(committed)),
        Check("transactions left open", 0, len(state.open_transactions)),
    ]


def partition_of_key(key: bytes, partitions: int) -> int:
    """Where Kafka's default partitioner puts a key: murmur2, written down once more from its definition."""
    factor, mask = 0x5BD1E995, 0xFFFFFFFF
    digest = (0x9747B28C ^ len(key)) & mask
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * factor & mask
        digest = digest * factor & mask ^ (word ^ word >> 24) * factor & mask
    if key[whole:]:
        digest = (digest ^ int.from_bytes(key[whole:], "little")) * factor & mask
    digest = (digest ^ digest >> 13) * factor & mask
    return ((digest ^ digest >> 15) & 0x7FFFFFFF) % partitions


def _partitions(state: State, name: str) -> list[tuple[int, Any]]:
    topic = state.topics[name]
    return [(number, state.partitions[topic.topic_id, number]) for number in range(topic.partitions)]


def _records(**columns: Any) -> pa.Table:
    empty = pa.array([], pa.string())
    return pa.table({"key": empty, "value": empty, **columns}).select(["partition", "offset", "key", "value"])


def _listed(offsets: dict[int, Any]) -> str:
    return " ".join(f"{number}:{offset}" for number, offset in sorted(offsets.items()))


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
