"""A source whose log was put back from an older copy: its checkpoint knows of the history that is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_eos.errors import OffsetOutOfRangeError
from spark_eos.log.log import Log
from spark_eos.spark.options import parse_any_source, parse_source
from spark_eos.spark.sink.continuity import check_continues
from spark_eos.spark.source.offsets import SourceOffset
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.topics import source_schema


@pytest.fixture
def copied(bench, tmp_path):
    """Copies the log when it is called, and puts the copy in its place when what it returns is called."""

    def copy():
        shutil.copytree(bench.url, tmp_path / "copy")

        def put_back():
            shutil.rmtree(bench.url)
            Path(tmp_path / "copy").rename(bench.url)
            bench.forget()

        return put_back

    return copy


@pytest.fixture
def reader_of(bench):
    """A source of ``src`` with some options, as a query makes it that is started now."""

    def make(**options):
        given = {"path": bench.url, "subscribe": "src", "startingOffsets": "earliest", **options}
        bench.forget()
        return EosLogStreamReader(parse_source(given, streaming=True), source_schema(parse_any_source(given)))

    return make


def latest(reader, start=None):
    return reader.latestOffset(start or reader.initialOffset(), reader.getDefaultReadLimit())


def test_a_newer_checkpoint_is_refused_when_writers_have_passed_it(bench, copied, reader_of):
    """The entry up to which it had read all is another one now, though its offsets are in the log again."""
    bench.topic("src", 1)
    bench.produce("src", range(10))
    older = latest(reader_of())
    put_back = copied()
    bench.produce("src", range(10, 30))
    newer = latest(reader_of(), older)
    put_back()
    with pytest.raises(OffsetOutOfRangeError, match="which is not in the history of"):
        latest(reader_of(), newer)
    for _ in range(5):
        bench.produce("src", range(100, 110))
    assert latest(reader_of(), older)["src"] == {"0": 60}
    for ask in (
        lambda reader: latest(reader, newer),
        lambda reader: reader.partitions(older, newer),
        lambda reader: reader.partitions(newer, newer),
    ):
        with pytest.raises(
            OffsetOutOfRangeError, match=r"ahead of the log.* new checkpoint.* failOnDataLoss=false"
        ):
            ask(reader_of())


def test_a_newer_checkpoint_goes_on_at_its_offsets_where_loss_is_allowed(bench, copied, reader_of, caplog):
    bench.topic("src", 1)
    bench.produce("src", range(10))
    put_back = copied()
    bench.produce("src", range(10, 30))
    newer = latest(reader_of())
    put_back()
    for _ in range(5):
        bench.produce("src", range(100, 110))
    reader = reader_of(failOnDataLoss="false")
    end = latest(reader, newer)
    assert end["src"] == {"0": 60}
    assert "goes on at the offsets of its checkpoint" in caplog.text
    caplog.clear()
    assert latest(reader, end) == end
    assert caplog.text == "", "it has read all of this history now"


def test_a_query_that_is_behind_knows_what_it_has_read_all_of(bench, reader_of):
    """What it has not read yet may be lost with the log, and is no reason to refuse it."""
    bench.topic("src", 1)
    bench.produce("src", range(10))
    reader = reader_of(maxOffsetsPerTrigger="10")
    all_read = latest(reader)
    bench.produce("src", range(25))
    part = latest(reader, all_read)
    assert part["src"] == {"0": 20}
    assert part["@eoslog"]["read"] == all_read["@eoslog"]["read"]
    last = latest(reader, latest(reader, part))
    assert last["src"] == {"0": 35}
    assert last["@eoslog"]["read"]["entry"] > all_read["@eoslog"]["read"]["entry"]
    bench.topic("other", 1)
    assert latest(reader, last) == last, "nothing of its topics is new"


def test_a_state_that_is_older_than_the_checkpoint_is_no_log_that_was_put_back(bench, reader_of):
    """Another process, or another machine, has read on."""
    bench.topic("src", 1)
    old = bench.log.follow()
    bench.produce("src", range(10))
    newer = SourceOffset.from_json_dict(latest(reader_of()))
    assert newer.read.entry > old.seq
    given = {"path": bench.url, "subscribe": "src", "startingOffsets": "earliest"}
    check_continues(newer, parse_source(given, streaming=True), Log.open(bench.url), old)


def test_a_run_that_ends_at_its_target_has_read_no_more_than_that(bench, reader_of):
    bench.topic("src", 1)
    bench.produce("src", range(15))
    target = bench.state.seq
    reader = reader_of(maxOffsetsPerTrigger="10")
    reader.prepareForTriggerAvailableNow()
    part = latest(reader)
    bench.produce("src", range(5))
    end = latest(reader, part)
    assert (end["src"], end["@eoslog"]["read"]["entry"]) == ({"0": 15}, target)
