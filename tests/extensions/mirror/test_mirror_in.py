"""Mirrors of a real Kafka broker: whatever happens to either side, both have the same records, or it is refused."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.extensions.mirror.mirroring import Mirror
from spark_eos.extensions.mirror.positions import map_topic
from spark_eos.log.log import Log
from spark_eos.storage import Settings
from verification.processes import environment

from .both_sides import check, in_kafka, in_log

kafka = pytest.importorskip("confluent_kafka")
admin_module = pytest.importorskip("confluent_kafka.admin")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """One broker for all tests."""
    from benchmarks import jars
    from benchmarks.kafka import Broker

    # A short life: what the better compiler gains it would not earn back.
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    try:
        started = Broker(
            tmp_path_factory.mktemp("kafka"),
            "group.min.session.timeout.ms=500",
            "broker.session.timeout.ms=30000",  # Starved for so long, or killed, it loses its partitions.
            "broker.heartbeat.interval.ms=100",
        )
    except jars.Missing as missing:
        pytest.skip(str(missing))
    yield started
    started.stop()
    monkeypatch.undo()


@pytest.fixture
def topic(request):
    """A name for a topic: that of the test."""
    return re.sub(r"[^a-z0-9.]+", ".", request.node.name.removeprefix("test_"))[:60]


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "log")


@cache
def client(address):
    return admin_module.AdminClient({"bootstrap.servers": address, "log_level": 0})


def admin(broker):
    """One for all: a client that is dropped answers nothing."""
    return client(broker.address)


def create(broker, name, partitions=1, **config):
    wanted = admin_module.NewTopic(
        name, partitions, 1, config={at.replace("_", "."): to for at, to in config.items()}
    )
    admin(broker).create_topics([wanted])[name].result()
    latest = admin_module.OffsetSpec.latest()
    wait(lambda: offsets_are_served(broker, name, partitions, latest))


def offsets_are_served(broker, name, partitions, spec):
    fresh = admin_module.AdminClient(
        {"bootstrap.servers": broker.address}
    )  # An older one may not know the leaders.
    asked = fresh.list_offsets({kafka.TopicPartition(name, number): spec for number in range(partitions)})
    try:
        return [one.result() for one in asked.values()]
    except kafka.KafkaException:
        return None


def delete(broker, name):
    admin(broker).delete_topics([name])[name].result()
    wait(lambda: name not in admin(broker).list_topics(timeout=300).topics)


def wait(until, seconds=300):
    """What ``until`` gives, once it is something."""
    end = time.monotonic() + seconds
    while not (found := until()):
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)
    return found


def produce(broker, name, rows, **settings):
    """``rows`` are arguments of confluent-kafka's ``produce``."""
    producer = kafka.Producer(
        {
            "bootstrap.servers": broker.address,
            "linger.ms": 0,
            "enable.idempotence": True,  # A busy broker's answer comes late; what is sent again is not there twice.
            **{at.replace("_", "."): to for at, to in settings.items()},
        }
    )
    for row in rows:
        producer.produce(name, **row)
    assert producer.flush(300) == 0


def numbered(first, count, partitions=1):
    return [
        {"key": b"k%d" % at, "value": b"v%d" % at, "partition": at % partitions}
        for at in range(first, first + count)
    ]


def arguments(broker, name, *more):
    return [
        "--name",
        "m",
        "--bootstrap-server",
        broker.address,
        *(() if "--interval" in more else ("--interval", "0.1")),
        *(() if "--refresh" in more else ("--refresh", "0.3")),
        *more,
    ] + ([] if name is None else ["--partitions", name])


def mirror(broker, url, name, *more):
    """All that is there now, in this process, by no group."""
    return main(["mirror", "in", url, *arguments(broker, name, "--once", *more)])


