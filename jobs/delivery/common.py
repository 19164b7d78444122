"""What the recipes share: the example's transform, reading with care, calling again, and the command line."""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeVar

from spark_eos import Admin, Consumer, ConsumerRecord, Log, Producer, RecordMetadata, TopicPartition
from spark_eos.errors import EosLogError, RetriableError

__all__ = [
    "Result",
    "Transform",
    "again",
    "batches",
    "departure",
    "open_consumer",
    "positions",
    "produce",
    "program",
    "seek_to_committed",
    "transaction",
    "wait",
]

ATTEMPTS = 10
WAIT_S = 0.5

T = TypeVar("T")


class Result(NamedTuple):
    """What a record becomes."""

    key: bytes | None
    value: bytes


Transform = Callable[[ConsumerRecord], "Result | None"]
"""Makes one result of a record, or none. It should depend on the record alone: it may be asked again."""


def departure(record: ConsumerRecord) -> Result | None:
    """The example: a flight in JSON (as `ingest.py` writes it) to a departure; cancelled ones are left out."""
    try:
        flight = json.loads(record.value)
        if flight.get("dep_time") is None:
            return None
        number = f"{flight['carrier']}{flight['flight']}"
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        # Leaving it out would be a silent loss.
        place = f"{record.topic}-{record.partition}, offset {record.offset}"
        raise ValueError(f"{place}: the value is no flight; mend the transform or skip it there") from error
    values = {"scheduled": flight.get("time_hour"), "flight": number, "dep_delay": flight.get("dep_delay")}
    return Result(record.key, json.dumps(values).encode())


# -- Reading ----------------------------------------------------------------------------------------


def open_consumer(log: str | Log, source: str, group: str | None = None) -> Consumer:
    """A consumer of all partitions that the topic has now; partitions added later need a new start.

    Three settings matter. Nothing aborted is read. Positions are committed where the recipe says so, and not
    by a timer. Where records are gone that were not read yet there is an error, not a jump.
    """
    settings = {
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "none",
    }
    if group is not None:
        settings["group.id"] = group
    topic = Admin(log).describe_topic(source)
    consumer = Consumer(log, settings)
    consumer.assign([TopicPartition(source, one.partition) for one in topic.partitions])
    return consumer


def seek_to_committed(consumer: Consumer) -> None:
    """Go on at what the group committed; at the beginning of partitions for which it never did."""
    partitions = consumer.assignment()
    beginning = consumer.beginning_offsets(partitions)
    for at, committed in again(lambda: consumer.committed(partitions)).items():
        consumer.seek(at, beginning[at] if committed is None else committed.offset)


def positions(consumer: Consumer) -> dict[TopicPartition, int]:
    """The offset of the next record of each partition."""
    return {at: consumer.position(at) for at in sorted(consumer.assignment())}


def batches(consumer: Consumer, max_records: int, *, until_end: bool) -> Iterator[list[ConsumerRecord]]:
    """What the polls find: for ever, or until everything is read that can be read now."""
    while True:
        records = again(lambda: consumer.poll(0 if until_end else 1000, max_records))
        if records:
            yield records
        elif until_end:
            return


# -- Writing ----------------------------------------------------------------------------------------


def produce(
    producer: Producer, target: str, transform: Transform, records: list[ConsumerRecord]
) -> list[Future[RecordMetadata]]:
    """Send what the records become; the futures tell when it is durable."""
    results = [result for result in map(transform, records) if result is not None]
    return [again(partial(producer.send, target, one.value, key=one.key)) for one in results]


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """One transaction of the database: all of it, or none."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if database.in_transaction:  # some errors, such as a full disk, have ended it already
            database.execute("ROLLBACK")
        raise
    # If this fails, it may be done or not: end, start again, and look at what the database says.
    database.execute("COMMIT")


def again(call: Callable[[], T]) -> T:
    """Call, and after a `RetriableError` call the very same again, `ATTEMPTS` times in all.

    That is also the only right thing after `CommitOutcomeUnknownError`: the same verb finds out whether it
    was done the first time.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return call()
        except RetriableError:
            wait()
    return call()


def wait() -> None:
    """Give others a moment."""
    time.sleep(WAIT_S)


# -- Command line -----------------------------------------------------------------------------------


def program(run: Callable[..., int], name: str, target: str, arguments: list[str] | None = None) -> None:
    """Run a recipe as the command line says. An error is printed in one line, with exit status 1."""
    parser = argparse.ArgumentParser(prog=f"{name}.py", description=sys.modules[run.__module__].__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("log", metavar="LOG", help="the log: a folder or URL")
    parser.add_argument("--from", dest="source", metavar="TOPIC", default="flights", help="the topic to read")
    parser.add_argument("--to", dest="target", metavar="TARGET", required=True, help=target)
    parser.add_argument(
        "--group", required=True, help="who reads, the same in every run; one run at a time of each"
    )
    parser.add_argument(
        "--max-records", type=int, default=500, help="records of a batch (default: %(default)s)"
    )
    parser.add_argument(
        "--until-end", action="store_true", help="stop when all is read; otherwise wait for more"
    )
    given = parser.parse_args(arguments)
    try:
        count = run(
            given.log, given.source, given.target, given.group, departure,
            max_records=given.max_records, until_end=given.until_end,
        )  # fmt: skip
    except (EosLogError, sqlite3.Error, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    print(f"{name}: {count} records read")
