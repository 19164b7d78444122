"""Rows and offsets of a micro-batch belong together: what was planned and read is what is committed."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest
from pyspark.errors import StreamingQueryException

from spark_eos.errors import CheckpointMismatchError, StorageError
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.datasource import EosLogDataSource
from spark_eos.spark.host import Host, hosted
from spark_eos.spark.options import parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.sink import proof
from spark_eos.spark.sink.proof import Part, Plan, PlanNotes, Read, require_proof
from spark_eos.spark.source.offsets import SourceOffset
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.version import ReadAllAvailable

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
FINISH = SourceOffset("L", {"a": "id-a"}, {A0: 10, A1: 4}, {A0: 1, A1: 4}, "earliest")
PLAN = Plan.between({}, FINISH)
OTHER = Plan.between({A0: 5, A1: 4}, FINISH)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Notes of this test alone."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'blocks'},{tmp_path / 'others'}")
    return tmp_path / "blocks" / "eoslog"


def reads(*parts, of=None, plan=PLAN):
    return [read._replace(of=of or len(parts)) for read in Read.of_tasks(plan, parts)]


WHOLE = (Part("a", 0, 1, 10),)
HALVES = ((Part("a", 0, 1, 5),), (Part("a", 0, 5, 10),))


def test_a_plan_begins_where_the_last_batch_ended_or_where_the_query_began():
    assert PLAN.parts == (Part("a", 0, 1, 10), Part("a", 1, 4, 4))
    assert OTHER.parts == (Part("a", 0, 5, 10), Part("a", 1, 4, 4))
    assert PLAN.digest == Plan.between({A0: 1}, FINISH).digest
    others = [OTHER, PLAN._replace(log_id="M"), PLAN._replace(topic_ids=(("a", "id-b"),))]
    assert len({plan.digest for plan in (PLAN, *others)}) == 4


def test_what_all_tasks_have_read_is_proof_without_a_note():
    require_proof([PLAN], reads(WHOLE), batch_id=0)
    require_proof([PLAN], reads(*HALVES), batch_id=0)
    require_proof(
        [PLAN], [*reads(*HALVES), *reads(*HALVES)], batch_id=0
    )  # The same task twice, by speculation.
    require_proof([], [], batch_id=0)


def test_two_sources_with_one_plan_may_have_other_tasks():
    thirds = reads((Part("a", 0, 1, 4),), (Part("a", 0, 4, 7),), (Part("a", 0, 7, 10),))
    as_many = reads((Part("a", 0, 1, 8),), (Part("a", 0, 8, 10),))
    for others in (thirds, as_many):
        for told in itertools.permutations([*reads(*HALVES), *others]):  # Behind a shuffle in any order.
            require_proof([PLAN, PLAN], told, batch_id=0)


@pytest.mark.parametrize(
    "found",
    [
        [],
        reads(*HALVES, of=3),
        reads((Part("a", 0, 1, 9),)),
        reads((Part("a", 0, 2, 10),)),
        reads((Part("a", 0, 1, 5),), (Part("a", 0, 6, 10),)),
        reads((Part("a", 0, 1, 5),), (Part("a", 0, 4, 10),)),
        reads((*WHOLE, Part("b", 0, 0, 1))),
        reads((Part("a", 0, 5, 10),), plan=OTHER),
    ],
    ids=["nothing", "one-missing", "end", "start", "hole", "overlap", "other-topic", "other-plan"],
)
def test_anything_else_is_refused(found):
    with pytest.raises(
        CheckpointMismatchError, match=r"batch 7 reads a-0 from 1 to 10, but .*Nothing was written"
    ):
        require_proof([PLAN], found, batch_id=7)


def test_a_note_is_proof_where_not_all_tasks_could_tell():
    PlanNotes().note(PLAN)
    require_proof([PLAN], [], batch_id=0)
    require_proof([PLAN], reads(*HALVES, of=3), batch_id=0)
    with pytest.raises(CheckpointMismatchError):
        require_proof([OTHER], [], batch_id=0)
    with pytest.raises(CheckpointMismatchError, match="have read a-0 from 5 to 10"):
        require_proof([PLAN], reads((Part("a", 0, 5, 10),), plan=OTHER), batch_id=0)
    with pytest.raises(CheckpointMismatchError):
        require_proof([PLAN], reads((Part("a", 0, 1, 9),)), batch_id=0)  # What tasks say weighs more.


def test_a_source_that_is_away_has_planned_nothing():
    assert require_proof([PLAN], [], batch_id=0, may_be_away=[PLAN]) == (PLAN,)
    assert require_proof([PLAN], reads(WHOLE), batch_id=0, may_be_away=[PLAN]) == ()
    PlanNotes().note(OTHER)
    with pytest.raises(CheckpointMismatchError):
        require_proof([PLAN], [], batch_id=0, may_be_away=[PLAN])  # It is there, and has planned otherwise.
    with pytest.raises(CheckpointMismatchError):
        require_proof([PLAN], reads(*HALVES, of=3), batch_id=0, may_be_away=[PLAN])


@pytest.mark.parametrize("process", ["of a number that was given again", "that is over"])
def test_notes_of_a_query_that_has_ended_say_nothing(process):
    notes = PlanNotes()
    if process == "that is over":
        child = subprocess.Popen([sys.executable, "-c", ""])  # Waited for later: until then it is a zombie.
        notes._process = f"{child.pid}-{proof._began(child.pid)}"
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    else:
        child = None
        notes._process = f"{os.getpid()}-1"
    notes.note(PLAN)
    with pytest.raises(CheckpointMismatchError):
        require_proof([PLAN], [], batch_id=0)
    if child is not None:
        child.wait()
        with pytest.raises(CheckpointMismatchError):
            require_proof([PLAN], [], batch_id=0)


def test_a_process_is_asked_for_once_however_many_notes_it_has(monkeypatch):
    """A driver of hundreds of queries would look at each of its notes, in each micro-batch of each of them."""
    for number in range(10):
        PlanNotes().note(PLAN._replace(log_id=str(number)))
    PlanNotes().note(PLAN)
    asked, lives = [], proof._lives
    monkeypatch.setattr(proof, "_lives", lambda process: asked.append(process) or lives(process))
    require_proof([PLAN], [], batch_id=0)
    assert len(asked) == 1


def test_notes_of_two_batches_are_kept(folder):
    plans = [PLAN._replace(log_id=str(number)) for number in range(4)]
    notes = PlanNotes()
    for plan in plans:
        notes.note(plan)
        notes.note(plan)
    PlanNotes().note(plans[0])  # Another query in this driver.
    found = {path.name.partition(".")[0] for path in (folder / "plans").iterdir()}
    assert found == {plans[number].digest for number in (0, 2, 3)}


def test_a_note_that_cannot_be_written_ends_the_plan(folder):
    folder.parent.mkdir()
    folder.write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"cannot note what it has planned in .*SPARK_LOCAL_DIRS"):
        PlanNotes().note(PLAN)


class Task:
    """A task's context, as far as notes need it."""

    def __init__(self, attempt, batch="3", run="run"):
        self._attempt = attempt
        self._properties = {"spark.jobGroup.id": run, "streaming.sql.batchId": batch}

    def getLocalProperty(self, name):
        return self._properties[name]

    def taskAttemptId(self):
        return self._attempt


