"""``eoslog verify`` of a log whose Parquet files have rows with gaps between their offsets."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Producer
from spark_eos.log.data.parquet import reader
from spark_eos.maintenance.verify.verify import Verdict, verify
from tests.extensions.tables.world import World


@pytest.fixture
def world(tmp_path):
    """The end of a transaction takes an offset of which the table has no row."""
    world = World(tmp_path / "log")
    with Producer(world.log, {"transactional.id": "tx"}) as producer:
        producer.init_transactions()
        for number in range(5):
            producer.begin_transaction()
            producer.send("events", b"%d" % number, partition=0)
            producer.commit_transaction()
    world.tables.create("p", ["events"])
    world.tables.publish("p")
    return world


def wrong(world):
    findings = []
    verify(world.url, findings.append)
    return [one.text for one in findings if one.verdict is Verdict.WRONG]


def test_gaps_between_offsets_are_nothing_wrong(world):
    assert world.check(topics=("events",)) == 1
    assert wrong(world) == []


@pytest.mark.parametrize("offsets", [[2, 1, 3, 4, 5], [0, 1, 2, 3, 10], [1, 1, 2, 3, 4], [-1, 1, 2, 3, 4]])
def test_offsets_that_are_not_those_of_the_index_are_named(world, monkeypatch, offsets):
    read = reader.from_file

    def other(table, schema):
        columns = read(table, schema)
        if columns.num_columns == 3:  # Partition, offset and time, and no value.
            assert columns.column(1).to_pylist() == [0, 2, 4, 6, 8]
            columns = columns.set_column(1, columns.field(1), pa.chunked_array([offsets]))
        return columns

    monkeypatch.setattr(reader, "from_file", other)
    assert any("its rows do not have rising offsets from 0 to 9" in text for text in wrong(world))
