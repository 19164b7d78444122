"""What a client that moves from Kafka to the log has read, in terms of the log; and what Spark's checkpoint says."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from spark_eos import Admin, Producer
from spark_eos.cli.command import main
from spark_eos.errors import CheckpointMismatchError, ConfigError, IllegalStateError, KafkaTimeoutError
from spark_eos.extensions.mirror.groups import maps_of, passed_over, translate, translations
from spark_eos.extensions.mirror.kafka_source import SourceTopic
from spark_eos.extensions.mirror.moving.checkpoint import (
    StandingJob,
    kafka_offsets,
    log_offsets,
    stands_at,
    starting_offsets,
)
from spark_eos.extensions.mirror.moving.checks import groups_left, wait
from spark_eos.extensions.mirror.moving.group import move_group
from spark_eos.extensions.mirror.moving.kafka_state import End
from spark_eos.extensions.mirror.moving.spark_files import SparkFiles
from spark_eos.extensions.mirror.targets import Target, prepare
from spark_eos.log.log import Log
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.source.offsets import SourceOffset

from .test_plan import NEW, share_of, take, write_with_map


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "log")


@pytest.fixture
def log(url):
    """Kafka's topic k, of one partition, is mirrored into t."""
    made = Log.create(url)
    target = Target(SourceTopic("k", "kafka-id", 1), "t", {})
    made.commit(lambda state: prepare(state, "m", [target], NEW, may_append=False))
    take(made, "run")
    return made


def mirror(log, *offsets):
    share = share_of(log, "run", list(offsets))
    write_with_map(log, share._replace(after=share.after._replace(topic="k")))


def write(url, count, **settings):
    """A producer of the log writes."""
    with Producer(url, {"linger.ms": 0, **settings}) as producer:
        if settings:
            producer.init_transactions()
            producer.begin_transaction()
        for _ in range(count):
            producer.send("t", b"mine")
            producer.flush()
        if settings:
            producer.commit_transaction()


def translated(log, offset, group="g"):
    state = log.follow()
    (found,) = translations(state, maps_of(log, state, "m"), group, {("k", 0): (offset, "")})
    return found


# -- Where a reader goes on ------------------------------------------------------------------------------------------


def test_a_reader_goes_on_after_what_it_has_read(log):
    mirror(log, 0, 1, 2)
    mirror(log, 5, 6)
    for offset, place in ((0, 0), (2, 2), (3, 3), (4, 3), (5, 3), (6, 4), (7, 5)):
        found = translated(log, offset)
        assert (found.place.offset, found.left_out) == (place, None), offset
    assert translated(log, 8).place is None, "not mirrored yet"


def test_records_of_the_log_are_read_by_a_reader_that_stands_just_before_them(url, log):
    """Kafka's record 3 is 5 in the log, but a reader that has not read it has not read 3 and 4 either."""
    mirror(log, 0, 1, 2)
    write(url, 2)
    mirror(log, 3, 4)
    assert translated(log, 3)[3:] == (translated(log, 3).place, None, None)
    assert translated(log, 3).place.offset == 3
    found = translated(log, 4)
    assert (found.place.offset, found.left_out) == (6, 3)
    assert "record 3 before that, which the group would never read" in passed_over(found)


@pytest.mark.parametrize("settings", [{}, {"transactional.id": "x"}])
def test_a_group_is_never_moved_past_records_of_the_logs_producers(url, log, settings):
    mirror(log, 0, 1)
    assert list(translate(log, "m", {"g": {("k", 0): (1, "")}})) == []
    assert log.follow().offset_of("g", "t", 0).offset == 1
    write(url, 1, **settings)
    mirror(log, 2)
    (said,) = translate(log, "m", {"g": {("k", 0): (3, "")}})
    assert "producers moved before this group" in said
    assert log.follow().offset_of("g", "t", 0).offset == 1, "it stays where it has read everything"
    assert list(translate(log, "m", {"g": {("k", 0): (2, "")}})) == []
    assert log.follow().offset_of("g", "t", 0).offset == 2