class OneTask(Host):
    """The host of a task; None: of the driver."""

    now = None

    def task(self):
        return self.now


@pytest.fixture
def task():
    one = OneTask()

    def become(*args, **kwargs):
        one.now = Task(*args, **kwargs)

    with hosted(one):
        yield become


def test_a_task_tells_what_was_read_beside_it(task):
    one, other = reads(*HALVES)
    task(11)
    proof.note_read(one)
    task(12)
    proof.note_read(other)
    assert proof.reads_of_task() == (other,)
    task(11)
    assert proof.reads_of_task() == (one,)
    task(11, batch="4")
    assert proof.reads_of_task() == ()
    task(11, run="another")
    assert proof.reads_of_task() == ()


def test_behind_a_shuffle_each_read_is_told_by_one_task(task):
    one, other = reads(*HALVES)
    for attempt, read in ((11, one), (12, other)):
        task(attempt)
        proof.note_read(read)
    task(20)
    assert set(proof.reads_of_task()) == {one, other}
    task(21)
    assert proof.reads_of_task() == ()


def test_what_was_read_for_batches_that_are_over_is_forgotten(task, folder):
    for batch in ("9", "10", "11", "12"):
        task(1, batch=batch)
        proof.note_read(reads(WHOLE)[0])
    assert {path.name for path in (folder / "reads" / "run").iterdir()} == {"11", "12"}