@contextmanager
def running(broker, url, name, *more):
    """A mirror as a process."""
    command = [sys.executable, "-m", "spark_eos", "mirror", "in", url, *arguments(broker, name, *more)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def rows_in(url, name):
    """How many records the log's topic has now."""
    try:
        state = Log.open(url).state
    except Exception:  # noqa: BLE001  (there is none yet)
        return 0
    topic = state.topics.get(name)
    return (
        0
        if topic is None
        else sum(state.partitions[topic.topic_id, at].end for at in range(topic.partitions))
    )


def refused(capsys, code):
    said = capsys.readouterr().err
    assert f"[{code}]" in said, said
    return said


@pytest.mark.deep
def test_into_a_log_on_two_stores_whose_data_is_moved(broker, tmp_path, topic):
    create(broker, topic, 2)
    url = str(tmp_path / "log")
    Log.create(url, settings=Settings({"data.url": str(tmp_path / "data")}))
    for number, place in enumerate(("data", "moved")):
        produce(broker, topic, numbered(30 * number, 30, 2))
        assert mirror(broker, url, f"{topic}:0-1") == 0
        assert check(in_kafka(broker.address, topic), url, "m", topic) == 30 * number + 30
        assert any((tmp_path / place).rglob("*.arrow"))
        if place == "data":
            for name in Log.open(url).state.topics:  # The mirror's own, too.
                Admin(url).alter_topic(name, config={"file.delete.delay.ms": 0})
            Admin(url).move_data(str(tmp_path / "moved"), min_age_s=0)
    assert not [*(tmp_path / "data").rglob("*.arrow"), *(tmp_path / "log").rglob("*.arrow")]


# -- What a record may be ------------------------------------------------------------------------------------------


def test_every_kind_of_record(broker, url, topic):
    create(broker, topic, 2)
    kinds = [
        {"key": None, "value": b"no key"},
        {"key": b"", "value": b""},
        {"key": b"tombstone", "value": None},
        {"key": None, "value": None},
        {"value": b"headers", "headers": [("a", b"1"), ("a", None), ("", b""), ("ä", b"\xff")]},
        {"value": b"old", "timestamp": 1},
        {"value": b"big" * 1_500_000},
    ]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        rows = [{**row, "partition": at % 2} for at, row in enumerate(kinds)]
        produce(broker, topic, rows, compression_type=codec, message_max_bytes=8_000_000)
    assert mirror(broker, url, f"{topic}:0-1") == 0
    assert check(in_kafka(broker.address, topic), url, "m", topic) == 35


def test_times_of_the_broker(broker, url, topic):
    create(broker, topic, message_timestamp_type="LogAppendTime")
    produce(broker, topic, [{"value": b"x", "timestamp": 5}])
    assert mirror(broker, url, f"{topic}:0") == 0
    assert check(in_kafka(broker.address, topic), url, "m", topic) == 1
    ((_, _, _, _, stamp),) = in_log(url, topic)[0]
    assert stamp > 10**12


@pytest.mark.deep
def test_offsets_stay_what_they_are_where_kafka_has_no_gap(broker, url, topic, capsys):
    create(broker, topic, 2)
    for first in (0, 40, 80):
        produce(broker, topic, numbered(first, 40, 2))
        assert mirror(broker, url, f"{topic}:0-1") == 0
    there, here = in_kafka(broker.address, topic)[0], in_log(url, topic)
    assert there == here, "with their offsets"
    assert sum(row[2] is not None for row in in_log(url, map_topic("m", topic))[0]) == 1, (
        "one row says it all"
    )
    capsys.readouterr()
    assert main(["mirror", "offsets", url, "--name", "m", "--json"]) == 0
    assert [json.loads(line)["is_same"] for line in capsys.readouterr().out.splitlines()] == [True, True]


def test_what_was_aborted_never_appears_and_what_is_open_waits(broker, url, topic):
    create(broker, topic, 2)
    producer = kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions()
    for number in range(9):
        producer.begin_transaction()
        for row in numbered(number * 10, 10, 2):
            producer.produce(topic, **row)
        producer.flush()
        (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)()
        if number in {2, 5}:
            assert mirror(broker, url, f"{topic}:0-1") == 0
    producer.begin_transaction()
    producer.produce(topic, value=b"open", partition=0)
    producer.flush()
    produce(broker, topic, [{"value": b"after", "partition": 0}])
    assert mirror(broker, url, f"{topic}:0-1") == 0
    assert rows_in(url, topic) == 60
    producer.commit_transaction()
    assert mirror(broker, url, f"{topic}:0-1") == 0
    assert check(in_kafka(broker.address, topic), url, "m", topic) == 62


@pytest.mark.deep
def test_compacted_topics_have_gaps(broker, url, topic):
    create(
        broker, topic, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100",
    )  # fmt: skip
    produce(broker, topic, [{"key": b"a", "value": b"%d" % at} for at in range(20)])
    assert mirror(broker, url, f"{topic}:0") == 0
    produce(
        broker,
        topic,
        [{"key": b"b" if at % 3 else None or b"c%d" % at, "value": b"%d" % at} for at in range(20)],
    )
    assert mirror(broker, url, f"{topic}:0") == 0
    assert check(in_kafka(broker.address, topic), url, "m", topic) >= 20
    assert Log.open(url).topic(topic).config["cleanup.policy"] == "compact"


# -- Deaths --------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_killed_after_every_file(broker, tmp_path, topic):
    create(broker, topic, 2)
    produce(broker, topic, numbered(0, 30, 2))
    program = Path(__file__).with_name("killed.py")
    wanted = arguments(broker, f"{topic}:0-1", "--once", "--batch-bytes", "1")
    done = subprocess.run(
        [sys.executable, program, tmp_path, *wanted],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) >= 6, "topics, begin, take-over, rows, map, batch"
    there = in_kafka(broker.address, topic)
    logs = [path for path in tmp_path.iterdir() if (path / "_log").is_dir()]
    assert len(logs) >= 7
    for log in logs:
        assert check(there, str(log), "m", topic) == 30, log.name


@pytest.mark.deep("3")
@pytest.mark.parametrize("kills", [1, 3])
def test_killed_at_any_moment(broker, url, topic, kills):
    create(broker, topic, 2)
    for number in range(kills):
        produce(broker, topic, numbered(number * 500, 500, 2))
        with running(broker, url, f"{topic}:0-1", "--batch-bytes", "20000") as process:
            wait(lambda number=number: rows_in(url, topic) > number * 500 or process.poll() is not None)
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert mirror(broker, url, f"{topic}:0-1") == 0
    assert check(in_kafka(broker.address, topic), url, "m", topic) == kills * 500


@pytest.mark.deep
def test_one_that_slept_writes_nothing_more(broker, url, topic):
    create(broker, topic, 1)
    produce(broker, topic, numbered(0, 10))
    with running(broker, url, f"{topic}:0") as sleeper:
        wait(lambda: rows_in(url, topic) == 10)
        sleeper.send_signal(signal.SIGSTOP)
        produce(broker, topic, numbered(10, 10))
        assert mirror(broker, url, f"{topic}:0") == 0
        produce(broker, topic, numbered(20, 10))
        sleeper.send_signal(signal.SIGCONT)
        _, said = sleeper.communicate(timeout=300)
        assert sleeper.returncode == 1
        assert "[PRODUCER_FENCED]" in said
        assert "another process mirrors" in said
    assert mirror(broker, url, f"{topic}:0") == 0
    assert check(in_kafka(broker.address, topic), url, "m", topic) == 30


@pytest.mark.deep
def test_the_broker_is_killed_and_comes_back(broker, url, topic):
    create(broker, topic, 2)
    produce(broker, topic, numbered(0, 100, 2))
    with running(broker, url, f"{topic}:0-1") as process:
        wait(lambda: rows_in(url, topic) == 100)
        broker.kill()
        broker.start()
        produce(broker, topic, numbered(100, 100, 2))
        wait(lambda: rows_in(url, topic) == 200 or process.poll() is not None)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert check(in_kafka(broker.address, topic), url, "m", topic) == 200


# -- Several processes, more partitions -----------------------------------------------------------------------------


@pytest.mark.deep
def test_processes_share_partitions_one_sleeps_and_one_dies(broker, url, topic, tmp_path):
    create(broker, topic, 4)
    quick = tmp_path / "client.properties"
    quick.write_text("session.timeout.ms=1000\nheartbeat.interval.ms=100\n")
    more = ("--topic", topic, "--kafka-config", str(quick), "--batch-bytes", "5000")
    produce(broker, topic, numbered(0, 200, 4))
    with running(broker, url, None, *more) as first, running(broker, url, None, *more) as second:

        def mirrored(count):
            wait(
                lambda: rows_in(url, topic) == count or second.poll() is not None or first.poll() is not None
            )
            assert rows_in(url, topic) == count, second.stderr.read() if second.poll() else ""

        mirrored(200)
        wait(lambda: sorted(members(broker)) == [2, 2])
        first.send_signal(signal.SIGSTOP)
        produce(broker, topic, numbered(200, 200, 4))
        wait(lambda: members(broker) == [4])
        mirrored(400)
        first.send_signal(signal.SIGCONT)
        wait(lambda: sorted(members(broker)) == [2, 2])
        produce(broker, topic, numbered(400, 200, 4))
        mirrored(600)
        first.send_signal(signal.SIGKILL)
        first.wait()
        admin(broker).create_partitions([admin_module.NewPartitions(topic, 6)])[topic].result()
        wait(lambda: offsets_are_served(broker, topic, 6, admin_module.OffsetSpec.latest()))
        produce(broker, topic, numbered(600, 400, 6))
        wait(lambda: rows_in(url, topic) == 1000 or second.poll() is not None)
        assert second.poll() is None
    assert check(in_kafka(broker.address, topic), url, "m", topic) == 1000
    assert Log.open(url).topic(topic).partitions == 6


def members(broker):
    found = admin(broker).describe_consumer_groups(["eoslog-mirror-m"])["eoslog-mirror-m"].result()
    return [len(one.assignment.topic_partitions) for one in found.members]


@pytest.mark.deep
def test_topics_that_match_later_and_settings_that_change(broker, url, topic):
    create(broker, f"{topic}.a", retention_ms="100000000")
    produce(broker, f"{topic}.a", numbered(0, 3))
    change = admin_module.ConfigEntry(
        "retention.ms", "200000000", incremental_operation=admin_module.AlterConfigOpType.SET
    )
    kind = admin_module.ConfigResource.Type.TOPIC
    resource = admin_module.ConfigResource(kind, f"{topic}.a", incremental_configs=[change])
    with running(broker, url, None, "--topic-pattern", f"{topic}\\..", "--rename", f"{topic}.b=other"):
        wait(lambda: rows_in(url, f"{topic}.a") == 3)
        assert Log.open(url).topic(f"{topic}.a").config["retention.ms"] == "100000000"
        admin(broker).incremental_alter_configs([resource])[resource].result()
        create(broker, f"{topic}.b")
        produce(broker, f"{topic}.b", numbered(0, 5))
        wait(lambda: rows_in(url, "other") == 5)
        wait(lambda: Log.open(url).topic(f"{topic}.a").config["retention.ms"] == "200000000")
    assert check(in_kafka(broker.address, f"{topic}.b"), url, "m", f"{topic}.b", "other") == 5


@pytest.mark.deep
def test_a_long_name_and_a_topic_of_others_stop_nothing(broker, url, topic, capsys):
    names = [f"{topic}.{'n' * 249}"[:249], f"{topic}.a", f"{topic}.taken"]
    for name in names:
        create(broker, name)
        produce(broker, name, numbered(0, 5))
    with Producer(url) as producer:
        producer.send(names[-1], b"a record of another writer")
    assert mirror(broker, url, None, "--topic-pattern", f"{re.escape(topic)}\\..*") == 1
    said = capsys.readouterr().err
    assert f"topic {names[-1]} of Kafka is left out: topic '{names[-1]}' has 1 records" in said
    assert "1 topic of Kafka cannot be mirrored" in said
    for name in names[:-1]:
        assert check(in_kafka(broker.address, name), url, "m", name) == 5


# -- Refused -------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_topic_that_was_made_again_is_refused(broker, url, topic, capsys):
    create(broker, topic)
    produce(broker, topic, numbered(0, 5))
    assert mirror(broker, url, f"{topic}:0") == 0
    delete(broker, topic)
    create(broker, topic)
    produce(broker, topic, numbered(100, 20))
    capsys.readouterr()
    assert mirror(broker, url, f"{topic}:0") == 1
    said = refused(capsys, "UNKNOWN_TOPIC_OR_PARTITION")
    assert f"topic '{topic}' of Kafka" in said
    assert "deleted and created again" in said
    assert "--rename" in said
    assert rows_in(url, topic) == 5
    assert mirror(broker, url, f"{topic}:0", "--rename", f"{topic}=again") == 0
    assert check(in_kafka(broker.address, topic), url, "m", topic, "again") == 20
    look = ["mirror", "offsets", url, "--name", "m", "--partition", "0", "--kafka", "3", "--topic"]
    capsys.readouterr()
    assert [main([*look, name]) for name in (topic, "again")] == [0, 0]
    assert capsys.readouterr().out.split() == ["3", "3"]
    Admin(url).delete_topic(topic)
    assert mirror(broker, url, f"{topic}:0") == 0, "and after the other remedy"
    assert check(in_kafka(broker.address, topic), url, "m", topic) == 20


@pytest.mark.deep
def test_a_topic_that_is_made_again_under_a_running_mirror(broker, url, topic):
    """The client goes on in the new topic at the old one's offset, and says nothing of it."""
    create(broker, topic)
    produce(broker, topic, numbered(0, 5))
    with running(broker, url, f"{topic}:0", "--refresh", "1000") as process:
        wait(lambda: rows_in(url, topic) == 5)
        process.send_signal(signal.SIGSTOP)
        delete(broker, topic)
        create(broker, topic)
        produce(broker, topic, numbered(100, 20))
        process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=300)
        assert process.returncode == 1
        assert "deleted and created again" in said
    assert [row[2] for row in in_log(url, topic)[0]] == [b"v%d" % at for at in range(5)]


