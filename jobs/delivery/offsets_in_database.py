"""Exactly once into a database: the results and the offsets in one transaction of that database.

    python jobs/delivery/offsets_in_database.py LOG --from flights --to departures.sqlite --group warehouse

The database alone knows how far the reader is; on start the reader seeks there, and commits nothing to the log.
SQLite stands for any database with transactions over the two tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

from common import Transform, batches, open_consumer, positions, program, transaction

from spark_eos import Admin, Consumer, Log, TopicPartition
from spark_eos.errors import FatalError

TABLES = """
    CREATE TABLE IF NOT EXISTS results (key BLOB, value BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS offsets (
        reader TEXT, topic_id TEXT, partition INTEGER, next INTEGER NOT NULL,
        PRIMARY KEY (reader, topic_id, partition)
    );
"""


def run(
    log: str | Log,
    source: str,
    target: str,
    group: str,
    transform: Transform,
    *,
    max_records: int = 500,
    until_end: bool = False,
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
) -> int:
    """Read topic ``source``, write table ``results`` of the database ``target``; how many records were read."""
    count = 0
    # Without isolation_level sqlite3 begins no transactions of its own.
    with closing(connect(target, isolation_level=None)) as database, open_consumer(log, source) as consumer:
        for statement in TABLES.split(";")[:-1]:
            database.execute(statement)
        # By the topic's id: one that is created again starts over, at offset 0.
        reader = (group, Admin(log).describe_topic(source).topic_id)
        _seek(database, reader, consumer)
        before = positions(consumer)
        for records in batches(consumer, max_records, until_end=until_end):
            results = [result for result in map(transform, records) if result is not None]
            after = positions(consumer)
            with transaction(database):
                database.executemany("INSERT INTO results VALUES (?, ?)", results)
                for at, offset in after.items():
                    _move(database, reader, at, before[at], offset)
            before = after
            count += len(records)
    return count


def _seek(database: sqlite3.Connection, reader: tuple[str, str], consumer: Consumer) -> None:
    """Go on where the database says; a partition that is new to it begins at its first record."""
    beginning = consumer.beginning_offsets(consumer.assignment())
    with transaction(database):
        database.executemany(
            "INSERT OR IGNORE INTO offsets VALUES (?, ?, ?, ?)",
            [(*reader, at.partition, offset) for at, offset in beginning.items()],
        )
    known = database.execute("SELECT partition, next FROM offsets WHERE reader = ? AND topic_id = ?", reader)
    stored = dict(known.fetchall())
    for at in beginning:
        consumer.seek(at, stored[at.partition])


def _move(
    database: sqlite3.Connection, reader: tuple[str, str], at: TopicPartition, before: int, after: int
) -> None:
    """Move a position, from where this run knows it to be: otherwise another run is at work."""
    moved = database.execute(
        "UPDATE offsets SET next = ? WHERE reader = ? AND topic_id = ? AND partition = ? AND next = ?",
        (after, *reader, at.partition, before),
    )
    if moved.rowcount != 1:
        raise FatalError(
            f"reader {reader[0]!r} is not at offset {before} of {at}: another run goes on with it"
        )


if __name__ == "__main__":
    program(run, "offsets_in_database", "the database: a file of SQLite")
