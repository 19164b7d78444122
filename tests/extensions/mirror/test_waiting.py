"""What a mirror does while Kafka or the store does not answer. Kafka is a list of messages here."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from spark_eos import Admin, Producer, TopicPartition, read_arrow
from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    InvalidRecordError,
    InvalidRequestError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    UnknownTopicOrPartitionError,
)
from spark_eos.extensions.mirror import kafka_source
from spark_eos.extensions.mirror.kafka_source import KafkaSource, SourceTopic, Start
from spark_eos.extensions.mirror.mirroring import Mirror, Mirrored
from spark_eos.extensions.mirror.offset_map import OffsetMap
from spark_eos.extensions.mirror.options import MirrorOptions
from spark_eos.extensions.mirror.out.producer import AbortedError, KafkaTransaction
from spark_eos.extensions.mirror.out.sender import Sender
from spark_eos.extensions.mirror.positions import positions
from spark_eos.extensions.mirror.runs import Place
from spark_eos.extensions.mirror.targets import check_distinct
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.log.fakes import FakeClock


class Message:
    def __init__(self, offset, error=None, value=b"x"):
        self._offset, self._error, self._value = offset, error, value

    def topic(self):
        return "t"

    def partition(self):
        return 0

    def offset(self):
        return self._offset

    def error(self):
        return self._error

    def key(self):
        return None

    def value(self):
        return self._value

    def headers(self):
        return None

    def timestamp(self):
        return 1, 5

    def leader_epoch(self):
        return 3


class Error:
    def __init__(self, name, *, fatal=False):
        self._name, self._fatal = name, fatal

    def name(self):
        return self._name

    def str(self):
        return f"the error {self._name}"

    def fatal(self):
        return self._fatal


class Listed:
    """A topic ``t`` with one partition: what each call of ``poll`` gives, and how often the cluster does not answer."""

    address = "kafka:9092"

    def __init__(self, *polls, low=0, high=100):
        self.polls, self.low, self.high = list(polls), low, high
        self.silent = 0
        self.topics = []
        self.noted, self.closed = [], False

    def cluster_id(self):
        return "cluster"

    def find(self, names, pattern):
        return self.describe(names)

    def described_patiently(self, names):
        if self.silent:
            self.silent -= 1
            raise KafkaTimeoutError("Kafka at kafka:9092 does not answer")
        return self.describe(names)

    def describe(self, names):
        found = self.topics.pop(0) if len(self.topics) > 1 else (self.topics or ["id"])[0]
        return {} if found is None else {name: SourceTopic(name, found, 1) for name in names}

    def configs(self, names):
        return {}

    def bounds(self, topic, partition):
        return self.low, self.high

    def assign(self, starts):
        self.starts = starts

    def poll(self, most, timeout_s):
        return self.polls.pop(0) if self.polls else [Message(self.high, Error("_PARTITION_EOF"))]

    def is_away(self, error):
        return error.name() == "_TRANSPORT"

    def note(self, offsets):
        self.noted.append(offsets)

    def close(self):
        self.closed = True


def run(source, store=None, **options):
    """A mirror until Kafka has no more; what it has done, and what it has said."""
    clock = FakeClock()
    log = Log.open_or_create(store or MemoryStore(), clock, Retry(deadline_s=1))
    said = []
    mirror = Mirror(log, source, MirrorOptions("m", partitions={"t": [0]}, **options), said.append)
    return mirror.run(lambda: False, once=True), said, log


def test_headers_count_as_what_waits():
    """Or a batch of them has no bound."""
    messages = [Message(offset) for offset in range(4)]
    for message in messages:
        message.headers = lambda: [("name", b"h" * 1000), ("null", None)]
    done, _, log = run(Listed(*([message] for message in messages)), batch_bytes=2000)
    assert done == Mirrored(3, 4), "two full ones, and the end"
    assert len(values(log)) == 4


@pytest.mark.parametrize("timestamp_ms", [-(2**62), 2**62])
def test_a_time_that_no_calendar_has_is_named(timestamp_ms):
    message = Message(7)
    message.timestamp = lambda: (1, timestamp_ms)
    with pytest.raises(InvalidRecordError, match=f"offset 7 of Kafka's t-0 has the timestamp {timestamp_ms}"):
        run(Listed([message]))


def values(log):
    return [one.as_py() for one in read_arrow(log, "t", columns=["value"]).read_all().column("value")]


def test_kafka_is_waited_for_and_nothing_is_lost():
    source = Listed([Message(0), Message(1)])
    described = source.described_patiently
    calls = []

    def described_patiently(names):
        calls.append(names)
        if len(calls) == 3:  # The first two are those of the beginning.
            source.silent = 2
        return described(names)

    source.described_patiently = described_patiently
    done, said, log = run(source)
    assert done.records == 2
    assert len(values(log)) == 2
    assert said == ["Kafka at kafka:9092 does not answer; it is tried again"] * 2
    assert source.closed
    assert source.noted[-1] == {("t", 0): 100}


@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize(
    ("fault", "operation", "name"),
    [
        (Fault.FAIL_BEFORE, "upload", "*"),
        (Fault.FAIL_AFTER, "upload", "*"),
        *((fault, "create", "_log/*") for fault in Fault if fault is not Fault.DELAYED),
        (Fault.FAIL_BEFORE, "read", "*"),
    ],
)
def test_the_store_is_waited_for(fault, operation, name, times):
    store = FaultyStore(MemoryStore())
    source = Listed([Message(0), Message(1)], [Message(2)])
    polled = source.poll

    def poll(most, timeout_s):
        if len(source.polls) == 2:
            store.inject(fault, operation, name, times=times)
        return polled(most, timeout_s)

    source.poll = poll
    done, _, log = run(source, store)
    store.heal()
    assert done.records == 3
    assert values(log) == [b"x"] * 3, "once"
    assert OffsetMap(log, log.state, "m", positions(log.state, "m")[0]).is_same


def test_a_broker_that_has_just_started_may_not_know_the_topic():
    source = Listed([Message(0)])
    source.topics = ["id", "id", "id", None, "id"]
    assert run(source)[0] == Mirrored(1, 1)
    source = Listed([Message(0)])
    source.topics = ["id", "id", "id", None]
    with pytest.raises(
        UnknownTopicOrPartitionError, match="topic 't' of Kafka at kafka:9092 was deleted since"
    ):
        run(source)


@pytest.mark.parametrize(
    ("error", "raised", "match"),
    [
        (Error("_AUTO_OFFSET_RESET"), OffsetOutOfRangeError, "the mirror is at offset 1 of Kafka's t-0"),
        (
            Error("TOPIC_AUTHORIZATION_FAILED"),
            ConfigError,
            "Kafka refuses t: the error TOPIC_AUTHORIZATION_FAILED",
        ),
        (Error("_FATAL", fatal=True), ConfigError, "_FATAL"),
    ],
)
def test_errors_that_end_it(error, raised, match):
    source = Listed([Message(0), Message(1, error)])
    with pytest.raises(raised, match=match):
        run(source)
    assert source.closed


def test_what_is_refused_changes_nothing():
    """Not even the settings of the topic, which would be those of another one in Kafka."""
    _, _, log = run(Listed([Message(0)]))
    seq = log.follow().seq
    source = Listed([Message(0)])
    source.cluster_id = lambda: "other"
    source.configs = lambda names: {name: {"retention.ms": "1000"} for name in names}
    with pytest.raises(InvalidRequestError, match="is mirrored from the Kafka cluster cluster"):
        run(source, log.store)
    assert log.follow().seq == seq


@pytest.mark.parametrize("name", ["_TRANSPORT", "UNKNOWN_TOPIC_OR_PART"])
def test_errors_that_pass(name):
    done, _, log = run(Listed([Message(0), Message(1, Error(name)), Message(1)]))
    assert done.records == len(values(log)) == 2


def test_a_record_that_comes_twice_is_taken_once():
    first, late = Message(0, value=b"a"), Message(0, Error("_PARTITION_EOF"))
    done, _, log = run(Listed([first, late, first, Message(1, value=b"b")]))
    assert done.records == 2
    assert values(log) == [b"a", b"b"]


def test_it_goes_on_where_it_was():
    store = MemoryStore()
    run(Listed([Message(0), Message(1)], high=2), store)
    source = Listed([Message(2)], high=3)
    done, _, log = run(source, store)
    assert source.starts[0][:4] == ("t", 0, 2, 3), (
        "with the leader's epoch, so that Kafka can tell what was cut off"
    )
    assert done.records == 1
    assert len(values(log)) == 3


def test_kafka_has_lost_its_end():
    store = MemoryStore()
    run(Listed([Message(0), Message(1)], high=2), store)
    with pytest.raises(
        OffsetOutOfRangeError, match="t-0 of Kafka ends at offset 1, and the mirror has read it up to 2"
    ):
        run(Listed(high=1), store)


def test_another_process_of_the_same_partitions_stops_this_one():
    store, source = MemoryStore(), Listed([Message(0)])
    polled = source.poll

    def poll(most, timeout_s):
        if source.polls:
            run(Listed([Message(0)], high=1), store)
        return polled(most, timeout_s)

    source.poll = poll
    with pytest.raises(
        ProducerFencedError, match="another process mirrors t-0 under --name m: this one stops"
    ):
        run(source, store)
    assert len(values(Log.open(store))) == 1


@pytest.mark.parametrize(
    "options", [{"topics": ("t",)}, {"partitions": {"t": [0]}}], ids=["group", "partitions"]
)
def test_what_is_refused_though_its_partitions_are_its_own_ends_it(options):
    """Nothing is given up then: it would try the same batch for ever."""
    log = Log.create(MemoryStore(), FakeClock(), Retry(deadline_s=1))
    source = Listed([Message(0)], high=1)
    mirror = Mirror(log, source, MirrorOptions("m", **options), print)
    errors = [AssertionError("the same batch again"), ProducerFencedError("why")]

    def refuse(_filled):
        raise errors.pop()

    mirror._writer.write = refuse
    source.subscribe = lambda _names, take, _give_up: take([("t", 0)])
    with pytest.raises(ProducerFencedError, match=r"^why$"):
        mirror.run(lambda: False, once=True)


def test_a_partition_that_kafka_has_not_is_named():
    log = Log.create(MemoryStore(), FakeClock(), Retry(deadline_s=1))
    mirror = Mirror(log, Listed(), MirrorOptions("m", partitions={"t": [0, 1]}), print)
    with pytest.raises(UnknownTopicOrPartitionError, match="'t' of Kafka has no partition 1: it has 1"):
        mirror.run(lambda: False, once=True)


def test_a_record_that_kafka_took_is_mirrored_however_large():
    """Also where the log's topic takes no record of producers (a topic that is sealed)."""
    store = MemoryStore()
    run(Listed([Message(0)], high=1), store)
    Admin(Log.open(store)).alter_topic("t", config={"max.message.bytes": 1})
    done, _, _ = run(Listed([Message(1, value=b"large")], high=2), store)
    assert done.records == 1


