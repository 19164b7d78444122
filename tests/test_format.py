"""docs/reference/format.md is enough to write a reader: `tests.format_reader` sees what a Consumer sees."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.log.log import Log
from spark_eos.log.topics import new_topic
from spark_eos.maintenance.compaction import Compactor
from spark_eos.maintenance.rolling import Roller
from spark_eos.protocol.actions import RaiseStagingFloor
from spark_eos.protocol.encoding.avro import fingerprint
from tests import format_reader
from tests.golden.make import GOLDEN, KINDS, PAGE
from verification.retiring import RETIRED_AT_ONCE


def test_the_schemas_are_those_of_the_code():
    """``scripts/generate`` writes a new one; one that a release has written never changes."""
    found = {
        f"avro/{kind}-{version}.avsc": one
        for kind, schemas in KINDS.items()
        for version, one in schemas.items()
    }
    stored = {
        f"avro/{path.name}": json.loads(path.read_text("utf-8")) for path in (PAGE.parent / "avro").iterdir()
    }
    assert stored == found
    rows = re.findall(r"^\| \[.*?\]\((avro/.*?)\) \| `(\w{16})` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert dict(rows) == {name: fingerprint(one).hex() for name, one in found.items()}


def test_the_reader_knows_nothing_of_this_package():
    text = Path(format_reader.__file__).read_text(encoding="utf-8")
    names = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    libraries = {"fastavro", "pyarrow"}
    assert names <= libraries | {*sys.stdlib_module_names}


def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, int | None) else str(value)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("v*/*.json")), ids=lambda path: path.stem)
def test_it_reads_the_golden_logs(path):
    """They have every action, snapshots and index pages."""
    reader = format_reader.Reader(path.with_suffix(""))
    topics = json.loads(path.read_text(encoding="utf-8"))["topics"]
    assert {*reader.topics} == {*topics}
    for name, topic in topics.items():
        for number, partition in enumerate(topic["partitions"]):
            found = [
                [offset, {k: plain(v) for k, v in row.items()}]
                for offset, row in reader.records(name, number)
            ]
            assert found == partition["rows"]["read_committed"], (name, number)
            state = reader.partitions[topic["id"], number]
            assert (state.start, state.end, state.stable) == (
                partition["start"],
                partition["end"],
                partition["lso"],
            )


def consumed(log, topic, partitions):
    with Consumer(log, {"isolation.level": "read_committed"}) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        consumer.seek_to_beginning()
        found = []
        while records := consumer.poll(timeout_ms=50):
            found += [(r.partition, r.offset, r.key, r.value, r.timestamp_ms) for r in records]
    return sorted(found)


def read(log, topic, partitions):
    reader = format_reader.Reader(log)
    return sorted(
        (number, offset, row["key"], row["value"], int(row["timestamp"].timestamp() * 1000 + 0.5))
        for number in range(partitions)
        for offset, row in reader.records(topic, number)
    )


def test_it_sees_what_a_consumer_sees(tmp_path):
    """Transactions with each end, one that is open, a retry, compaction, rolling, and a snapshot."""
    url = str(tmp_path / "log")
    log = Log.create(url, snapshot_interval=10, config=RETIRED_AT_ONCE, entries_per_folder=20)
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "compression.type": "zstd"}
    log.commit(lambda _: (new_topic("orders", 3, config),))
    with Producer(url) as plain_producer, Producer(url, {"transactional.id": "t"}) as producer:
        producer.init_transactions()
        for turn in range(30):
            producer.begin_transaction()
            for number in range(6):
                producer.send("orders", b"%d/%d" % (turn, number), key=b"k%d" % (number * turn % 20))
            if turn % 3:
                producer.flush()
            plain_producer.send("orders", b"plain %d" % turn, key=b"p%d" % (turn % 4))
            plain_producer.flush()
            producer.abort_transaction() if turn % 3 == 2 else producer.commit_transaction()
        assert read(url, "orders", 3) == consumed(url, "orders", 3) != []
        Compactor(log).run()
        Roller(log, tail_rows=1).run()
        while log.follow().seq % 10:
            log.commit(lambda _: (RaiseStagingFloor(0),))
        log.maintenance.snapshot()
        producer.begin_transaction()
        producer.send("orders", b"open", key=b"k")
        producer.flush()
        plain_producer.send("orders", b"behind it", key=b"k")
        plain_producer.flush()
        found = read(url, "orders", 3)
        assert found == consumed(url, "orders", 3)
        assert not {b"open", b"behind it"} & {value for *_, value, _ in found}
    assert [*(tmp_path / "log/_log/snapshots").iterdir()]
    assert [*(tmp_path / "log/_log/index").rglob("*.avro")]
    rows = [row for one in format_reader.Reader(url).partitions.values() for row in one.rows]
    assert any(row["file"] is not None and row["file"]["offsets"] for row in rows)
