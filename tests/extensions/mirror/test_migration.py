"""docs/extensions/mirror/migrating.md, command by command, with a real broker; everything is killed once on its way."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from contextlib import suppress

import pytest

from spark_eos import Admin, Producer, TopicPartition
from spark_eos.errors import NotALogError, RecordTooLargeError, UnknownTopicOrPartitionError
from spark_eos.extensions.mirror.notes import notes
from spark_eos.extensions.mirror.offset_map import current
from spark_eos.log.log import Log

from .both_sides import in_kafka, in_log
from .guide import Guide

kafka = pytest.importorskip("confluent_kafka")
admin_module = pytest.importorskip("confluent_kafka.admin")
pytest.importorskip("kafka")
pytest.importorskip("pyspark")

ANNA, BERT = "python produce.py kafka anna", "python produce.py kafka bert --transactions"
ANNA_LOG, BERT_LOG = "python produce.py log anna", "python produce.py log bert --transactions"
BILLING, AUDIT = "python consume.py kafka billing", "python consume.py kafka audit"
AT = "log --name shop --bootstrap-server {}"

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def connectors():
    from benchmarks import jars

    try:
        return jars.fetch("connectors", jars.CONNECTORS, alone=True)
    except jars.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    from benchmarks import jars
    from benchmarks.kafka import Broker

    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    try:
        started = Broker(tmp_path_factory.mktemp("kafka"))
    except jars.Missing as missing:
        pytest.skip(str(missing))
    yield started
    started.stop()
    monkeypatch.undo()


@pytest.fixture
def guide(tmp_path, monkeypatch, broker, connectors):
    monkeypatch.chdir(tmp_path)
    made = Guide(tmp_path, broker, connectors, {"localhost:9092": broker.address})
    yield made
    made.end()


# -- What the programs have done -------------------------------------------------------------------------------------


def lines(path):
    return path.read_text().split() if path.exists() else []


def seen(guide, group):
    """What a group has processed, in its order: item, side, partition."""
    with (
        suppress(sqlite3.OperationalError),
        sqlite3.connect(guide.folder / f"{group}.db", timeout=300) as database,
    ):
        return list(database.execute("SELECT item, side, partition_ FROM seen ORDER BY rowid"))
    return []  # It has not begun.


def written(guide, stage):
    """What a Spark job has written: its files are those that the sink's own list has."""
    folder = guide.folder / "job" / str(stage)
    listed = {}
    for name in (folder / "_spark_metadata").iterdir():
        if not name.name.startswith("."):
            for line in name.read_text().splitlines()[1:]:
                listed[json.loads(line)["path"].rpartition("/")[2]] = None
    rows = [line for name in listed for line in (folder / name).read_text().splitlines()]
    return [json.loads(row)["item"] for row in rows]


def more_seen(guide, group, side, count=10):
    """Wait until a group has processed some more on this side."""

    def on_side():
        return sum(row[1] == side for row in seen(guide, group))

    wanted = on_side() + count
    guide.wait(lambda: on_side() >= wanted)


def more_acknowledged(guide, name, count=10):
    wanted = len(lines(guide.folder / f"{name}.acknowledged")) + count
    guide.wait(lambda: len(lines(guide.folder / f"{name}.acknowledged")) >= wanted)


def in_order(items):
    """Those of each producer are in its order."""
    last = defaultdict(lambda: -1)
    for item in items:
        name, number = item.split("-")
        assert int(number) > last[name], item
        last[name] = int(number)


def check_delivered(guide, items, where):
    """All that was acknowledged, once; of what was not (its producer was killed) at most once."""
    counts = Counter(items)
    assert [item for item, count in counts.items() if count > 1] == [], f"doubled in {where}"
    sent, acknowledged = (
        {line for name in ("anna", "bert") for line in lines(guide.folder / f"{name}.{kind}")}
        for kind in ("sent", "acknowledged")
    )
    others = {item for item in counts if item.startswith("forgotten")}
    assert acknowledged - counts.keys() == set(), f"lost in {where}"
    assert counts.keys() - sent - others == set(), f"unknown in {where}"
    return counts.keys()


def check_all(guide, topic, stages):
    """``topic``: the items by partition, of the side that has everything."""
    for items in topic.values():
        in_order(items)
    everything = check_delivered(guide, [item for items in topic.values() for item in items], "the topic")
    for group in ("billing", "audit"):
        rows = seen(guide, group)
        assert check_delivered(guide, [row[0] for row in rows], group) == everything, group
        for number in topic:
            in_order([item for item, _, partition in rows if partition == number])
    items = [item for stage in stages for item in written(guide, stage)]
    assert check_delivered(guide, items, "the job") == everything