def test_patterns_match_no_topic_of_kafka_itself_and_no_group_of_a_mirror(monkeypatch):
    kafka = pytest.importorskip("confluent_kafka")

    def answered(value):
        future = Future()
        future.set_result(value)
        return future

    def offsets(request, **_):
        (asked,) = request
        if asked.group_id == "refused":
            raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.GROUP_AUTHORIZATION_FAILED))
        at = [kafka.TopicPartition("t", number, offset) for number, offset in enumerate((5, -1001))]
        return {asked.group_id: answered(SimpleNamespace(topic_partitions=at))}

    said = []
    source = KafkaSource({"bootstrap.servers": "127.0.0.1:1"}, "g", refresh_s=1, tell=said.append)
    topics = dict.fromkeys(
        ("__consumer_offsets", "__transaction_state", "__share_group_state", "__mine", "t")
    )
    groups = [SimpleNamespace(group_id=name) for name in ("eoslog-mirror-m", "refused", "readers")]
    source._admin = SimpleNamespace(
        list_topics=lambda **_: SimpleNamespace(topics=topics),
        list_consumer_groups=lambda **_: answered(SimpleNamespace(valid=groups)),
        list_consumer_group_offsets=offsets,
    )
    monkeypatch.setattr(
        source, "describe", lambda names: {name: SourceTopic(name, "id", 1) for name in names}
    )
    assert [*source.find([], ".*")] == ["__mine", "t"]
    assert source.group_offsets(".*") == {"readers": {("t", 0): (5, "")}}, "-1001 is no offset"
    (why,) = said
    assert "group refused: Kafka at 127.0.0.1:1 refuses the mirror" in why