def test_what_retention_took_is_never_skipped_in_silence(broker, url, topic, capsys):
    create(broker, topic)
    produce(broker, topic, numbered(0, 10))
    assert mirror(broker, url, f"{topic}:0") == 0
    produce(broker, topic, numbered(10, 10))
    forget(broker, topic, 0, 15)
    capsys.readouterr()
    assert mirror(broker, url, f"{topic}:0") == 1
    said = refused(capsys, "OFFSET_OUT_OF_RANGE")
    assert f"at offset 10 of Kafka's {topic}-0, which begins at offset 15" in said
    assert rows_in(url, topic) == 10
    assert mirror(broker, url, f"{topic}:0", "--accept-loss") == 0
    assert "records 10 to 14 are gone" in capsys.readouterr().err
    assert [row[2] for row in in_log(url, topic)[0]] == [b"v%d" % at for at in (*range(10), *range(15, 20))]


def forget(broker, name, number, before):
    """As retention does."""
    admin(broker).delete_records([kafka.TopicPartition(name, number, before)])
    earliest = admin_module.OffsetSpec.earliest()
    wait(lambda: offsets_are_served(broker, name, number + 1, earliest)[number].offset == before)


@pytest.mark.deep
@pytest.mark.parametrize("is_shared", [False, True], ids=["partitions", "group"])
def test_retention_overtakes_a_mirror_that_accepts_loss(broker, url, topic, capsys, monkeypatch, is_shared):
    """Between its look at where Kafka begins, and its first read."""
    create(broker, topic)
    produce(broker, topic, numbered(0, 20))
    opened = Mirror._open_partition

    def overtaken(mirror, *arguments):
        partition = opened(mirror, *arguments)
        forget(broker, topic, 0, 15)
        return partition

    monkeypatch.setattr(Mirror, "_open_partition", overtaken)
    which = ["--topic", topic] if is_shared else ["--partitions", f"{topic}:0"]
    assert mirror(broker, url, None, *which, "--accept-loss") == 0
    assert "records 0 to 14 are gone" in capsys.readouterr().err
    assert [row[2] for row in in_log(url, topic)[0]] == [b"v%d" % at for at in range(15, 20)]