# -- The way there ---------------------------------------------------------------------------------------------------


@pytest.mark.since("4.2")  # The connector of 4.1 fails where a micro-batch is repeated.
def test_there_and_back(guide, broker):
    at = AT.format(broker.address)
    mirror = f"eoslog mirror in {at} --partitions orders:0-1"
    guide.play("The programs", until="pip")
    guide.skip("The programs", "pip install")
    guide.play("The programs", until="spark-submit")
    job = guide.next("The programs")
    more_acknowledged(guide, "anna")
    guide.crash_in_batch(job, "job/1-checkpoint")
    guide.play("The mirror runs")
    guide.wait(rows_in)
    guide.crash(BILLING)
    more_seen(guide, "billing", "kafka")
    guide.crash(mirror)

    # A consumer moves.
    move = f"eoslog mirror group {at} --group billing"
    assert "has 1 member in Kafka" in guide.refused(move, "GROUP_NOT_EMPTY")
    assert "NoOffsetForPartition" in guide.fails("python consume.py log audit")
    guide.play("A consumer moves", until="kafka audit")
    more_seen(guide, "billing", "log")
    guide.crash("python consume.py log billing")
    check = f"eoslog mirror check {at} --before producers"
    said = guide.refused(check, "INVALID_REQUEST")
    assert "group audit has 1 member in Kafka" in said
    assert "billing" not in said
    guide.play("A consumer moves")
    more_seen(guide, "audit", "log")

    # A Spark job moves.
    before = "eoslog mirror checkpoint log --name shop --checkpoint job/1-checkpoint"
    assert "was begun and is not noted as done" in guide.refused(before, "CHECKPOINT_MISMATCH")
    guide.play("The programs")
    guide.play("A Spark job moves", until="spark-submit")  # It has moved. What it reads is seen at the end.

    # Producers move.
    guide.play("Producers move", until="kafka anna")
    guide.crash(ANNA)
    more_acknowledged(guide, "anna")
    guide.play("Producers move", until="kafka bert")
    more_acknowledged(guide, "anna")
    guide.crash(ANNA_LOG)
    broker.kill()
    broker.start()
    guide.crash(BERT)
    more_acknowledged(guide, "bert")
    assert "group" not in guide.run(check)
    guide.play("Producers move")
    more_acknowledged(guide, "bert")
    guide.crash(BERT_LOG)
    more_acknowledged(guide, "bert")

    # The mirror ends.
    guide.play("The mirror ends", until="kafka-configs")
    producer = kafka.Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
    producer.produce("orders", b"forgotten-0", partition=0)
    assert producer.flush(300) == 0
    guide.play("The mirror ends")
    answers = []
    producer.produce(
        "orders", b"forgotten-1", partition=0, on_delivery=lambda error, _: answers.append(error.name())
    )
    assert producer.flush(300) == 0
    assert answers == ["MSG_SIZE_TOO_LARGE"]
    more_seen(guide, "billing", "log")
    for line in (ANNA_LOG, BERT_LOG):
        guide.stop(line)
    guide.play("A Spark job moves")
    read_all(guide)
    topic = in_the_log()
    check_all(guide, topic, [1, 2])
    check_mirrored(in_kafka(broker.address, "orders"), topic)

    return_to_kafka(guide, broker)


def return_to_kafka(guide, broker):
    """The way back, after all have moved; the job is not running."""
    mirror = f"eoslog mirror in {AT.format(broker.address)} --partitions orders:0-1"
    before = in_the_log()
    for line in (ANNA_LOG, BERT_LOG):
        guide.start(line)
    guide.play("The way back")
    out = f"eoslog mirror out log --name back --bootstrap-server {broker.address} --reverse shop"
    out += " --kafka-config back.properties"
    guide.wait(lambda: "back" in [note.mirror for note in notes(Log.open("log").state)])
    assert "has taken over from it" in guide.refused(f"{mirror} --once", "PRODUCER_FENCED")
    guide.crash(out)
    back = f"log --back --name back --bootstrap-server {broker.address}"
    assert "1 member in the log" in guide.refused(
        f"eoslog mirror group {back} --group billing", "GROUP_NOT_EMPTY"
    )
    sent = f"eoslog mirror sent log --name back --bootstrap-server {broker.address}"
    guide.wait(lambda: guide.succeeds(sent))
    check = f"eoslog mirror check {back} --before producers"
    assert "group audit has 1 member in the log" in guide.refused(check, "INVALID_REQUEST")
    guide.play("Consumers return")
    more_seen(guide, "billing", "kafka")
    guide.crash("python consume.py kafka audit")
    guide.play("Spark jobs return", until="spark-submit")
    guide.play("Producers return", until="log bert")
    more_acknowledged(guide, "anna")
    guide.crash(out)
    guide.play("Producers return")
    more_acknowledged(guide, "bert")
    guide.play("The mirror to Kafka ends")
    with pytest.raises(RecordTooLargeError), Producer("log") as forgotten:
        forgotten.send("orders", b"forgotten-2").result()
    for line in (ANNA, BERT):
        guide.stop(line)
    guide.play("Spark jobs return")
    everything = by_partition(in_kafka(broker.address, "orders")[0])
    guide.wait(lambda: len(seen(guide, "billing")) == len(seen(guide, "audit")) == count(everything))
    check_all(guide, everything, [1, 2, 3])
    check_sent(everything, in_the_log(), before)
    assert guide.left == {}, "all of the guide was played"