def test_markers_and_aborted_records_are_passed(url, log):
    mirror(log, 0)
    with Producer(url, {"transactional.id": "x"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"mine")
        producer.flush()
        producer.abort_transaction()
    mirror(log, 1)
    assert translated(log, 2).left_out is None
    assert translated(log, 2).place.offset > 2


def test_records_of_an_open_transaction_count(url, log):
    mirror(log, 0)
    producer = Producer(url, {"transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"mine")
    producer.flush()
    mirror(log, 1)
    assert translated(log, 2).left_out == 1
    producer.abort_transaction()
    assert translated(log, 2).left_out is None
    producer.close()


# -- What is left --------------------------------------------------------------------------------------------------


def test_what_kafka_has_is_waited_for(log, monkeypatch):
    mirror(log, 0)
    kafka = SimpleNamespace(partitions_of=lambda _: [("k", 0)], ends=lambda _: {("k", 0): End(2, 2)})
    with pytest.raises(KafkaTimeoutError, match="k-0 is mirrored up to offset 1, and ends at 2 in Kafka"):
        wait(log, kafka, "m", [], 0)
    monkeypatch.setattr(type(log.clock), "sleep", lambda *_: mirror(log, 1))
    assert wait(log, kafka, "m", [], 60) == 1


def test_groups_that_have_moved_are_not_left(log):
    mirror(log, 0, 1)
    committed = {name: {("k", 0): (1, "")} for name in ("moved", "late", "reading")}
    list(translate(log, "m", {name: committed[name] for name in ("moved", "reading")}))
    kafka = SimpleNamespace(
        group_offsets=lambda _: committed, members=lambda group: 2 if group == "reading" else 0
    )
    assert groups_left(log, kafka, "m", "") == [
        "group late has not moved (k-0): eoslog mirror group",
        "group reading has 2 members in Kafka: it reads there",
    ]


class OnKafka:
    """A group without members in Kafka; ``offsets`` are those that it has committed there, look by look."""

    def __init__(self, *offsets):
        self._offsets = iter(offsets)

    def partitions_of(self, _):
        return [("k", 0)]

    def members(self, _):
        return 0

    def offsets_of(self, _):
        return {("k", 0): (next(self._offsets), "")}


def test_a_group_that_reads_on_in_kafka_has_not_moved(log):
    mirror(log, 0, 1, 2)
    with pytest.raises(IllegalStateError, match="committed offsets in Kafka while it moved"):
        move_group(log, OnKafka(2, 3), "m", "g", timeout_s=0)
    (moved,) = move_group(log, OnKafka(3, 3), "m", "g", timeout_s=0)
    assert moved.committed == log.follow().offset_of("g", "t", 0).offset == 3


# -- Spark's checkpoint ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of a query with one Kafka source, whose batch 1 is done."""
    made = tmp_path / "checkpoint"
    (made / "offsets").mkdir(parents=True)
    (made / "commits").mkdir()
    for batch, end in ((0, 2), (1, 3)):
        begin(made, batch, {"k": {"0": end}})
        (made / "commits" / str(batch)).write_text("v1\n{}")
    return made


def begin(folder, batch, *sources):
    lines = ["v1", "{}", *map(json.dumps, sources)]
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))


def test_a_job_goes_on_where_its_last_batch_ended(log, folder):
    mirror(log, 0, 1, 2)
    job = stands_at(SparkFiles(str(folder)))
    assert job == StandingJob(1, {("k", 0): 3})
    assert starting_offsets(log, "m", job, timeout_s=0) == {"t": {"0": 3}}
    Admin(log).alter_topic("t", partitions=2)
    assert starting_offsets(log, "m", job, timeout_s=0) == {"t": {"0": 3, "1": -2}}, "Spark asks for each"


def test_a_batch_that_was_not_done_is_never_guessed(folder):
    begin(folder, 2, {"k": {"0": 9}})
    with pytest.raises(CheckpointMismatchError, match=r"micro-batch 2 .* once more, with trigger"):
        stands_at(SparkFiles(str(folder)))
    assert stands_at(SparkFiles(str(folder)), unfinished="redo") == StandingJob(1, {("k", 0): 3})
    assert stands_at(SparkFiles(str(folder)), unfinished="skip") == StandingJob(2, {("k", 0): 9})


def test_the_first_batch_was_not_done(folder):
    for path in (*(folder / "commits").iterdir(), folder / "offsets" / "1"):
        path.unlink()
    with pytest.raises(CheckpointMismatchError, match="no micro-batch that is done"):
        stands_at(SparkFiles(str(folder)), unfinished="redo")
    (folder / "offsets" / "0").unlink()
    with pytest.raises(CheckpointMismatchError, match="has read nothing"):
        stands_at(SparkFiles(str(folder)))


def test_state_does_not_move(folder):
    (folder / "state").mkdir()
    with pytest.raises(CheckpointMismatchError, match="--without-state"):
        stands_at(SparkFiles(str(folder)))
    assert stands_at(SparkFiles(str(folder)), without_state=True).batch_id == 1


def test_one_of_several_sources(folder):
    begin(folder, 1, {"k": {"0": 3}}, {"other": {"0": 1}})
    with pytest.raises(ConfigError, match="sources 0, 1: give one with --source"):
        stands_at(SparkFiles(str(folder)))
    assert stands_at(SparkFiles(str(folder)), source="1").offsets == {("other", 0): 1}
    begin(folder, 1, {"@eoslog": {}, "t": {"0": 3}})
    with pytest.raises(CheckpointMismatchError, match="no offsets of a source that can move"):
        stands_at(SparkFiles(str(folder)))


def test_a_number_that_is_not_the_newest(folder):
    with pytest.raises(CheckpointMismatchError, match="has micro-batch 1: --batch 0 is not the newest"):
        stands_at(SparkFiles(str(folder)), batch=0)
    assert stands_at(SparkFiles(str(folder)), batch=1).batch_id == 1


@pytest.mark.parametrize("text", ['{"logOffset":3}', '{"k":{"0":"3"}}', '{"k":{"0":-1}}', "{}", "3", None])
def test_lines_of_other_sources(text):
    assert kafka_offsets(text) is None


def test_a_job_waits_for_the_mirror(log):
    mirror(log, 0)
    with pytest.raises(KafkaTimeoutError, match="k-0 up to offset 2, which is not mirrored yet"):
        starting_offsets(log, "m", StandingJob(1, {("k", 0): 2}), timeout_s=0)
    with pytest.raises(ConfigError, match="has read other-0 of Kafka, which mirror 'm' does not mirror"):
        starting_offsets(log, "m", StandingJob(1, {("other", 0): 2}), timeout_s=0)


def test_a_job_is_never_moved_past_records_of_the_logs_producers(url, log, folder, capsys):
    mirror(log, 0)
    write(url, 1)
    mirror(log, 1, 2)
    command = ["mirror", "checkpoint", url, "--name", "m", "--checkpoint", str(folder)]
    assert main(command) == 1
    assert "record 1 before that, which the query would never read" in capsys.readouterr().err
    assert main([*command, "--accept-loss"]) == 0
    assert json.loads(capsys.readouterr().out) == {"t": {"0": 4}}


def test_a_job_of_the_log_returns(log):
    """Its offsets are read, if they are of this log and of the topics that it has."""
    topic_id = log.topic("t").topic_id

    def line(log_id=log.log_id, topic_id=topic_id):
        return json.dumps({"@eoslog": {"log": log_id, "topics": {"t": topic_id}}, "t": {"0": 5}})

    reads = log_offsets(log)
    at = TopicPartition("t", 0)
    real = SourceOffset(log.log_id, {"t": topic_id}, {at: 5}, {at: 0}, "earliest", "group")
    assert reads(json.dumps(real.to_json_dict())) == reads(line()) == {("t", 0): 5}
    assert reads('{"t":{"0":5}}') is None
    assert reads(None) is None
    with pytest.raises(CheckpointMismatchError, match="belongs to log other"):
        reads(line("other"))
    with pytest.raises(CheckpointMismatchError, match="created again"):
        reads(line(topic_id="other"))
