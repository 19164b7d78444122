"""Mirrors to a real Kafka broker: whatever happens to either side, Kafka has what the log has, or it is refused."""

from __future__ import annotations

# ruff: noqa: F811  (the fixture of the broker is imported)
import json
import random
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.errors import CorruptRecordError
from spark_eos.extensions.mirror.notes import notes
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
from spark_eos.extensions.mirror.out.mirroring import MirrorOut
from spark_eos.extensions.mirror.out.options import OutOptions
from spark_eos.extensions.mirror.out.out_map import OutMap, read_positions, sent_offsets
from spark_eos.extensions.mirror.out.position import map_topic, position_topic
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.log.time_travel import earliest
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from verification.processes import environment
from verification.retiring import RETIRED_AT_ONCE

from .both_sides import in_kafka, in_log
from .test_mirror_in import admin, broker, create, delete, offsets_are_served, produce, refused, wait  # noqa: F401

kafka = pytest.importorskip("confluent_kafka")
admin_module = pytest.importorskip("confluent_kafka.admin")


@pytest.fixture
def topic(request):
    """A name for a topic, and for its mirror: that of the test."""
    return "out." + re.sub(r"[^a-z0-9.]+", ".", request.node.name.removeprefix("test_"))[:60]


@pytest.fixture
def url(tmp_path):
    found = str(tmp_path / "log")
    Log.create(found)
    return found


def arguments(broker, url, name, *more):
    return [
        *("mirror", "out", url, "--name", name, "--bootstrap-server", broker.address),
        *(() if "--interval" in more else ("--interval", "0.1")),
        *(() if "--refresh" in more else ("--refresh", "0.3")),
        *more,
        *(() if "--reverse" in more or "--topic" in more or "--topic-pattern" in more else ("--topic", name)),
    ]


def mirror(broker, url, name, *more):
    """All that is there now, in this process."""
    return main(arguments(broker, url, name, "--once", *more))