def test_without_the_client_the_extra_is_named(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(kafka_source, "import_module", missing)
    with pytest.raises(ConfigError, match=r"pip install .*'spark-eos\[mirror\]'"):
        KafkaSource({"bootstrap.servers": "x"}, "g", refresh_s=1, tell=print)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (
            {"bootstrap.servers": "x", "isolation.level": "read_uncommitted"},
            "isolation.level is set by the mirror",
        ),
        ({}, "--bootstrap-server"),
        ({"bootstrap.servers": "x", "nonsense": "1"}, "the settings are refused"),
    ],
)
def test_settings_of_the_client(settings, match):
    pytest.importorskip("confluent_kafka")
    with pytest.raises(ConfigError, match=match):
        KafkaSource(settings, "g", refresh_s=1, tell=print)


def test_two_topics_do_not_become_one():
    with pytest.raises(ConfigError, match="topics 'a' and 't' of Kafka would both become 'x'"):
        check_distinct({"a": "x", "t": "x"})


def test_what_was_read_of_another_topic_is_not_written():
    store = MemoryStore()
    source = Listed([Message(0)])
    source.topics = ["id", "id", "id", "made again"]
    with pytest.raises(
        UnknownTopicOrPartitionError, match=r"deleted and created again \(topic id made again\)"
    ):
        run(source, store)
    assert values(Log.open(store)) == []


