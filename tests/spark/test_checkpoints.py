"""Checkpoints that were lost, put back, or pointed elsewhere: continued exactly, or refused and told why."""

from __future__ import annotations

import shutil

import pytest
from pyspark.errors import StreamingQueryException

from spark_eos import Admin
from spark_eos.errors import CheckpointMismatchError

pytestmark = pytest.mark.usefixtures("specified")


def refused(run, *parts):
    """The run fails with a message that has all ``parts``."""
    with pytest.raises(StreamingQueryException) as caught:
        run()
    for part in parts:
        assert part in str(caught.value)


@pytest.fixture
def source(bench):
    """``src`` in two partitions, with 60 records."""
    bench.topic("src", 2)
    bench.produce("src", range(60))
    return bench


@pytest.mark.deep
def test_a_query_stopped_and_started_twenty_times_goes_on(streams, bench):
    bench.topic("src", 2)
    for number in range(20):
        bench.produce("src", range(3 * number, 3 * number + 3))
        streams.copy()
    assert bench.values("out") == [*range(60)]
    bench.check_contiguous("out")
    (query,) = bench.state.queries.values()
    assert query.batch_id == 19


def test_a_lost_checkpoint_is_continued_from_the_committed_offsets(streams, source):
    again = {"group_id": "g"}
    streams.copy(again, transactional_id="tx", checkpoint="first")
    source.produce("src", range(60, 90))
    committed = {**again, "start": "committed", "maxOffsetsPerTrigger": 20}
    streams.copy(committed, transactional_id="tx", checkpoint="second")
    source.produce("src", range(90, 100))
    streams.copy(committed, transactional_id="tx", checkpoint="second")
    assert source.values("out") == [*range(100)]
    assert source.group("g") == {("src", 0): 50, ("src", 1): 50}


@pytest.mark.deep
def test_a_lost_checkpoint_is_not_read_from_the_beginning(streams, source):
    streams.copy({"group_id": "g"}, transactional_id="tx", checkpoint="first")
    refused(
        lambda: streams.copy({"group_id": "g"}, transactional_id="tx", checkpoint="second"),
        "CheckpointMismatchError",
        'reads source 0 from {"src": {"0": 0, "1": 0}}',
        'ended at {"src": {"0": 30, "1": 30}}',
        "startingOffsets=committed and the same group.id",
    )
    # Nor under another id, as long as the group says that its records have been read.
    refused(
        lambda: streams.copy({"group_id": "g"}, transactional_id="other", checkpoint="third"),
        "CheckpointMismatchError",
        "group 'g' has committed offset 30 for src-0",
    )
    assert source.values("out") == [*range(60)]
    assert source.files("out") == source.referenced("out")
    streams.copy(transactional_id="other", group_id="again", checkpoint="fourth", topic="again")
    assert source.values("again") == [*range(60)]


@pytest.mark.deep
def test_a_foreign_source_with_a_lost_checkpoint_is_refused(streams, bench, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "1.txt").write_text("1\n2\n")

    def run(checkpoint):
        frame = streams.spark.readStream.format("text").load(str(folder))
        streams.run(frame, transactional_id="tx", checkpoint=checkpoint)

    run("first")
    (folder / "2.txt").write_text("3\n")
    run("first")
    assert bench.values("out") == [1, 2, 3]
    refused(
        lambda: run("second"), "CheckpointMismatchError", "reads source 0 from an unknown place", "logOffset"
    )
    assert bench.values("out") == [1, 2, 3]


@pytest.mark.deep
@pytest.mark.parametrize("sliced", [20, 30])
def test_a_checkpoint_put_back_is_refused(streams, source, tmp_path, sliced):
    """Also where it would cut the same batch numbers into other slices."""
    source.produce("src", range(60, 80))
    at = tmp_path / "cp"
    saved = tmp_path / "saved"
    first = {"maxOffsetsPerTrigger": 40}
    streams.copy(first)
    shutil.copytree(at, saved)
    for begin in (80, 100):
        source.produce("src", range(begin, begin + 20))
        streams.copy({"maxOffsetsPerTrigger": 20})
    assert source.values("out") == [*range(120)]
    shutil.rmtree(at)
    shutil.copytree(saved, at)
    refused(
        lambda: streams.copy({"maxOffsetsPerTrigger": sliced}),
        "CheckpointMismatchError",
        "the checkpoint is older than the log",
        "Nothing was written. Go on with a new checkpoint",
    )
    source.produce("src", range(120, 130))
    refused(lambda: streams.copy({"maxOffsetsPerTrigger": 1000}), "CheckpointMismatchError")
    assert source.values("out") == [*range(120)]
    # What the message says to do:
    (query,) = source.state.queries
    remedy = {"start": "committed", "group_id": query}
    streams.copy(remedy, transactional_id=query, checkpoint="new")
    assert source.values("out") == [*range(130)]