@contextmanager
def running(broker, url, name, *more):
    """A mirror as a process."""
    command = [sys.executable, "-m", "spark_eos", *arguments(broker, url, name, *more)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def send(url, topic, rows, transactional_id=None, abort=False):
    with Producer(url, {"transactional.id": transactional_id} if transactional_id else {}) as producer:
        if transactional_id:
            producer.init_transactions()
            producer.begin_transaction()
        for row in rows:
            producer.send(topic, **row)
        producer.flush()
        if transactional_id:
            (producer.abort_transaction if abort else producer.commit_transaction)()


def numbered(first, count, partitions=1):
    return [
        {"key": b"k%d" % at, "value": b"v%d" % at, "partition": at % partitions}
        for at in range(first, first + count)
    ]


def check(broker, url, topic, kafka_topic=None, *, mine=bool):
    """Both sides have the same records in the same order. ``mine``: what the mirror wrote. The number of records."""
    theirs = {
        at: [row[1:] for row in rows if mine(row)]
        for at, rows in in_kafka(broker.address, kafka_topic or topic)[0].items()
    }
    ours = {at: [row[1:] for row in rows] for at, rows in in_log(url, topic).items()}
    assert theirs == ours
    return sum(map(len, ours.values()))


def test_every_kind_of_record(broker, url, topic):
    Admin(url).create_topic(topic, partitions=2)
    kinds = [
        {"key": None, "value": b"no key"},
        {"key": b"", "value": b""},
        {"key": b"tombstone", "value": None},
        {"key": None, "value": None},
        {"value": b"headers", "headers": [("a", b"1"), ("a", None), ("", b""), ("ä", b"\xff")]},
        {"value": b"old", "timestamp_ms": 1},
    ]
    send(url, topic, [{**row, "partition": at % 2} for at, row in enumerate(kinds)])
    assert mirror(broker, url, topic) == 0
    assert check(broker, url, topic) == 6
    (note,) = notes(Log.open(url).state)
    assert [(pair.topic, pair.kafka) for pair in note.pairs] == [(topic, topic)], "by this a circle is found"
    send(url, topic, numbered(0, 10, 2), "x")
    send(url, topic, numbered(10, 10, 2), "x", abort=True)
    send(url, topic, numbered(20, 10, 2), "x")
    assert mirror(broker, url, topic) == 0
    assert mirror(broker, url, topic) == 0
    assert check(broker, url, topic) == 26


def cuts(broker, name, topic, *, partitions):
    """Up to where each transaction of Kafka was: all positions that were written, with the log's offsets."""
    found = []
    for _, key, value, *_ in in_kafka(broker.address, position_topic(name))[0][0]:
        if key == f"topic/{topic}".encode():
            found.append(json.loads(value)["next"])
    assert all(len(one) == partitions for one in found)
    return found


def check_whole(url, broker, topic, *, partitions=2):
    """No transaction of the log is in two of Kafka: their names are the first part of each value."""
    places = {}
    for number, rows in in_log(url, topic).items():
        for offset, _, value, *_ in rows:
            places.setdefault(value.partition(b".")[0], []).append((number, offset))
    for cut in cuts(broker, topic, topic, partitions=partitions):
        for name, rows in places.items():
            assert len({offset < cut[number] for number, offset in rows}) == 1, (name, cut)


def test_transactions_stay_whole_while_others_are_open(broker, url, topic):
    """Producers write at once: the last stable offsets hold back parts, and one-shot entries lie between."""
    Admin(url).create_topic(topic, partitions=2)
    names = [f"p{number}" for number in range(3)]
    producers = [Producer(url, {"transactional.id": name}) for name in names]
    alone = Producer(url, {"linger.ms": 60_000})
    generator = random.Random(7)
    for producer in producers:
        producer.init_transactions()
    opened = [0, 0, 0]
    with running(broker, url, topic, "--interval", "0.02", "--batch-records", "1") as process:
        for step in range(60):
            number = generator.randrange(4)
            if number == 3:
                for at in (0, 1):
                    alone.send(topic, b"alone%d." % step, partition=at)
                alone.flush()
                continue
            if not opened[number]:
                producers[number].begin_transaction()
                opened[number] = 1000 + step
            elif generator.random() < 0.5:
                (
                    producers[number].abort_transaction
                    if step % 5 == 0
                    else producers[number].commit_transaction
                )()
                opened[number] = 0
                continue
            producers[number].send(
                topic, b"%d-%d." % (number, opened[number]), partition=generator.randrange(2)
            )
            producers[number].flush()
        for producer, name in zip(producers, opened, strict=True):
            if name:
                producer.commit_transaction()
            producer.close()
        alone.close()
        written = rows_in_log(url, topic)
        wait(lambda: rows_in_kafka(broker, topic) == written or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert check(broker, url, topic) > 20
    check_whole(url, broker, topic)
    assert len(cuts(broker, topic, topic, partitions=2)) > 3


def wait_sent(process, broker, topic, rows):
    """Wait until Kafka has so many rows of a running mirror. If it ends before, what it has said is the error."""
    wait(lambda: rows_in_kafka(broker, topic) == rows or process.poll() is not None)
    assert process.returncode is None, process.communicate()


def rows_in_log(url, topic):
    return sum(map(len, in_log(url, topic).values()))


def rows_in_kafka(broker, topic):
    try:
        return sum(map(len, in_kafka(broker.address, topic)[0].values()))
    except (kafka.KafkaException, KeyError):
        return -1


def test_one_that_is_too_large_is_torn_and_said(broker, url, topic, capsys):
    Admin(url).create_topic(topic, partitions=2)
    send(url, topic, numbered(0, 100, 2), "x")
    assert mirror(broker, url, topic, "--transaction-records", "30", "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"transactions": 4, "records": 100, "torn": 1}
    assert "it is torn over several transactions of Kafka" in said.err
    assert check(broker, url, topic) == 100


def test_a_record_without_a_key_for_a_compacted_topic_is_said(broker, url, topic, capsys):
    """One of before the topic was compacted, here and in Kafka: Kafka does not take it."""
    Admin(url).create_topic(topic)
    with Producer(url) as producer:
        producer.send(topic, b"v")
    create(broker, topic, 1, cleanup_policy="compact")
    assert mirror(broker, url, topic) == 1
    told = capsys.readouterr().err
    assert f"Kafka refuses a record of topic {topic}" in told
    assert "one without a key" in told


# -- Deaths --------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_killed_at_every_step(broker, tmp_path):
    program = Path(__file__).with_name("killed_out.py")
    done = subprocess.run(
        [sys.executable, program, tmp_path, broker.address],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout.splitlines()[-1])
    assert steps >= 12, "topics, notes, fence, positions, records, commits"
    for number in range(steps):
        assert check(broker, f"{tmp_path}/{number}", f"dead.{number}") == 8, number
        check_whole(f"{tmp_path}/{number}", broker, f"dead.{number}")


@pytest.mark.deep("3")
@pytest.mark.parametrize("kills", [1, 3])
def test_killed_at_any_moment(broker, url, topic, kills):
    Admin(url).create_topic(topic, partitions=2)
    for number in range(kills):
        send(url, topic, numbered(number * 1000, 1000, 2), "x")
        with running(broker, url, topic, "--batch-records", "1", "--transaction-records", "50") as process:
            wait(
                lambda number=number: (
                    rows_in_kafka(broker, topic) > number * 500 or process.poll() is not None
                )
            )
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert mirror(broker, url, topic) == 0
    assert check(broker, url, topic) == kills * 1000


@pytest.mark.deep
def test_one_that_slept_writes_nothing_more(broker, url, topic):
    Admin(url).create_topic(topic)
    send(url, topic, numbered(0, 10))
    with running(broker, url, topic) as sleeper:
        wait(lambda: rows_in_kafka(broker, topic) == 10)
        sleeper.send_signal(signal.SIGSTOP)
        send(url, topic, numbered(10, 10))
        assert mirror(broker, url, topic) == 0
        send(url, topic, numbered(20, 10))
        sleeper.send_signal(signal.SIGCONT)
        _, said = sleeper.communicate(timeout=300)
        assert sleeper.returncode == 1
        assert "[PRODUCER_FENCED]" in said
        assert "another process mirrors" in said
    assert mirror(broker, url, topic) == 0
    assert check(broker, url, topic) == 30


@pytest.mark.deep
def test_one_that_slept_until_its_entries_were_retired_goes_on(broker, tmp_path, topic):
    """Also new topics, and a transaction that was open when it fell asleep."""
    url = str(tmp_path / "log")
    log = Log.create(url, snapshot_interval=5, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    Admin(log).create_topic(topic, partitions=2)
    send(log, topic, numbered(0, 10, 2))
    with (
        running(broker, url, topic, "--topic-pattern", f"{re.escape(topic)}.*") as sleeper,
        Producer(log, {"transactional.id": "x"}) as producer,
    ):
        wait_sent(sleeper, broker, topic, 10)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0)
        producer.flush()
        sleeper.send_signal(signal.SIGSTOP)
        producer.commit_transaction()
        Admin(log).create_topic(f"{topic}.new")
        for at in range(40):
            send(log, topic, numbered(10 + at, 1, 2))
            send(log, f"{topic}.new", numbered(at, 1))
        before = log.follow().seq
        send(log, topic, numbered(50, 10, 2), "y")
        log.maintenance.snapshot()
        while log.maintenance.retire(log.follow(), 1000):
            pass
        assert earliest(log).seq > before - 20
        sleeper.send_signal(signal.SIGCONT)
        wait_sent(sleeper, broker, topic, 61)
        wait_sent(sleeper, broker, f"{topic}.new", 40)
        sleeper.terminate()
        _, said = sleeper.communicate(timeout=300)
        assert sleeper.returncode == 128 + signal.SIGTERM, said
    assert "which of them belong to one transaction is not known any more" in said
    assert check(broker, url, topic) == 61
    assert check(broker, url, f"{topic}.new") == 40


@pytest.mark.deep
def test_one_that_slept_before_its_commit_commits_nothing(broker, url, topic):
    """All records of its transaction are in Kafka. The successor's fence aborts them, and sends them itself."""
    Admin(url).create_topic(topic)
    send(url, topic, numbered(0, 10))
    program = Path(__file__).with_name("killed_out.py")
    command = [sys.executable, program, "--freeze", *arguments(broker, url, topic)]
    sleeper = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        wait(lambda: is_stopped(sleeper.pid) or sleeper.poll() is not None)
        assert rows_in_kafka(broker, topic) == 0
        assert mirror(broker, url, topic) == 0
        assert check(broker, url, topic) == 10
        sleeper.send_signal(signal.SIGCONT)
        _, said = sleeper.communicate(timeout=300)
        assert sleeper.returncode == 1
        assert "[PRODUCER_FENCED]" in said, said
    finally:
        sleeper.kill()
        sleeper.communicate()
    assert check(broker, url, topic) == 10


def is_stopped(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


@pytest.mark.deep
def test_the_broker_is_killed_and_comes_back(broker, url, topic):
    Admin(url).create_topic(topic, partitions=2)
    send(url, topic, numbered(0, 100, 2))
    with running(broker, url, topic, "--interval", "0", "--batch-records", "1") as process:
        wait(lambda: rows_in_kafka(broker, topic) == 100)
        for one in range(10):
            send(url, topic, numbered(100 + one * 10, 10, 2), "x")
        broker.kill()
        send(url, topic, numbered(200, 10, 2), "x")
        broker.start()
        wait(lambda: rows_in_kafka(broker, topic) == 210 or process.poll() is not None, 300)
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert check(broker, url, topic) == 210


# -- Back to the topics that the records came from -------------------------------------------------------------------


def mirror_in(broker, url, topic, *more):
    command = ["mirror", "in", url, "--name", "m", "--bootstrap-server", broker.address, "--interval", "0.1"]
    return main([*command, "--refresh", "0.3", "--partitions", topic, "--once", *more])


@pytest.mark.deep
def test_back_to_where_records_came_from(broker, url, topic, capsys):
    """Records of both sides, mixed: Kafka gets those of the log that it has not, each once."""
    create(broker, topic, 2)
    produce(broker, topic, numbered(0, 20, 2))
    assert mirror_in(broker, url, f"{topic}:0-1", "--append") == 0
    send(url, topic, numbered(100, 10, 2), "x")
    produce(broker, topic, numbered(20, 20, 2))
    assert mirror_in(broker, url, f"{topic}:0-1", "--append") == 0
    send(url, topic, numbered(110, 10, 2), "x")
    send(url, topic, numbered(200, 10, 2), "x", abort=True)
    before = Log.open(url).state.queries
    assert mirror(broker, url, topic) == 1, "that would send Kafka's own records back"
    assert "--reverse" in refused(capsys, "INVALID_REQUEST")
    assert mirror(broker, url, topic, "--append") == 1
    assert "would go round between the log and Kafka" in refused(capsys, "INVALID_REQUEST")
    assert Log.open(url).state.queries == before, "nothing is written"
    produce(broker, topic, numbered(40, 2, 2))
    assert mirror(broker, url, topic, "--reverse", "m") == 1
    assert "eoslog mirror in --once" in refused(capsys, "INVALID_REQUEST")
    assert mirror_in(broker, url, f"{topic}:0-1", "--append") == 0, "it is not ended by what was refused"
    assert mirror(broker, url, topic, "--reverse", "m") == 0
    assert mirror_in(broker, url, f"{topic}:0-1", "--append") == 1
    assert "mirror out" in refused(capsys, "PRODUCER_FENCED")
    send(url, topic, numbered(120, 10, 2), "x")
    assert mirror(broker, url, topic, "--reverse", "m") == 0
    there = in_kafka(broker.address, topic)[0]
    for at in (0, 1):
        wanted = [*range(42), *range(100, 130)]
        assert [row[2] for row in there[at]] == [b"v%d" % number for number in wanted if number % 2 == at]
    command = [
        "mirror",
        "in",
        url,
        "--name",
        "n",
        "--bootstrap-server",
        broker.address,
        "--topic",
        topic,
        "--once",
    ]
    assert main([*command, "--append"]) == 1, "another mirror would bring what was sent back"
    assert "would go round" in refused(capsys, "INVALID_REQUEST")


# -- Refused -------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_topic_of_kafka_that_was_made_again_is_refused(broker, url, topic, capsys):
    Admin(url).create_topic(topic)
    send(url, topic, numbered(0, 5))
    assert mirror(broker, url, topic) == 0
    delete(broker, topic)
    assert mirror(broker, url, topic) == 1
    assert "was deleted since it was mirrored" in refused(capsys, "UNKNOWN_TOPIC_OR_PARTITION")
    create(broker, topic)
    send(url, topic, numbered(5, 5))
    assert mirror(broker, url, topic) == 1
    assert "deleted and created again" in refused(capsys, "UNKNOWN_TOPIC_OR_PARTITION")
    assert rows_in_kafka(broker, topic) == 0
    assert mirror(broker, url, f"{topic}.2", "--topic", topic) == 0, "the remedy"
    assert check(broker, url, topic) == 10


def test_a_topic_of_kafka_that_is_made_again_under_a_running_mirror(broker, url, topic):
    Admin(url).create_topic(topic)
    send(url, topic, numbered(0, 5))
    with running(broker, url, topic, "--refresh", "1000") as process:
        wait_sent(process, broker, topic, 5)
        process.send_signal(signal.SIGSTOP)
        delete(broker, topic)
        create(broker, topic)
        send(url, topic, numbered(5, 5))
        process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=300)
        assert process.returncode == 1
        assert "under the running mirror" in said
    assert rows_in_kafka(broker, topic) == 0


@pytest.mark.deep
def test_a_map_that_is_made_again_under_a_running_mirror_is_named(broker, url, topic):
    """It was gone on with, and lacked all that was sent before."""
    Admin(url).create_topic(topic)
    send(url, topic, numbered(0, 5))
    name = map_topic(topic, topic)
    with running(broker, url, topic, "--refresh", "1000") as process:
        wait_sent(process, broker, topic, 5)
        process.send_signal(signal.SIGSTOP)
        delete(broker, name)
        create(broker, name)
        send(url, topic, numbered(5, 5))
        process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=300)
        assert process.returncode == 1
        assert f"topic '{name}' of Kafka" in said
        assert "under the running mirror" in said
    assert rows_in_kafka(broker, topic) == 5


@pytest.mark.deep("deleted")
@pytest.mark.parametrize("how", ["deleted", "made again", "emptied"])
def test_a_position_that_is_lost_is_missed(broker, url, topic, capsys, how):
    """Else the mirror would begin at the start of the log again, and send all of it twice."""
    Admin(url).create_topic(topic)
    send(url, topic, numbered(0, 5))
    assert mirror(broker, url, topic) == 0
    name = position_topic(topic)
    if how == "emptied":
        alter(broker, name, "cleanup.policy", "delete")
        assert mirror(broker, url, topic) == 1
        assert "positions that are deleted are lost" in refused(capsys, "CONFIG")
        wait(lambda: admin(broker).delete_records([kafka.TopicPartition(name, 0, -1)]))
        end = admin_module.OffsetSpec.earliest()
        wait(lambda: offsets_are_served(broker, name, 1, end)[0].offset > 0)
        alter(broker, name, "cleanup.policy", "compact")
    else:
        delete(broker, name)
        if how == "made again":
            create(broker, name, cleanup_policy="compact")
    assert mirror(broker, url, topic) == 1
    said = refused(capsys, "OFFSET_OUT_OF_RANGE")
    assert "what was sent is not known any more" in said
    assert rows_in_kafka(broker, topic) == 5


def alter(broker, name, setting, value):
    entry = admin_module.ConfigEntry(setting, value, incremental_operation=admin_module.AlterConfigOpType.SET)
    resource = admin_module.ConfigResource(
        admin_module.ConfigResource.Type.TOPIC, name, incremental_configs=[entry]
    )
    admin(broker).incremental_alter_configs([resource])[resource].result()


def test_what_retention_took_is_never_skipped_in_silence(broker, url, topic, capsys):
    Admin(url).create_topic(topic)
    send(url, topic, numbered(0, 10))
    assert mirror(broker, url, topic) == 0
    send(url, topic, numbered(10, 10))
    Admin(url).delete_records({TopicPartition(topic, 0): 15})
    assert mirror(broker, url, topic) == 1
    said = refused(capsys, "OFFSET_OUT_OF_RANGE")
    assert f"at offset 10 of {topic}-0, which begins at offset 15" in said
    assert rows_in_kafka(broker, topic) == 10
    assert mirror(broker, url, topic, "--accept-loss") == 0
    assert "records 10 to 14 are gone" in capsys.readouterr().err
    there = in_kafka(broker.address, topic)[0][0]
    assert [row[2] for row in there] == [b"v%d" % at for at in (*range(10), *range(15, 20))]


def test_a_topic_of_the_log_that_was_made_again_is_refused(broker, url, topic, capsys):
    Admin(url).create_topic(topic)
    send(url, topic, numbered(0, 5))
    assert mirror(broker, url, topic) == 0
    Admin(url).delete_topic(topic)
    Admin(url).create_topic(topic)
    send(url, topic, numbered(5, 5))
    assert mirror(broker, url, topic) == 1
    assert "of the log was deleted and created again" in refused(capsys, "UNKNOWN_TOPIC_OR_PARTITION")
    assert rows_in_kafka(broker, topic) == 5


def test_what_cannot_be_sent_is_refused_before_anything_is_written(broker, url, topic, tmp_path, capsys):
    admin_of_log = Admin(url)
    admin_of_log.create_topic(topic, schema=pa.schema([("x", pa.int64())]))
    assert mirror(broker, url, topic) == 1
    assert "has columns of its own" in refused(capsys, "INVALID_REQUEST")
    admin_of_log.create_topic(f"{topic}.b")
    send(url, f"{topic}.b", [{"value": b"x", "timestamp_ms": 0}])
    create(broker, f"{topic}.b")
    produce(broker, f"{topic}.b", numbered(0, 1))
    assert mirror(broker, url, f"{topic}.b") == 1
    assert "has records that mirror" in refused(capsys, "INVALID_REQUEST")
    assert not [name for name in Log.open(url).state.queries if name.startswith("mirror")]
    assert mirror(broker, url, f"{topic}.b", "--append") == 1
    assert "has the timestamp 0" in refused(capsys, "INVALID_RECORD")
    assert rows_in_kafka(broker, f"{topic}.b") == 1
    other = str(tmp_path / "other")
    Log.create(other)
    Admin(other).create_topic(f"{topic}.b")
    assert mirror(broker, other, f"{topic}.b", "--append") == 1
    assert "sends another log" in refused(capsys, "INVALID_REQUEST")
    alike = f"{topic}_b"  # To Kafka the same as with a dot.
    admin_of_log.create_topic(alike)
    assert mirror(broker, url, alike) == 1
    assert f"refuses the name of the topic '{alike}'" in refused(capsys, "INVALID_REQUEST")


@pytest.mark.deep
def test_topics_and_partitions_that_come_later(broker, url, topic):
    Admin(url).create_topic(f"{topic}.a", partitions=1, config={"retention.ms": "100000000"})
    send(url, f"{topic}.a", numbered(0, 3))
    more = ("--topic-pattern", f"{topic}\\..", "--rename", f"{topic}.b={topic}.other")
    with running(broker, url, topic, *more) as process:
        wait(lambda: rows_in_kafka(broker, f"{topic}.a") == 3)
        assert setting(broker, f"{topic}.a") == "100000000"
        Admin(url).create_partitions({f"{topic}.a": 3})
        Admin(url).create_topic(f"{topic}.b", partitions=2)
        with Producer(url, {"transactional.id": "x"}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for at in range(6):
                producer.send(f"{topic}.a", b"x%d" % at, partition=at % 3)
                producer.send(f"{topic}.b", b"y%d" % at, partition=at % 2)
            producer.commit_transaction()
        wait(lambda: rows_in_kafka(broker, f"{topic}.other") == 6 or process.poll() is not None)
        Admin(url).alter_topic(f"{topic}.a", config={"retention.ms": "200000000"})
        wait(lambda: setting(broker, f"{topic}.a") == "200000000" or process.poll() is not None)
        assert process.poll() is None, process.stderr.read()
    assert check(broker, url, f"{topic}.a") == 9
    assert check(broker, url, f"{topic}.b", f"{topic}.other") == 6


def setting(broker, name):
    resource = admin_module.ConfigResource(admin_module.ConfigResource.Type.TOPIC, name)
    return admin(broker).describe_configs([resource])[resource].result()["retention.ms"].value


# -- Offsets -------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_every_record_is_found_from_the_other_side(broker, url, topic, capsys):
    Admin(url).create_topic(topic)
    for number in range(4):
        send(url, topic, numbered(number * 5, 5), "x", abort=number == 1)
        if number == 2:
            assert mirror(broker, url, topic, "--batch-records", "1") == 0
    assert mirror(broker, url, topic, "--batch-records", "1") == 0
    there, here = in_kafka(broker.address, topic)[0][0], in_log(url, topic)[0]
    target = KafkaTarget({"bootstrap.servers": broker.address}, topic, refresh_s=1.0, tell=print)
    log = Log.open(url)
    (one,) = sent_offsets(log.state, read_positions(target, log, topic))
    assert (one.lag, one.kafka) == (0, topic)
    offsets = OutMap(target, topic, topic, 0, (one.kafka_end, one.offset))
    for row, copy in zip(there, here, strict=True):
        assert offsets.to_kafka(copy[0]) == (row[0], True)
        assert offsets.to_log(row[0]) == (copy[0], True)
    assert offsets.to_kafka(5) == (there[5][0], False), "the next record that is there"
    assert offsets.to_kafka(one.offset + 1) is None
    assert offsets.last_before(here[7][0]) == there[6][0]
    target.close()
    capsys.readouterr()
    look = ["mirror", "sent", url, "--name", topic, "--bootstrap-server", broker.address]
    assert main([*look, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["offset"] == one.offset
    assert main([*look, "--topic", topic, "--partition", "0", "--log", str(here[9][0])]) == 0
    assert capsys.readouterr().out.split() == [str(there[9][0])]


@pytest.mark.deep
def test_a_consumer_moves_over(broker, url, topic):
    Admin(url).create_topic(topic)
    send(url, topic, numbered(0, 6), "x")
    with Consumer(url, {"group.id": topic, "auto.offset.reset": "earliest", "max.poll.records": 3}) as ours:
        ours.assign([TopicPartition(topic, 0)])
        seen = [record.value for record in ours.poll(2000)]
        ours.commit()
    assert len(seen) == 3
    assert mirror(broker, url, topic, "--groups", topic) == 0
    settings = {"bootstrap.servers": broker.address, "group.id": topic, "enable.auto.commit": False}
    consumer = kafka.Consumer(settings)
    consumer.subscribe([topic])
    while len(seen) < 6:
        seen += [one.value() for one in consumer.consume(10, 1.0) if one.error() is None]
    assert seen == [b"v%d" % at for at in range(6)]
    consumer.commit(asynchronous=False)
    (before,) = consumer.committed([kafka.TopicPartition(topic, 0)], timeout=300)
    assert mirror(broker, url, topic, "--groups", topic) == 0
    consumer.unsubscribe()
    assert mirror(broker, url, topic, "--groups", topic) == 0
    (at,) = consumer.committed([kafka.TopicPartition(topic, 0)], timeout=300)
    consumer.close()
    assert at.offset == before.offset, "it is not sent back"


@pytest.mark.deep
def test_no_group_moves_by_a_map_that_was_deleted(broker, url, topic, capsys):
    """It would pass over the records that it has not read: no row says where they are."""
    Admin(url).create_topic(topic)
    send(url, topic, numbered(0, 6), "x")
    with Consumer(url, {"group.id": topic, "auto.offset.reset": "earliest", "max.poll.records": 3}) as ours:
        ours.assign([TopicPartition(topic, 0)])
        assert len(ours.poll(2000)) == 3
        ours.commit()
    assert mirror(broker, url, topic) == 0
    delete(broker, map_topic(topic, topic))
    capsys.readouterr()
    assert mirror(broker, url, topic, "--groups", topic) == 0
    assert "is not whole any more" in capsys.readouterr().err
    consumer = kafka.Consumer({"bootstrap.servers": broker.address, "group.id": topic})
    (at,) = consumer.committed([kafka.TopicPartition(topic, 0)], timeout=300)
    consumer.close()
    assert at.offset < 0, "none is committed"


@pytest.mark.deep
def test_the_store_does_not_answer_for_a_moment(broker, topic):
    """In the middle of a transaction: it is aborted, and the same is sent again."""
    store = FaultyStore(MemoryStore())
    log = Log.create(store, retry=Retry(deadline_s=0.0))
    Admin(log).create_topic(topic)
    with Producer(log) as producer:
        for at in range(3):
            producer.send(topic, b"%d" % at).result()
    said = []
    target = KafkaTarget({"bootstrap.servers": broker.address}, topic, refresh_s=1.0, tell=said.append)
    store.inject(Fault.FAIL_BEFORE, "read", "data/*", skip=1)
    done = MirrorOut(log, target, OutOptions(topic, (topic,)), said.append).run(lambda: False, once=True)
    assert (done.transactions, done.records) == (1, 3)
    assert any("it is tried again" in line for line in said), said
    assert [row[2] for row in in_kafka(broker.address, topic)[0][0]] == [b"0", b"1", b"2"]


def test_a_data_file_that_is_lost_is_named_and_nothing_of_its_transaction_is_in_kafka(broker, topic):
    store = MemoryStore()
    log = Log.create(store)
    with Producer(log) as producer:
        for text in (b"first", b"second"):
            producer.send(topic, text).result()
    (partition,) = log.follow().partitions.values()
    store.delete(next(iter(partition.index.scan(1, log.load))).file.name)
    target = KafkaTarget({"bootstrap.servers": broker.address}, topic, refresh_s=1.0, tell=print)
    mirror = MirrorOut(log, target, OutOptions(topic, (topic,), batch_records=1), print)
    with pytest.raises(
        CorruptRecordError, match=f"It is missing: it holds {topic}-0, offset 1. It was removed"
    ):
        mirror.run(lambda: False, once=True)
    assert [row[2] for row in in_kafka(broker.address, topic)[0][0]] == [b"first"]


@pytest.mark.deep
def test_a_group_moves_back_once_no_record_would_come_twice(broker, url, topic, capsys):
    """The log: 4 records of Kafka, 4 of its own, 4 of Kafka. In Kafka its own lie after all of the others."""
    create(broker, topic)
    produce(broker, topic, numbered(0, 4))
    assert mirror_in(broker, url, f"{topic}:0", "--append") == 0
    send(url, topic, numbered(100, 4), "x")
    produce(broker, topic, numbered(4, 4))
    assert mirror_in(broker, url, f"{topic}:0", "--append") == 0
    settings = {"group.id": topic, "auto.offset.reset": "earliest", "max.poll.records": 6}
    back = ("--reverse", "m", "--groups", topic)
    with Consumer(url, settings) as ours:
        ours.assign([TopicPartition(topic, 0)])
        seen = [record.value for record in ours.poll(2000)]
        ours.commit()
        assert len(seen) == 6
        assert mirror(broker, url, topic, *back) == 0
        assert "it is translated once it has read up to offset 13" in capsys.readouterr().err
        while len(seen) < 12:
            seen += [record.value for record in ours.poll(2000)]
        ours.commit()
    send(url, topic, numbered(104, 4), "x")
    assert mirror(broker, url, topic, *back) == 0
    consumer = kafka.Consumer(
        {"bootstrap.servers": broker.address, "group.id": topic, "auto.offset.reset": "error"}
    )
    consumer.subscribe([topic])
    while len(seen) < 16:
        seen += [one.value() for one in consumer.consume(16, 1.0) if one.error() is None]
    consumer.close()
    assert sorted(seen) == sorted(b"v%d" % at for at in (*range(8), *range(100, 108)))
