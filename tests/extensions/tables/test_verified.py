"""``eoslog verify`` of a log whose Parquet files have rows with gaps between their offsets."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Producer
from spark_eos.maintenance.verify import data
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
    read = data.read_batch

    def other(store, file, *arguments, **named):
        table = read(store, file, *arguments, **named)
        if file.is_parquet:
            assert table.column(0).to_pylist() == [0, 2, 4, 6, 8]
            table = table.set_column(0, table.field(0), pa.array(offsets))
        return table

    monkeypatch.setattr(data, "read_batch", other)
    assert any("its rows have offsets that are not in order" in text for text in wrong(world))