def in_the_log():
    return by_partition(in_log("log", "orders"))


def by_partition(records):
    """The items, of what `in_kafka` or `in_log` has found."""
    return {number: [row[2].decode() for row in rows] for number, rows in records.items()}


def count(items):
    return sum(map(len, items.values()))


def rows_in():
    """Of the topic in the log; 0 without a log."""
    try:
        return count(in_the_log())
    except (NotALogError, UnknownTopicOrPartitionError):
        return 0


def read_all(guide):
    """The groups have read all of the log."""
    guide.wait(lambda: len(seen(guide, "billing")) == len(seen(guide, "audit")) == rows_in())


def check_mirrored(in_broker, topic):
    """The log has all of Kafka, in its order; what is between is of the log's producers."""
    records, ends = in_broker
    for number, items in by_partition(records).items():
        theirs = {*items}
        assert [item for item in topic[number] if item in theirs] == items
    assert {one.partition: one.offset for one in current(Log.open("log").state, "shop")} == ends


def check_sent(everything, topic, before):
    """Kafka has all of the log, in its order but for what came from Kafka, which lies before all others."""
    for number, items in topic.items():
        assert {*items} <= {*everything[number]}
        sent = [item for item in items if item not in {*before[number]}]
        wanted = {*sent}
        assert [item for item in everything[number] if item in wanted] == sent


# -- Wrong orders ----------------------------------------------------------------------------------------------------


def test_what_is_refused(guide, broker):
    """The table of the guide, but for what the way there has shown."""
    at = AT.format(broker.address)
    client = {"bootstrap.servers": broker.address}
    broker.create("refused")
    run = f"eoslog mirror in {at} --partitions refused:0 --once"
    wait = f"eoslog mirror wait {at} --topic refused"
    group = f"eoslog mirror group {at} --group late"
    Log.create("log")
    assert "start eoslog mirror in first" in guide.refused(wait, "CONFIG")
    producer = kafka.Producer({**client, "transactional.id": "refused", "linger.ms": 0})
    producer.init_transactions()

    def send(*values):
        producer.begin_transaction()
        for value in values:
            producer.produce("refused", value)
        assert producer.flush(300) == 0

    def commit(offset):
        at = [kafka.TopicPartition("refused", 0, offset)]
        kafka.Consumer({**client, "group.id": "late"}).commit(offsets=at, asynchronous=False)

    send(b"0", b"1")
    producer.commit_transaction()
    guide.run(run)
    guide.run(wait)
    assert "committed no offset in Kafka" in guide.refused(group, "CONFIG")
    commit(1)
    guide.run(group)
    assert Log.open("log").state.offset_of("late", "refused", 0).offset == 1

    # The mirror is behind, for a transaction is open, and for it does not run.
    send(b"2")
    guide.run(run)
    said = guide.refused(f"{wait} --timeout 0", "KAFKA_TIMEOUT")
    assert "refused-0: a transaction of Kafka is open from offset 3 on" in said
    producer.commit_transaction()
    said = guide.refused(f"{wait} --timeout 0", "KAFKA_TIMEOUT")
    assert "refused-0 is mirrored up to offset 3, and ends at 5 in Kafka" in said
    commit(5)
    assert "up to offset 5, which is not mirrored yet" in guide.refused(
        f"{group} --timeout 0", "KAFKA_TIMEOUT"
    )
    end = f"eoslog mirror check {at} --before end"
    assert "refused-0 is mirrored up to offset 3" in guide.refused(end, "INVALID_REQUEST")

    # A producer moved before the group.
    with Producer("log") as early:
        early.send("refused", b"early")
    guide.run(run)
    said = guide.refused(group, "OFFSET_OUT_OF_RANGE")
    assert "a producer of the log wrote the record 2 before that, which the group would never read" in said
    assert Log.open("log").state.offset_of("late", "refused", 0).offset == 1
    assert "group late has not moved (refused-0)" in guide.refused(end, "INVALID_REQUEST")
    guide.run(f"{end} --ignore-groups late")
    guide.run(f"{group} --accept-loss")
    assert Log.open("log").state.offset_of("late", "refused", 0).offset == 4
    said = guide.run(end)
    assert "topic refused of Kafka takes records" in said

    # The topic is another one.
    broker.delete("refused")
    guide.wait(lambda: "refused" not in admin_module.AdminClient(client).list_topics(timeout=300).topics)
    broker.create("refused")
    assert "was deleted and created again" in guide.refused(wait, "UNKNOWN_TOPIC_OR_PARTITION")