def test_outside_of_a_micro_batch_nothing_is_noted(folder, task):
    proof.note_read(reads(WHOLE)[0])
    assert proof.reads_of_task() == ()
    task(1, batch=None)
    proof.note_read(reads(WHOLE)[0])
    assert not folder.exists()


@pytest.mark.parametrize("limit", [None, "1", "3", "4"])
def test_the_tasks_of_a_plan_make_it_up(bench, limit):
    bench.topic("src", 3)
    for number in range(4):
        bench.produce("src", range(number))
    given = {"path": bench.url, "subscribe": "src", "startingOffsets": '{"src": {"0": 1, "1": 0, "2": -1}}'}
    if limit is not None:
        given["maxRecordsPerPartition"] = limit
    source = EosLogStreamReader(parse_source(given, streaming=True), kafka_schema())
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    tasks = source.partitions(source.initialOffset(), end)
    plan = Plan.between({}, SourceOffset.from_json_dict(end))
    require_proof([plan], [task.read for task in tasks], batch_id=0)
    for task in tasks:
        parts = {(part.topic, part.partition): part for part in task.read.parts}
        for fetch in task.fetches:
            part = parts[fetch.topic, fetch.partition]
            assert part.start <= fetch.offset < fetch.next_offset <= part.end


def test_a_plan_without_records_has_a_task(bench):
    bench.topic("src", 2)
    given = {"path": bench.url, "subscribe": "src"}
    source = EosLogStreamReader(parse_source(given, streaming=True), kafka_schema())
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    (task,) = source.partitions(source.initialOffset(), end)
    assert list(source.read(task)) == []
    assert task.read.parts == ()


# -- on real Spark --------------------------------------------------------------------------------------


def wrong(how):
    """A source that plans otherwise than it says. Made in a function, so that it is pickled with all it is."""

    class Reader(EosLogStreamReader):
        def partitions(self, start, end):
            if start == end:  # So begins a restart with Spark 4.1.
                return super().partitions(start, end)
            return super().partitions(start, {**end, "src": {"0": 4}}) if how == "short" else []

    class Wrong(EosLogDataSource):
        @classmethod
        def name(cls):
            return f"eoslog_{how}"

        def streamReader(self, schema):
            return Reader(parse_source(self.options, streaming=True), schema)

    return Wrong


@pytest.mark.deep
@pytest.mark.parametrize("how", ["short", "none"])
def test_a_source_that_plans_otherwise_than_it_says_is_refused(spark, streams, bench, monkeypatch, how):
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    bench.topic("src")
    bench.produce("src", range(10))
    spark.dataSource.register(wrong(how))
    reader = (
        spark.readStream.format(f"eoslog_{how}")
        .option("subscribe", "src")
        .option("startingOffsets", "earliest")
    )
    frame = reader.load(bench.url).select("key", "value")
    for shape in (frame, frame.repartition(2)):
        with pytest.raises(StreamingQueryException, match="the rows and the offsets do not belong together"):
            streams.run(shape)
        assert bench.count("out") == 0


@pytest.mark.deep
def test_plans_that_spark_makes_are_proved(spark, streams, bench, monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    for topic in ("src", "more"):
        bench.topic(topic, 2)
        bench.produce(topic, range(6))
    more = streams.read(topics="more").select("key", "value")
    frame = streams.read().select("key", "value")
    none = spark.createDataFrame([], "key binary")
    shapes = {
        "union": (frame.union(more), 12),
        "twice": (frame.union(frame), 12),
        "coalesced": (frame.union(more).coalesce(1), 12),
        "shuffled": (frame.repartition(3), 6),
        "nothing-wanted": (frame.where("1 = 0"), 0),
        "joined-with-nothing": (frame.join(none, "key"), 0),
        "without-duplicates": (frame.union(more).dropDuplicates(["key"]), 6),
    }
    for name, (shape, count) in shapes.items():
        streams.run(shape, topic=name, checkpoint=name)
        assert bench.count(name) == count, name
    # Only one of the two has something new: the other one is not planned.
    bench.produce("more", [6])
    streams.run(frame.union(more), topic="union", checkpoint="union")
    assert bench.count("union") == 13
    # Of this one nothing is planned, though its offsets move.
    bench.produce("more", [7])
    with pytest.raises(StreamingQueryException, match=r"nothing that was planned for more-0 .*limit\(0\)"):
        streams.run(frame.union(more.limit(0)), topic="limited", checkpoint="limited")
