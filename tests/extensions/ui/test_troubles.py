"""What needs attention on the page is what ``eoslog status`` says."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.errors import StoreUnavailableError
from spark_eos.extensions.ui.areas import troubles as areas_troubles
from spark_eos.monitoring import lags, totals
from spark_eos.monitoring.status import Space, status_of
from spark_eos.protocol.actions import JoinGroup, SyncGroup
from spark_eos.storage import MemoryStore
from tests.extensions.ui.asking import Asking
from tests.log.fakes import Waiting
from tests.monitoring.micro_batches import micro_batch
from tests.needing import needs

LITTLE = Space(2 << 30, 100 << 30)


def send(log, count):
    with Producer(log) as producer:
        for _ in range(count):
            producer.send("orders", b"x", partition=0)


def join(log, group):
    """A member that has the topic, and has committed nothing."""
    log.commit(lambda _: (JoinGroup(group, "m", ("orders",), ("range",), 45_000, None, "app"),))
    log.commit(lambda _: (SyncGroup(group, "m", 1),))


@pytest.fixture
def log():
    made = Log.create(MemoryStore(), Waiting()).without_maintenance()
    Admin(made).create_topic("orders", 1)
    return made


class StoreWithClock(MemoryStore):
    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def now_ms(self):
        return self.clock.now_ms()


def test_a_page_whose_clock_is_ahead_goes_by_the_stores():
    clock = Waiting()
    log = Log.create(StoreWithClock(clock), clock).without_maintenance()
    Admin(log).create_topic("orders", 1)
    with Producer(log, {"transactional.id": "teller"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"x")
        producer.flush()
        clock.sleep(30)
        fast = Waiting()
        fast.sleep(30 + 48 * 3600)
        asking = Asking(log, clock=fast)
        shown = asking("overview")
        assert 30_000 <= shown["oldest_ms"] < 3_600_000
        (one,) = shown["attention"]
        assert one["text"].startswith("this machine's clock is wrong: it is 2 d ahead of the store's")
        (opened,) = asking("transactions")["rows"]
        assert 30_000 <= opened["age_ms"] < 3_600_000
        producer.abort_transaction()


def test_nothing_needs_attention_in_a_healthy_log(log):
    with Producer(log) as producer:
        producer.send("orders", b"x")
    shown = Asking(log)("overview")
    assert shown["attention"] == []
    assert shown["unverified"]
    Admin(log).note_verify(sound=True)
    assert not Asking(log)("overview")["unverified"]


def test_a_log_without_any_snapshot(log):
    log.commit(lambda _: ())
    with Producer(log, {"linger.ms": 0}) as producer:
        for _ in range(1100):
            producer.send("orders", b"x").result()
    (expected,) = status_of(log.store, clock=Waiting(), space=lambda _: None).troubles
    assert expected.name == "no snapshot"
    asking = Asking(log)
    assert [one["text"] for one in asking("overview")["attention"]] == [expected.text]


def test_little_space(log):
    asking = Asking(log)
    asking.follower.space = lambda _: LITTLE
    expected = status_of(log.store, clock=Waiting(), space=lambda _: LITTLE).troubles
    assert [one.name for one in expected] == ["little space"]
    (shown,) = asking("overview")["attention"]
    assert (shown["text"], shown["to"], shown["level"]) == (expected[0].text, "storage", "note")


def test_the_group_of_a_query_is_told_as_the_query(log):
    """As `status`, `lag` and the metrics tell it: the page had one reader twice, once as an empty group."""
    Admin(log).create_topic("sales", 1)
    with Producer(log) as producer:
        for _ in range(3):
            producer.send("orders", b"x")
            producer.send("sales", b"x")
    micro_batch(log, "orders", 1)
    asking = Asking(log)
    overview = asking("overview")
    assert (overview["groups"], overview["lag"], overview["queries"], overview["query_lag"]) == (
        0,
        None,
        1,
        2,
    )
    assert [(row["kind"], row["name"]) for row in asking("groups")["rows"]] == [("query", "copy")]
    # What the group has committed beside the query is nobody else's.
    Admin(log).alter_group_offsets("copy", {TopicPartition("sales", 0): 0})
    overview = asking("overview")
    assert (overview["groups"], overview["queries"]) == (1, 1)
    assert [row["kind"] for row in asking("groups")["rows"]] == ["group", "query"]


def test_lags_are_those_of_the_command(log):
    """Of a group that retention has passed, one that reads uncommitted records, one that has committed nothing."""
    at = TopicPartition("orders", 0)
    send(log, 8)
    Admin(log).delete_records({at: 3})
    producer = Producer(log, {"transactional.id": "job"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"x")
    producer.flush()
    send(log, 2)
    for group, offset in {"late": 1, "dirty": 9}.items():
        Admin(log).alter_group_offsets(group, {at: offset})
    join(log, "new")
    commands = {total.name: (total.offsets, total.unknown) for total in totals(lags(log))}
    assert commands == {"late": (7, 0), "dirty": (2, 0), "new": (0, 1)}
    asking = Asking(log)
    rows = {row["name"]: (row["lag"], row["unknown"]) for row in asking("groups")["rows"]}
    assert rows == {**commands, "new": (None, 1)}
    overview = asking("overview")
    assert (overview["lag"], overview["unknown"]) == (7, 1)
    for name in ("late", "dirty"):
        group = asking("group", group=name)
        (described,) = Admin(log).describe_groups([name])[name].partitions
        found = [group["lag"], group["page_rows"][0]["lag"], described.lag]
        assert found == [commands[name][0]] * 3
    producer.abort_transaction()
    producer.close()


def test_a_member_without_a_sign_of_life_is_not_in_sync(log):
    join(log, "g")
    log.store.overwrite(heartbeat_name("g", "m"), b"1 %d" % (log.clock.now_ms() - 600_000))
    (member,) = Asking(log)("group", group="g")["members"]
    assert member["state"] == "no sign of life for 10 min"


def test_signs_of_life_that_cannot_be_read_hide_no_trouble(log, monkeypatch):
    def away(*_):
        raise StoreUnavailableError("the store does not answer")

    monkeypatch.setattr(areas_troubles, "silent_or_refused", away)
    asking = Asking(log)
    asking.follower.space = lambda _: LITTLE
    assert [one.name for one in areas_troubles.troubles(asking.follower)] == ["little space"]


@needs("tables")
def test_a_version_that_is_being_made_is_no_trouble(tmp_path, monkeypatch):
    from spark_eos.extensions.tables.delta.target import DeltaTarget
    from spark_eos.extensions.tables.tables import Tables

    log = Log.create(str(tmp_path / "log"))
    send(log, 1)
    Tables(log).create("nightly", ["orders"])
    asking = Asking(log)
    (row,) = asking("publications")["rows"]
    assert (row["behind"], row["sequence"], row["entries_behind"]) == (1, None, None)
    Tables(log).publish("nightly")
    send(log, 4)
    Admin(log).delete_records({TopicPartition("orders", 0): 2})
    (row,) = asking("publications")["rows"]
    assert (row["behind"], row["sequence"]) == (3, 1)
    assert (row["begun"], row["topics"]) == (False, [{"topic": "orders", "version": 0}])
    assert row["entries_behind"] == log.follow().seq - row["entry"] > 0
    monkeypatch.setattr(DeltaTarget, "commit", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Tables(log).publish("nightly")
    for minutes, unfinished in ((0, False), (31, True)):
        asking.follower.log.clock.sleep(minutes * 60)
        (row,) = asking("publications")["rows"]
        assert (row["begun"], row["unfinished"]) == (True, unfinished)


def test_a_query_whose_topic_was_deleted_leads_to_the_query(log):
    with Producer(log) as producer:
        producer.send("orders", b"x")
    micro_batch(log, "orders", 1)
    Admin(log).delete_topic("orders")
    (shown,) = Asking(log)("overview")["attention"]
    assert (shown["to"], shown["name"]) == ("query", "copy")
