"""Names of a mirror's own topics, and topics that cannot be mirrored beside others that can."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_eos import Admin, Producer
from spark_eos.cli.command import main
from spark_eos.errors import InvalidRequestError, UnknownTopicOrPartitionError
from spark_eos.extensions.mirror.kafka_source import SourceTopic
from spark_eos.extensions.mirror.mirroring import Mirror, Mirrored
from spark_eos.extensions.mirror.options import MirrorOptions
from spark_eos.extensions.mirror.out import position
from spark_eos.extensions.mirror.positions import map_topic, positions
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.protocol.actions.topics import check_name
from spark_eos.storage.memory import MemoryStore
from tests.extensions.mirror.test_waiting import Error, Listed, Message
from tests.log.fakes import FakeClock
from tests.log.test_group_commit import Process

LONG = "n" * 249


@pytest.mark.parametrize("named", [map_topic, position.map_topic], ids=["in", "out"])
def test_each_map_has_a_legal_name_of_its_own(named):
    mirrors = ["m", "m" * 100, "a", "a.b", "a.b.c", "a_b"]
    topics = ["t", LONG, LONG[:-1], LONG[:-1] + "x", "b", "c", "b.c", "b.c.d", "c.d", "d"]
    names = [named(mirror, topic) for mirror in mirrors for topic in topics]
    names += [position.position_topic(mirror) for mirror in mirrors]
    for name in names:
        check_name(name)
    as_kafka_compares = {name.replace(".", "_") for name in names}
    assert len(as_kafka_compares) == len(names)
    assert named("m", "t").endswith("mirror.m.t"), "as the guide says"


class End(Message):
    def __init__(self, topic):
        super().__init__(0, Error("_PARTITION_EOF"))
        self.topic = lambda: topic


class Several(Listed):
    """Topics of one partition without records; a group that gives all of them to its one member."""

    def __init__(self, *names):
        super().__init__(high=0)
        self.names = list(names)
        self.subscribed = []

    def find(self, names, pattern):
        return self.describe(self.names)

    def describe(self, names):
        return {name: SourceTopic(name, f"id of {name}", 1) for name in names}

    def subscribe(self, names, take, give_up):
        self.subscribed.append(names)
        take([(name, 0) for name in names])
        self.polls = [[End(name) for name in names]]


@pytest.fixture
def log():
    log = Log.create(MemoryStore(), FakeClock(), Retry(deadline_s=1))
    with Producer(log) as producer:
        producer.send("taken", b"a record of another writer")
    return log


def mirrored(log, source, **options):
    said = []
    mirror = Mirror(log, source, MirrorOptions("m", pattern=".*", **options), said.append)
    return mirror, said


def test_a_long_name_is_mirrored(log):
    source = Several("a", LONG)
    mirror, said = mirrored(log, source)
    assert mirror.run(lambda: False, once=True).left_out == ()
    assert source.subscribed == [["a", LONG]]
    assert {one.topic for one in positions(log.state, "m")} == {"a", LONG}
    assert said == []


def test_one_topic_that_cannot_be_mirrored_stops_no_other(log):
    source = Several("a", "taken", "z")
    mirror, said = mirrored(log, source)
    assert mirror.run(lambda: False, once=True).left_out == ("taken",)
    assert source.subscribed == [["a", "z"]]
    assert {one.topic for one in positions(log.state, "m")} == {"a", "z"}
    (line,) = said
    assert line.startswith(
        "topic taken of Kafka is left out: topic 'taken' has 1 records that mirror 'm' has not"
    )
    assert "--rename" in line


def test_a_topic_that_goes_while_it_is_begun_is_left_out(log):
    source = Several("a", "z")
    source.described_patiently = lambda names: source.describe([name for name in names if name != "z"])
    mirror, _ = mirrored(log, source)
    assert mirror.run(lambda: False, once=True).left_out == ("z",)
    assert source.subscribed == [["a"]]


def test_the_command_fails_then(tmp_path, monkeypatch, capsys):
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(Mirror, "run", lambda *_, **__: Mirrored(2, 3, ("taken", "also")))
    command = ["mirror", "in", str(tmp_path / "log"), "--name", "m", "--bootstrap-server", "nowhere:9092"]
    assert main([*command, "--topic-pattern", ".*"]) == 1
    shown = capsys.readouterr()
    assert shown.out == "mirrored 3 records in 2 entries\n"
    assert "2 topics of Kafka cannot be mirrored, for the reasons above: taken, also" in shown.err


def test_what_is_wrong_is_said_once_and_looked_at_again(log):
    source = Several("a", "taken")
    mirror, said = mirrored(log, source, refresh_s=0)
    rounds = iter(range(6))

    def stopped():
        number = next(rounds, None)
        if number == 4:  # The topic is emptied: it can be mirrored now.
            Admin(log).delete_topic("taken")
        return number is None

    assert mirror.run(stopped).left_out == ()
    assert source.subscribed == [["a"], ["a", "taken"]]
    assert len(said) == 1


def test_what_else_is_wrong_by_now_is_said_too(log):
    mirror, said = mirrored(log, Several("a", "taken"), refresh_s=0)
    rounds = iter(range(4))

    def stopped():
        number = next(rounds, None)
        if number == 2:
            with Producer(log) as producer:
                producer.send("taken", b"one more")
        return number is None

    mirror.run(stopped)
    first, second = said
    assert "1 records" in first
    assert "2 records" in second


def test_if_none_can_be_mirrored_the_error_says_why(log):
    mirror, said = mirrored(log, Several("taken"))
    with pytest.raises(InvalidRequestError, match="has not written"):
        mirror.run(lambda: False, once=True)
    assert said == []


def test_a_topic_that_is_being_mirrored_is_never_left_out(log):
    source = Several("a", "b")
    ids = {"a": "id of a", "b": "id of b"}
    source.describe = lambda names: {name: SourceTopic(name, ids[name], 1) for name in names}
    mirror, _ = mirrored(log, source, refresh_s=0)
    rounds = iter(range(4))

    def stopped():
        if next(rounds) == 1:
            ids["a"] = "another id"
        return False

    with pytest.raises(UnknownTopicOrPartitionError, match="deleted and created again"):
        mirror.run(stopped)


def test_a_setting_that_another_process_changes_meanwhile_stays(tmp_path):
    leader, other = (Process(tmp_path / "log", name) for name in (b"a", b"b"))
    source = Several("a")
    source.configs = lambda names: {name: {"retention.ms": "5"} for name in names}
    mirror, _ = mirrored(other.log, source, copies_settings=False)
    mirror.run(lambda: False, once=True)
    mirror._options = replace(mirror._options, copies_settings=True)
    other.join()
    leader.log.follow()
    leader.lead()

    def altered():
        Admin(leader.log).alter_topic("a", config={"segment.ms": 7})
        leader.lead()

    other.waits = [altered]
    mirror._prepare(source.describe(["a"]))
    for wait in other.waits:
        wait()
    config = other.log.follow().topics["a"].config
    assert (config["retention.ms"], config["segment.ms"]) == ("5", "7")


def test_partitions_of_a_topic_that_is_named_twice(tmp_path, monkeypatch):
    """Those of the first are mirrored as well."""
    pytest.importorskip("confluent_kafka")
    given = []

    def run(mirror, *_, **__):
        given.append(mirror._options.partitions)
        return Mirrored(0, 0)

    monkeypatch.setattr(Mirror, "run", run)
    named = ["--partitions", "t:0,4-5", "--partitions", "u:1", "--partitions", "t:2,4"]
    arguments = ["--name", "m", "--bootstrap-server", "127.0.0.1:1"]
    assert main(["mirror", "in", str(tmp_path / "log"), *arguments, *named]) == 0
    assert given == [{"t": [0, 2, 4, 5], "u": [1]}]
