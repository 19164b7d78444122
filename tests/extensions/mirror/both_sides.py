"""What Kafka has and what the log has, record by record, and whether the offset map says which is which."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from spark_eos import read_arrow
from spark_eos.extensions.mirror.offset_map import OffsetMap, current
from spark_eos.log.log import Log

NO_HEADERS = ()


def in_kafka(address, topic):
    """Committed records by partition, each (offset, key, value, headers, timestamp), and where each partition ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "checker",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    numbers = consumer.list_topics(topic, timeout=300).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
    found, ends = {number: [] for number in numbers}, {}
    while len(ends) < len(numbers):
        for message in consumer.consume(10_000, 0.2):
            error = message.error()
            if error is None:
                found[message.partition()].append(
                    (
                        message.offset(),
                        message.key(),
                        message.value(),
                        tuple(message.headers() or NO_HEADERS),
                        message.timestamp()[1],
                    )
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[message.partition()] = message.offset()
    consumer.close()
    return found, ends


def in_log(url, topic):
    """The same of the log."""
    columns = ["partition", "offset", "key", "value", "headers", "timestamp"]
    found = {number: [] for number in range(Log.open(url).topic(topic).partitions)}
    for row in read_arrow(url, topic, columns=columns).read_all().to_pylist():
        headers = tuple((one["key"], one["value"]) for one in row["headers"] or NO_HEADERS)
        stamp = round(row["timestamp"].timestamp() * 1000)
        found[row["partition"]].append((row["offset"], row["key"], row["value"], headers, stamp))
    return found


def check(kafka, url, name, topic, target=None, *, mine=bool):
    """Both sides have the same records in the same order, and each finds the other. ``mine``: what the mirror wrote.

    ``kafka`` is what `in_kafka` has found. The number of records.
    """
    target = target or topic
    theirs, ends = kafka
    ours = {number: [row for row in rows if mine(row)] for number, rows in in_log(url, target).items()}
    for number, rows in theirs.items():
        there = [row[1:] for row in rows]
        here = [row[1:] for row in ours[number]]
        assert len(there) == len(here), f"{topic}-{number}"
        assert there == here, f"{topic}-{number}"
    log = Log.open(url)
    state = log.state
    standing = {one.partition: one for one in current(state, name) if one.target == target}
    assert {number: one.offset for number, one in standing.items()} == ends
    for number, rows in theirs.items():
        offsets = OffsetMap(log, state, name, standing[number])
        for row, copy in zip(rows, ours[number], strict=True):
            assert offsets.to_log(row[0]) == (copy[0], True)
            assert offsets.to_kafka(copy[0]) == (row[0], True)
    return sum(map(len, theirs.values()))
