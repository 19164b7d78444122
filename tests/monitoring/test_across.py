"""Lag of Spark queries that write into one log and read another one: the entry of the one, the checkpoint, the other.

The entries are those that the sink commits: `source_progress` makes them from the checkpoint.
"""

from __future__ import annotations

import json
import shutil
import time

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.cli.command import main
from spark_eos.errors import CheckpointMismatchError, ConfigError
from spark_eos.monitoring import Checkpoints, lags, lags_across
from spark_eos.monitoring.lag_of_several_logs import Look, readings
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.sink.checkpoint import Checkpoint, sources_of_batch
from spark_eos.spark.sink.source_progress import source_progress
from spark_eos.spark.source.offsets import SourceOffset
from tests.log.fakes import FakeClock

QUERY = "0a1b-query"


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


class World:
    """Logs ``out`` and ``in``, a query that reads the one and writes into the other, and its checkpoint."""

    def __init__(self, folder):
        self.folder = folder
        self.out = Log.create(str(folder / "out"))
        self.source = self.log("in")
        Admin(self.source).create_topic("orders", 2)
        self.write(10)
        self.checkpoint = folder / "checkpoint"
        (self.checkpoint / "offsets").mkdir(parents=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": QUERY}))

    def log(self, name):
        return Log.create(str(self.folder / name))

    def write(self, count, log=None, topic="orders"):
        with Producer(log or self.source) as producer:
            for number in range(count):
                producer.send(topic, b"x" * 100, partition=0, timestamp_ms=number * 1000).result()

    def at(self, *ends, log=None, topic="orders"):
        """The offset that the source gives Spark."""
        log = log or self.source
        ids = {topic: log.follow().topics[topic].topic_id}
        return self.offset(log.log_id, ids, {TopicPartition(topic, n): end for n, end in enumerate(ends)})

    def offset(self, log_id, ids, ends):
        return json.dumps(SourceOffset(log_id, ids, ends, dict.fromkeys(ends, 0), "earliest").to_json_dict())

    def plan(self, batch, *ends, named=False):
        """Spark notes the micro-batch in the checkpoint."""
        lines = [f"name_{n}:{end}" if named else end for n, end in enumerate(ends)]
        text = "\n".join(["v2" if named else "v1", "{}", *lines])
        (self.checkpoint / "offsets" / str(batch)).write_text(text)

    def commit(self, batch, *ends, named=False, name="copy"):
        """Spark notes the micro-batch, and the sink commits it."""
        self.plan(batch, *ends, named=named)
        sources = source_progress(
            sources_of_batch(Checkpoint(str(self.checkpoint)), batch),
            log_id=self.out.log_id,
            group=None,
            default_group=name,
        )
        batch = MicroBatch(name, QUERY, "run", batch, sources, (), ())
        self.out.commit(lambda state: propose(state, batch, finished=False))

    def known(self):
        return Checkpoints([str(self.checkpoint)])

    def look(self, *logs, checkpoints=None, exact=False):
        return lags_across(
            [self.out, *(logs or (self.source,))], checkpoints or self.known(), exact=exact, max_age_s=0.0
        )


def figures(one):
    return [(lag.topic, lag.partition, lag.committed, lag.end, lag.records) for lag in one.lags]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_a_query_is_behind_in_the_log_that_it_reads(world, exact, named):
    known = world.known()
    world.commit(0, world.at(4, 0), named=named)
    (one,) = world.look(exact=exact, checkpoints=known)
    assert (one.log, one.name, one.topic) == (world.out.url, "copy", "orders")
    assert (one.source_log, one.problem) == (world.source.url, "")
    assert figures(one) == [("orders", 0, 4, 10, 6), ("orders", 1, 0, 0, 0)]
    assert (one.lags[0].kind, one.lags[0].name, one.lags[0].group) == ("query", "copy", None)
    assert one.lags[0].bytes > 600
    world.commit(1, world.at(10, 0), named=named)
    (one,) = world.look(exact=exact, checkpoints=known)
    assert [lag.records for lag in one.lags] == [0, 0]
    # It is no reader of either log alone.
    assert lags(world.out) == lags(world.source) == []


def test_what_is_planned_and_not_committed_does_not_count(world):
    world.commit(0, world.at(4, 0))
    world.plan(1, world.at(9, 0))
    (one,) = world.look()
    assert figures(one)[0] == ("orders", 0, 4, 10, 6)


def test_without_the_checkpoint_no_figure_is_given(world):
    """The other log may be any, or Kafka: the entry has names of topics alone."""
    Admin(world.out).create_topic("orders", 1)
    world.commit(0, world.at(4, 0), '{"of another kind": {"0": "2"}}')
    (one,) = world.look(checkpoints=Checkpoints())
    assert (one.topic, one.source_log, one.lags) == ("orders", None, ())
    assert f"checkpoint of query {QUERY}: give it with --checkpoint" in one.problem


def test_the_log_that_is_read_is_not_given(world):
    world.commit(0, world.at(4, 0))
    other = world.log("other")
    Admin(other).create_topic("orders", 2)
    topic_id = world.source.state.topics["orders"].topic_id
    for logs in ([world.out], [world.out, other]):
        (one,) = lags_across(logs, world.known(), max_age_s=0.0)
        assert one.problem == (
            f"source topic id {topic_id} is in none of the given logs: add the URL of the log with id "
            f"{world.source.log_id}"
        )
        assert one.lags == ()


def test_a_topic_that_was_deleted_and_made_again(world):
    world.commit(0, world.at(4, 0))
    Admin(world.source).delete_topic("orders")
    (one,) = world.look()
    assert f"was deleted in {world.source.url}: the query cannot go on there" in one.problem
    Admin(world.source).create_topic("orders", 2)
    world.write(7)
    (one,) = world.look()
    assert "was deleted and created again in" in one.problem
    assert (one.lags, one.source_log) == ((), None)


def test_several_sources_and_one_that_is_not_ours(world):
    """Kafka's offsets look as those in the entry do."""
    more = world.log("more")
    Admin(more).create_topic("returns", 1)
    world.write(5, more, "returns")
    kafka = '{"orders": {"0": 2}}'
    world.commit(0, world.at(4, 0), kafka, world.at(3, log=more, topic="returns"), '{"logOffset": 3}')
    found = world.look(world.source, more)
    assert {one.topic: (one.source_log, one.problem) for one in found} == {
        "orders": (world.source.url, ""),
        "returns": (more.url, ""),
    }
    assert sorted(place for one in found for place in figures(one)) == [
        ("orders", 0, 4, 10, 6),
        ("orders", 1, 0, 0, 0),
        ("returns", 0, 3, 5, 2),
    ]


def test_a_partition_that_is_read_twice_counts_once_from_the_slower_source(world):
    world.commit(0, world.at(7, 0), world.at(4, 0))
    (one,) = world.look()
    assert figures(one) == [("orders", 0, 4, 10, 6), ("orders", 1, 0, 0, 0)]


def test_two_copies_of_the_log_that_is_read(world):
    world.commit(0, world.at(4, 0))
    shutil.copytree(world.folder / "in", world.folder / "restored")
    restored = Log.open(str(world.folder / "restored"))
    (one,) = world.look(world.source, restored)
    assert f"is in {world.source.url} and in {restored.url}, copies of one log: give only" in one.problem
    assert one.lags == ()


def test_a_log_that_was_put_back(world):
    shutil.copytree(world.folder / "in", world.folder / "restored")
    world.write(3)
    world.commit(0, world.at(12, 0))
    restored = Log.open(str(world.folder / "restored"))
    (one,) = world.look(restored)
    assert "stands at offset 12 of orders-0, which ends at 10 in" in one.problem
    (one,) = world.look()
    assert figures(one)[0] == ("orders", 0, 12, 13, 1)


def test_a_checkpoint_that_is_not_the_one_of_the_last_micro_batch(world):
    world.commit(0, world.at(4, 0))
    world.commit(1, world.at(6, 0))
    world.plan(1, world.at(7, 0))
    (one,) = world.look()
    assert "has other offsets for micro-batch 1 than the log" in one.problem
    (world.checkpoint / "offsets" / "1").unlink()
    (one,) = world.look()
    assert "offsets/1 is missing, though the log has this micro-batch" in one.problem
    (world.checkpoint / "offsets" / "1").write_text('v1\n{}\n{"@eosl')
    (one,) = world.look()
    assert "is not whole" in one.problem


def test_a_checkpoint_is_read_once_for_each_micro_batch(world):
    world.commit(0, world.at(4, 0))
    known = world.known()
    (one,) = world.look(checkpoints=known)
    (world.checkpoint / "offsets" / "0").unlink()
    assert figures(world.look(checkpoints=known)[0]) == figures(one)


def test_locations_of_checkpoints(world):
    with pytest.raises(CheckpointMismatchError, match="names no query"):
        Checkpoints([str(world.folder)])
    copy = shutil.copytree(world.checkpoint, world.folder / "copy")
    with pytest.raises(ConfigError, match="checkpoints of one query"):
        Checkpoints([str(world.checkpoint), str(copy)])
    assert Checkpoints([f"file://{copy}"]).location(QUERY) == f"file://{copy}"
    with pytest.raises(ConfigError, match="hdfs://host/x' cannot be read here"):
        Checkpoints(["hdfs://host/x"])


def test_a_log_that_is_read_is_looked_at_after_the_one_that_is_written_to(world):
    """A query that commits between the two looks is not taken for one whose source was put back."""
    stale = world.source.follow()
    world.write(5)
    world.commit(0, world.at(15, 0))
    looks = [Look("out", world.out.follow()), Look("in", stale)]
    (one,) = readings(looks, looks, world.known())
    assert "put back" in one.problem  # What the order prevents.
    (one,) = lags_across([world.source, world.out], world.known(), max_age_s=3600.0)
    assert (one.problem, figures(one)[0]) == ("", ("orders", 0, 15, 15, 0))


def test_the_time_is_the_stores_where_this_machine_is_wrong(world):
    with Producer(world.source) as producer:
        producer.send("orders", b"x", partition=1).result()
    world.commit(0, world.at(10, 0))
    wrong = FakeClock()
    wrong.now = time.time() + 24 * 3600
    (one,) = lags_across([Log.open(log.url, wrong) for log in (world.out, world.source)], world.known())
    assert one.lags[1].time_ms < 3600 * 1000


# -- The command ------------------------------------------------------------------------------------------


def run(capsys, *arguments):
    assert main(["lag", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_command_shows_lag_across_logs(world, capsys):
    world.commit(0, world.at(4, 0))
    out, source = world.folder / "out", world.folder / "in"
    found = run(capsys, out, source, "--checkpoint", world.checkpoint).splitlines()
    assert found[0].split()[:6] == ["LOG", "READS", "KIND", "NAME", "TOPIC", "PARTITION"]
    assert found[1].split()[:10] == [
        str(out),
        str(source),
        "query",
        "copy",
        "orders",
        "0",
        "4",
        "10",
        "6",
        "6",
    ]
    (total,) = run(capsys, out, source, "--checkpoint", world.checkpoint, "--totals").splitlines()[1:]
    assert total.split()[:7] == [str(out), str(source), "query", "copy", "2", "6", "6"]
    rows = run(capsys, out, source, "--checkpoint", world.checkpoint, "--json").splitlines()
    first = json.loads(rows[0])
    assert (first["log"], first["source_log"], first["offsets"]) == (str(out), str(source), 6)


def test_the_command_says_what_to_give(world, capsys):
    world.commit(0, world.at(4, 0))
    out = world.folder / "out"
    _, row, told = run(capsys, out).splitlines()
    assert row.split() == ["query", "copy", "orders", *"-------"]
    assert (
        f"copy, orders: read outside of this log. Which log that is stands in the checkpoint of query {QUERY}"
        in told
    )
    _, row, told = run(capsys, out, "--checkpoint", world.checkpoint).splitlines()
    assert "is in none of the given logs: add the URL of the log with id" in told
    (row,) = run(capsys, out, "--checkpoint", world.checkpoint, "--json").splitlines()
    assert json.loads(row)["offsets"] is None
    assert "in none of the given logs" in json.loads(row)["problem"]


def test_the_command_filters_and_refuses(world, capsys):
    world.commit(0, world.at(4, 0))
    out, source = world.folder / "out", world.folder / "in"
    with_checkpoint = [out, source, "--checkpoint", world.checkpoint]
    Admin(world.source).alter_group_offsets("billing", {TopicPartition("orders", 0): 1})
    assert len(run(capsys, *with_checkpoint, "--json").splitlines()) == 3
    assert len(run(capsys, *with_checkpoint, "--group", "copy", "--json").splitlines()) == 2
    assert len(run(capsys, *with_checkpoint, "--group", "billing", "--json").splitlines()) == 1
    assert len(run(capsys, *with_checkpoint, "--topic", "orders", "--json").splitlines()) == 3
    assert main(["lag", str(out), str(source), "--topic", "other"]) == 1
    assert main(["lag", str(out), str(source), "--group", "other"]) == 1
    assert main(["lag", str(out), f"{out}/../out"]) == 1
    assert "a log is named twice" in capsys.readouterr().err