def test_records_that_are_gone_are_not_skipped():
    store = MemoryStore()
    run(Listed([Message(0), Message(1)], high=2), store)
    with pytest.raises(OffsetOutOfRangeError, match="at offset 2 of Kafka's t-0, which begins at offset 4"):
        run(Listed(low=4), store)
    done, said, log = run(Listed([Message(4)], low=4), store, accept_loss=True)
    assert done.records == 1
    assert said == ["t-0: records 2 to 3 are gone from Kafka and are not mirrored"]
    offsets = OffsetMap(log, log.state, "m", positions(log.state, "m")[0])
    places = [Place(1, True), Place(2, False), Place(2, True), Place(3, False), None]
    assert [offsets.to_log(at) for at in (1, 2, 4, 100, 101)] == places


def test_retention_may_be_faster_than_a_mirror_that_accepts_loss():
    source = Listed([Message(0), Message(1)], [Message(2, Error("_AUTO_OFFSET_RESET"))], [Message(6)])
    polled, sought = source.poll, []

    def poll(most, timeout_s):
        if len(source.polls) == 2:
            source.low = 6
        return polled(most, timeout_s)

    source.poll, source.go_on = poll, sought.append
    done, said, log = run(source, accept_loss=True)
    assert (done.records, len(values(log))) == (3, 3)
    assert sought == [Start("t", 0, 6)]
    assert said == ["t-0: records 2 to 5 are gone from Kafka and are not mirrored"]


def test_an_error_of_the_client_is_told_once_until_kafka_answers(monkeypatch):
    pytest.importorskip("confluent_kafka")
    said = []
    source = KafkaSource({"bootstrap.servers": "127.0.0.1:1"}, "g", refresh_s=1, tell=said.append)
    for name in ("_TRANSPORT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TRANSPORT"):
        source._heard(Error(name))
    once = ["Kafka: the error _TRANSPORT", "Kafka: the error _ALL_BROKERS_DOWN"]
    assert said == once
    source._retried(lambda: "an answer")
    source._heard(Error("_TRANSPORT"))
    assert said == [*once, once[0]]
    monkeypatch.setattr(source, "_consumer", Consumes())
    source.poll(1, 0.0)
    source._heard(Error("_TRANSPORT"))
    assert said == [*once, once[0], once[0]]


@pytest.fixture
def no_collector():
    """Cycles stay."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_a_source_that_is_closed_leaves_no_client_to_the_collector():
    """A forked child that collects one dies: the client's end waits for threads that it does not have."""
    pytest.importorskip("confluent_kafka")
    source = KafkaSource({"bootstrap.servers": "127.0.0.1:1"}, "g", refresh_s=1, tell=print)
    admin = weakref.ref(source._admin)
    source.itself = source  # As the traceback of an error does.
    source.close()
    assert admin() is None


@pytest.mark.usefixtures("no_collector")
def test_a_source_that_is_dropped_leaves_no_client_to_the_collector():
    pytest.importorskip("confluent_kafka")
    source = KafkaSource({"bootstrap.servers": "127.0.0.1:1"}, "g", refresh_s=1, tell=print)
    admin = weakref.ref(source._admin)
    del source
    assert admin() is None


class Consumes:
    def consume(self, most, timeout_s):
        return [Message(0)]


def sender_of_one(log):
    """Of the topic ``t``, with what it has to read, and a transaction of Kafka that takes all."""
    with Producer(log) as producer:
        producer.send("t", b"x").result()
    topic = log.follow().topics["t"]
    key = (topic.topic_id, 0)
    sender = Sender(log, *[None] * 3)
    sender.topics[topic.topic_id] = SimpleNamespace(topic="t", kafka="t")
    fetches = sender.fetches({key: 0}, {key: 1}, SimpleNamespace(rest=lambda _, first, end: [(first, end)]))
    return sender, fetches, SimpleNamespace(send=lambda *_: None, flush=lambda: None)