@pytest.mark.deep
def test_the_last_batch_in_other_slices_is_refused(streams, source, tmp_path):
    """The checkpoint lost its last batch only: Spark plans the same number again, with other ends."""
    streams.copy()
    source.produce("src", range(60, 80))
    streams.copy()
    for folder in ("offsets", "commits"):
        (tmp_path / "cp" / folder / "1").unlink()
        (tmp_path / "cp" / folder / ".1.crc").unlink()
    source.produce("src", range(80, 90))
    refused(
        lambda: streams.copy({"maxOffsetsPerTrigger": 10}),
        "CheckpointMismatchError",
        "batch 1",
        "was committed with other offsets",
    )
    assert source.values("out") == [*range(80)]


@pytest.mark.deep
def test_a_checkpoint_pointed_at_another_log_is_refused(streams, source, benches):
    streams.copy()
    other = benches("other")
    other.topic("src", 2)
    other.produce("src", range(1000, 1100))
    refused(
        lambda: streams.copy({"bench": other}, bench=source),
        "CheckpointMismatchError",
        "pointed at another log",
    )
    assert source.values("out") == [*range(60)]


@pytest.mark.deep
def test_a_log_that_was_replaced_is_refused(streams, source):
    streams.copy()
    shutil.rmtree(source.url)
    source.topic("src", 2)
    source.produce("src", range(100))
    refused(streams.copy, "CheckpointMismatchError", "the log was replaced")
    assert source.values("out") == []


@pytest.mark.deep
def test_a_topic_deleted_and_created_again_is_refused(streams, source):
    streams.copy()
    Admin(source.url).delete_topic("src")
    source.topic("src", 2)
    source.produce("src", range(100, 200))
    refused(streams.copy, "CheckpointMismatchError", "'src' was deleted and created again")
    assert source.values("out") == [*range(60)]


@pytest.mark.deep
def test_a_deleted_topic_is_an_error_or_left_out(streams, source):
    def run(**options):
        reader = streams.spark.readStream.format("eoslog").option("subscribePattern", "src.*")
        frame = reader.option("startingOffsets", "earliest").options(**options).load(source.url)
        streams.run(frame.select("key", "value"))

    source.produce("src2", range(60, 70))
    run()
    Admin(source.url).delete_topic("src2")
    source.produce("src", range(70, 80))
    refused(run, "UnknownTopicOrPartitionError", "failOnDataLoss=false")
    run(failOnDataLoss="false")
    source.produce("src", range(80, 90))
    run(failOnDataLoss="false")
    assert source.values("out") == [*range(90)]


@pytest.mark.deep
def test_records_that_are_gone_are_an_error_or_left_out(streams, source):
    streams.copy()
    source.produce("src", range(60, 80))
    Admin(source.url).delete_records({("src", 0): 35, ("src", 1): 30})
    refused(
        streams.copy, "OffsetOutOfRangeError", "src-0 from offset 30 to 34 are gone", "failOnDataLoss=false"
    )
    assert source.values("out") == [*range(60)]
    streams.copy({"failOnDataLoss": "false"})
    assert source.values("out") == sorted({*range(80)} - {60, 62, 64, 66, 68})


def test_a_foreign_source_must_go_on_where_it_ended(bench, driver, hand_made):
    first, other = (hand_made(name) for name in ("first", "other"))
    same = hand_made("same", first.query_id)
    first.offsets(0, {"n": 5})
    driver(first, transactional_id="tx").run(0, "a")
    other.offsets(0, {"n": 3})
    other.offsets(1, {"n": 9})
    with pytest.raises(CheckpointMismatchError, match=r'reads source 0 from \{"n": 3\}'):
        driver(other, transactional_id="tx").run(1, "x")
    same.offsets(0, {"n": 5})
    same.offsets(1, {"n": 9})
    driver(same, transactional_id="tx").run(1, "b")
    assert bench.values("out") == ["a", "b"]


def test_a_checkpoint_older_than_the_log_is_refused(bench, checkpoint, driver, ours_at):
    for batch_id in range(3):
        driver().run(batch_id, batch_id)
    with pytest.raises(CheckpointMismatchError, match="comes after batch 2"):
        driver().run(1, "x")
    checkpoint.offsets(2, ours_at(25))
    with pytest.raises(CheckpointMismatchError, match="was committed with other offsets"):
        driver().run(2, "x")
    assert bench.values("out") == [0, 1, 2]


@pytest.mark.deep
@pytest.mark.parametrize("where", ["missing/../cp", "link/../cp", "./cp//"])
def test_the_checkpoint_is_where_spark_puts_it(streams, source, where):
    (streams.folder / "elsewhere" / "below").mkdir(parents=True)
    (streams.folder / "link").symlink_to(streams.folder / "elsewhere" / "below")
    streams.copy(checkpoint=where)
    assert source.values("out") == [*range(60)]
    assert (streams.folder / "cp" / "metadata").exists()