def test_records_that_expire_while_a_partition_is_still_empty_here(broker, url, topic, capsys):
    create(broker, topic)
    produce(broker, topic, numbered(0, 3))
    forget(broker, topic, 0, 3)
    assert mirror(broker, url, f"{topic}:0") == 0, "it begins where Kafka begins"
    assert mirror(broker, url, f"{topic}:0") == 0
    produce(broker, topic, numbered(3, 10))
    forget(broker, topic, 0, 5)
    assert mirror(broker, url, f"{topic}:0") == 1
    assert f"at offset 3 of Kafka's {topic}-0, which begins at offset 5" in refused(
        capsys, "OFFSET_OUT_OF_RANGE"
    )


def test_records_that_expire_in_a_partition_that_came_later(broker, url, topic, capsys):
    create(broker, topic)
    assert mirror(broker, url, f"{topic}:0") == 0
    admin(broker).create_partitions([admin_module.NewPartitions(topic, 2)])[topic].result()
    wait(lambda: offsets_are_served(broker, topic, 2, admin_module.OffsetSpec.latest()))
    produce(broker, topic, [{"value": b"x", "partition": 1}] * 6)
    forget(broker, topic, 1, 4)
    assert mirror(broker, url, f"{topic}:0-1") == 1
    assert f"at offset 0 of Kafka's {topic}-1, which begins at offset 4" in refused(
        capsys, "OFFSET_OUT_OF_RANGE"
    )