def test_keys_of_librdkafka_keep_their_partition(guide, broker, monkeypatch):
    """The function of the guide sends each key where confluent-kafka sends it."""
    monkeypatch.syspath_prepend(guide.folder)
    broker.create("hashed", 3)
    there = {}
    producer = kafka.Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
    for number in range(30):
        key = b"k%d" % number
        producer.produce(
            "hashed", b"", key, on_delivery=lambda _, sent: there.update({sent.key(): sent.partition()})
        )
    assert producer.flush(300) == 0
    with Admin("log") as admin:
        admin.create_topic("hashed", 3)
    with Producer("log", {"partitioner.class": "partitioning:crc32"}) as ours:
        here = {key: ours.send("hashed", b"", key=key) for key in there}
        ours.flush()
        assert {key: sent.result().partition for key, sent in here.items()} == there
    assert len({*there.values()}) == 3


def test_what_is_refused_on_the_way_back(guide, broker):
    at = AT.format(broker.address)
    broker.create("returned")
    producer = kafka.Producer({"bootstrap.servers": broker.address, "linger.ms": 0})

    def send(value):
        producer.produce("returned", value)
        assert producer.flush(300) == 0

    def write(value):
        with Producer("log") as ours:
            ours.send("returned", value)

    def stand(offset):
        with Admin("log") as admin:
            admin.alter_group_offsets("late", {TopicPartition("returned", 0): offset})

    run = f"eoslog mirror in {at} --partitions returned:0 --once"
    out = f"eoslog mirror out log --name returned --bootstrap-server {broker.address} --reverse shop --once"
    back = f"log --back --name returned --bootstrap-server {broker.address}"
    group = f"eoslog mirror group {back} --group late"
    send(b"k0")
    guide.run(run)
    write(b"x0")
    send(b"k1")
    assert "which mirror in 'shop' has not brought into the log" in guide.refused(out, "INVALID_REQUEST")
    guide.run(run)
    guide.run(out)  # Kafka has k0, k1, x0 and a marker; the log has k0, x0, k1.
    assert "committed no offset in the log" in guide.refused(group, "CONFIG")
    stand(2)
    said = guide.refused(group, "OFFSET_OUT_OF_RANGE")
    assert "it can move once it has read the log up to offset 3" in said
    stand(1)
    guide.run(group)
    assert committed(broker, "late", "returned") == 1
    stand(3)
    guide.run(group)
    assert committed(broker, "late", "returned") >= 3

    # Producers moved back before the group did.
    write(b"x1")
    said = guide.refused(f"eoslog mirror wait {back} --timeout 0", "KAFKA_TIMEOUT")
    assert "returned-0 is sent up to offset 3, and ends at 4 in the log" in said
    stand(4)
    assert "up to offset 4, which is not in Kafka yet" in guide.refused(
        f"{group} --timeout 0", "KAFKA_TIMEOUT"
    )
    send(b"early")
    guide.run(out)
    assert "a producer in Kafka wrote the record 4 before that" in guide.refused(group, "OFFSET_OUT_OF_RANGE")
    assert "group late has not moved" in guide.refused(
        f"eoslog mirror check {back} --before end", "INVALID_REQUEST"
    )
    guide.run(f"{group} --accept-loss")
    guide.run(f"eoslog mirror check {back} --before end")


def committed(broker, group, topic):
    """Where a group stands in Kafka."""
    settings = {"bootstrap.servers": broker.address, "group.id": group}
    (found,) = kafka.Consumer(settings).committed([kafka.TopicPartition(topic, 0)], timeout=300)
    return found.offset