def test_a_file_that_is_lost_ends_a_mirror_to_kafka_and_is_named():
    log = Log.create(MemoryStore())
    sender, fetches, transaction = sender_of_one(log)
    log.store.delete(fetches[0][1].file.name)
    with pytest.raises(
        CorruptRecordError, match=r"It is missing: it holds t-0, offset 0\. It was removed by hand"
    ):
        sender._send_records(transaction, fetches)


def test_a_file_that_was_replaced_is_read_where_its_records_are_now():
    log = Log.create(MemoryStore())
    sender, fetches, transaction = sender_of_one(log)
    Admin(Log.open(log.store)).delete_records({TopicPartition("t", 0): 1})
    log.store.delete(fetches[0][1].file.name)
    with pytest.raises(AbortedError, match="Its records were rewritten since"):
        sender._send_records(transaction, fetches)


class FullQueue:
    """A producer of Kafka whose queue has room for one record."""

    def __init__(self):
        self.queued, self.sent = [], []

    def produce(self, topic, value, key, partition, **_more):
        if self.queued:
            raise BufferError
        self.queued.append(value)

    def poll(self, timeout):
        if timeout:
            self.sent.append(self.queued.pop())


def test_all_records_of_a_transaction_wait_for_room_in_the_queue_of_the_client():
    kafka = FullQueue()
    transaction = KafkaTransaction(SimpleNamespace(kafka=SimpleNamespace(KafkaException=OSError)), kafka)
    transaction.send("t", 0, [(None, value, None, 0) for value in (b"0", b"1")])
    transaction.note("map", 0, None, b"2")
    assert (kafka.sent, kafka.queued) == ([b"0", b"1"], [b"2"])


def runs_in(log):
    state = log.follow()
    (position,) = [at for at in positions(state, "m") if at.target_id == log.topic("t").topic_id]
    return [tuple(run) for run in OffsetMap(log, state, "m", position).runs()]


def test_a_topic_that_others_have_made_again_has_a_map_of_its_own():
    store = MemoryStore()
    _, _, log = run(Listed([Message(0), Message(1), Message(3)], high=4), store)
    assert runs_in(log) == [(0, 0, 2), (3, 2, 1)]
    admin = Admin(log)
    admin.delete_topic("t")
    admin.create_topic("t", 1)
    with Producer(log) as producer:
        producer.send("t", b"mine")
    with pytest.raises(InvalidRequestError, match=r"has 1 records that mirror 'm' has not written"):
        run(Listed([Message(1), Message(3)], low=1, high=4), store)
    _, _, log = run(Listed([Message(1), Message(3)], low=1, high=4), store, may_append=True)
    assert values(log) == [b"mine", b"x", b"x"]
    assert runs_in(log) == [(1, 1, 1), (3, 2, 1)]
    run(Listed([Message(4)], low=1, high=5), store)
    assert runs_in(log) == [(1, 1, 1), (3, 2, 2)]


def test_a_map_that_others_have_made_again_is_no_map():
    store = MemoryStore()
    _, _, log = run(Listed([Message(0), Message(1)], high=2), store)
    map_ = log.topic("__mirror.m.t")
    Admin(log).delete_topic("__mirror.m.t")
    Admin(log).create_topic("__mirror.m.t", map_.partitions)
    for source in (None, Listed([Message(3)], high=4)):
        if source is not None:
            run(source, store)
        (position,) = positions(log.follow(), "m")
        with pytest.raises(OffsetOutOfRangeError, match=r"map __mirror\.m\.t-0 is not whole any more"):
            OffsetMap(log, log.state, "m", position).to_log(1)


def test_two_topics_of_kafka_are_not_mirrored_into_one():
    class Other(Listed):
        def describe(self, names):
            return {name: SourceTopic(name, f"id of {name}", 1) for name in names}

    store = MemoryStore()
    run(Listed([Message(0)], high=1), store)
    log = Log.open(store)
    options = MirrorOptions("m", partitions={"u": [0]}, renamed={"u": "t"}, may_append=True)
    with pytest.raises(InvalidRequestError, match="'t' is mirrored from Kafka's topic 't' under this --name"):
        Mirror(log, Other(), options, print).run(lambda: True)
    assert values(log) == [b"x"]
