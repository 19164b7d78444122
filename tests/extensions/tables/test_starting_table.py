"""Where a read begins by a version of a table: what the version says must fit the log and the topics."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from spark_eos.errors import ConfigError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from spark_eos.extensions.tables.target import Stamp
from spark_eos.spark.options import parse_source
from spark_eos.spark.source.offset_resolution import starting_positions
from spark_eos.spark.topics import selected_partitions
from tests.spark.conftest import bench  # noqa: F401  (fixtures)

ENDS = {0: (0, 3), 1: (0, 5)}


@pytest.fixture
def begins(bench, tmp_path):
    """Where a read of topics begins by a table whose version has this stamp."""
    bench.topic("src", 2)
    bench.produce("src", range(20))

    def make(topics="src", offsets=ENDS, **changed):
        stamp = Stamp(
            bench.log.log_id, "p", 1, 3, 0, "src", bench.state.topics["src"].topic_id, offsets
        )._replace(**changed)
        properties = CommitProperties(custom_metadata=stamp.properties())
        table = str(tmp_path / "table")
        write_deltalake(table, pa.table({"n": [1]}), mode="append", commit_properties=properties)
        options = parse_source(
            {"path": bench.url, "subscribe": topics, "startingTable": table}, streaming=True
        )
        found = starting_positions(options, bench.log, selected_partitions(options, bench.state))
        return {str(at): offset for at, offset in found.items()}

    return make


def test_where_the_version_ends(begins):
    assert begins() == {"src-0": 3, "src-1": 5}


def test_a_partition_that_is_newer_is_read_from_its_beginning(begins):
    assert begins(offsets={0: (0, 3)}) == {"src-0": 3, "src-1": 0}


def test_a_table_of_another_log(begins, bench):
    with pytest.raises(ConfigError, match=f"was published by log other, but .* is log {bench.log.log_id}"):
        begins(log_id="other")


def test_a_topic_that_was_made_again(begins):
    with pytest.raises(
        UnknownTopicOrPartitionError, match="'src', which was deleted and created again since"
    ):
        begins(topic_id="other")
    with pytest.raises(UnknownTopicOrPartitionError, match="'gone', which was deleted since"):
        begins(topic="gone")


def test_more_topics_than_the_table_has(begins, bench):
    bench.topic("more", 1)
    with pytest.raises(ConfigError, match="is of topic 'src', but the source reads more, too"):
        begins("src,more")


def test_offsets_that_are_not_there(begins):
    with pytest.raises(OffsetOutOfRangeError, match="offset 30 of src-0 is out of range"):
        begins(offsets={0: (0, 30)})