def test_topics_with_records_of_others(broker, url, topic, capsys):
    create(broker, topic)
    produce(broker, topic, numbered(0, 5))
    with Producer(url) as producer:
        producer.send(topic, b"mine")
    assert mirror(broker, url, f"{topic}:0") == 1
    assert "--append" in refused(capsys, "INVALID_REQUEST")
    assert mirror(broker, url, f"{topic}:0", "--append") == 0
    with Producer(url, {"transactional.id": "x"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"mine")
        producer.commit_transaction()
    produce(broker, topic, numbered(5, 5))
    assert mirror(broker, url, f"{topic}:0") == 0
    assert check(in_kafka(broker.address, topic), url, "m", topic, mine=lambda row: row[2] != b"mine") == 10


@pytest.mark.deep
def test_two_writers_at_once(broker, url, topic):
    """A producer of the log writes into the same partition all the time: the map says where each record is."""
    create(broker, topic)
    produce(broker, topic, numbered(0, 1))
    assert mirror(broker, url, f"{topic}:0") == 0
    with running(broker, url, f"{topic}:0", "--interval", "0"), Producer(url) as producer:
        for number in range(20):
            produce(broker, topic, numbered(1 + number * 10, 10))
            for _ in range(5):
                producer.send(topic, b"mine", partition=0).result()
        wait(lambda: rows_in(url, topic) == 301)
    assert check(in_kafka(broker.address, topic), url, "m", topic, mine=lambda row: row[2] != b"mine") == 201


# -- Groups --------------------------------------------------------------------------------------------------------


def test_a_consumer_moves_over(broker, url, topic):
    create(broker, topic)
    producer = kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, value=b"%d" % number)
        producer.flush()
        (producer.abort_transaction if number == 1 else producer.commit_transaction)()
    settings = {"bootstrap.servers": broker.address, "group.id": topic, "enable.auto.commit": False}
    consumer = kafka.Consumer(
        {**settings, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    )
    consumer.assign([kafka.TopicPartition(topic, 0, 0)])
    seen = []
    while len(seen) < 3:
        seen += [one for one in consumer.consume(3 - len(seen), 1.0) if one.error() is None]
    consumer.commit(
        offsets=[kafka.TopicPartition(topic, 0, seen[-1].offset() + 1, metadata="by hand")],
        asynchronous=False,
    )
    others = kafka.Consumer({**settings, "group.id": "eoslog-mirror-other"})
    others.commit(offsets=[kafka.TopicPartition(topic, 0, 1)], asynchronous=False)
    others.close()
    assert mirror(broker, url, f"{topic}:0", "--groups", f"{topic}|eoslog.*") == 0
    assert [*Admin(url).list_groups()] == [topic], "and none of the mirrors' own"
    assert Admin(url).list_group_offsets(topic)[TopicPartition(topic, 0)].metadata == "by hand"
    with Consumer(url, {"group.id": topic, "auto.offset.reset": "none"}) as ours:
        at = TopicPartition(topic, 0)
        ours.assign([at])
        rest = [record.value for record in ours.poll(2000)]
        assert [one.value() for one in seen] + rest == [b"0", b"2", b"3", b"4", b"5"]
        ours.commit()
    assert mirror(broker, url, f"{topic}:0", "--groups", topic) == 0
    assert Admin(url).list_group_offsets(topic)[at].offset == 5, "a group that has gone on is not sent back"
    consumer.close()
