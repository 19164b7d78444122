"""Who has just come and does not stay: no call waits for a transaction that is past its time.

Each call below is the first of a handle that is as new as a process, and none of them takes any time.
"""

from __future__ import annotations

import time

import pytest

from spark_eos import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.config.isolation import Isolation
from spark_eos.errors import ProducerFencedError, UnstableOffsetCommitError
from spark_eos.log.log import Log
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.protocol.state import TransactionState
from tests.cli.console import eoslog
from tests.log.fakes import FakeClock
from tests.log.test_store_clock import Aging
from tests.starting import run

AT = TopicPartition("t", 0)
TIMEOUT_MS = 60_000
COMMITTED = {
    "isolation.level": "read_committed",
    "group.id": "g",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "default.api.timeout.ms": 0,
}


@pytest.fixture
def store():
    """A log with a record, and after it a streamed transaction of one that died, with a record and an offset."""
    store = Aging()
    log = Log.create(store, FakeClock())
    Admin(log).create_topic("t", 1)
    with Producer(log) as producer:
        producer.send("t", b"before", partition=0)
    dead = Producer(log, {"transactional.id": "dead", "transaction.timeout.ms": TIMEOUT_MS})
    dead.init_transactions()
    dead.begin_transaction()
    dead.send("t", b"never", partition=0)
    dead.send_offsets_to_transaction({AT: 1}, "g")
    dead.flush()
    with Producer(log) as producer:
        producer.send("t", b"behind", partition=0)
    return store


def is_open(store):
    return Log.open(store).state.producers[1].transaction is TransactionState.ONGOING


def new(store):
    return Log.open(store, FakeClock())


def consumer(store):
    made = Consumer(new(store), COMMITTED)
    made.assign([AT])
    return made


def polled(store):
    with consumer(store) as made:
        made.seek(AT, 0)
        return [record.value for record in made.poll()]


def sought(store):
    with consumer(store) as made:
        made.seek_to_end(AT)
        return made.position(AT)


def expired(store):
    Admin(new(store)).expire()
    return polled(store)


def maintained(store):
    [*Maintainer(new(store)).run(wait=False)]
    return polled(store)


def committed(store):
    try:
        return consumer(store).committed([AT])[AT]
    except UnstableOffsetCommitError:
        return "unstable"


def position(store):
    try:
        return consumer(store).position(AT)
    except UnstableOffsetCommitError:
        return "unstable"


def reset(store):
    return Admin(new(store)).reset_group_offsets("other", ["t"], to_latest=True)[AT]


def written(store):
    with Producer(new(store), {"transactional.id": "other"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("other", b"1")
        producer.commit_transaction()


CALLS = {
    "poll": (polled, [b"before"], [b"before", b"behind"]),
    "poll_arrow": (
        lambda store: consumer(store).poll_arrow().num_rows if committed(store) is None else 0,
        0,
        1,
    ),
    "end_offsets": (lambda store: consumer(store).end_offsets([AT])[AT], 1, 4),
    "seek_to_end": (sought, 1, 4),
    "committed": (committed, "unstable", None),
    "position": (position, "unstable", 0),
    "offsets_for_times": (
        lambda store: consumer(store).offsets_for_times({AT: 10**12})[AT],
        None,
        None,
    ),
    "expire": (expired, [b"before"], [b"before", b"behind"]),
    "maintain": (maintained, [b"before"], [b"before", b"behind"]),
    "delete_records": (lambda store: Admin(new(store)).delete_records({AT: -1})[AT], 1, 4),
    "reset_group_offsets": (reset, 1, 4),
    "commit_transaction": (written, None, None),
}


@pytest.mark.parametrize("call", CALLS)
def test_one_call_is_enough(store, call):
    do, before, after = CALLS[call]
    store.now += TIMEOUT_MS / 1000 - 1
    if call not in {"delete_records", "reset_group_offsets", "commit_transaction"}:  # They change something.
        assert do(store) == before
        assert is_open(store)
    store.now += 1
    assert do(store) == after
    assert not is_open(store)


def test_a_topic_that_a_dead_producer_wrote_to_can_be_deleted(store):
    store.now += TIMEOUT_MS / 1000
    Admin(new(store)).delete_topic("t")
    assert Admin(new(store)).list_topics() == []


def test_a_dry_run_says_what_would_end_and_ends_nothing(store):
    def told():
        return [done.text for done in Maintainer(new(store), only=["expire"], dry_run=True).run()]

    assert told() == ["nothing to do"]
    store.now += TIMEOUT_MS / 1000
    assert told() == ["would end 1 thing past their time"]
    assert is_open(store)


def test_expire_names_the_transaction(store):
    assert Admin(new(store)).expire().transactions == []
    store.now += TIMEOUT_MS / 1000
    assert Admin(new(store)).expire().transactions == [1]


# -- The producer itself ----------------------------------------------------------------------------------


@pytest.fixture
def late():
    """A producer with an open transaction, and its clock."""
    log = Log.create(Aging(), FakeClock())
    Admin(log).create_topic("t", 1)
    producer = Producer(log, {"transactional.id": "tx", "transaction.timeout.ms": TIMEOUT_MS})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    producer.flush()
    return producer, log


@pytest.mark.parametrize("call", ["commit_transaction", "flush"])
def test_a_producer_that_is_late_ends_its_own_transaction(late, call):
    """Whether it gets in must not depend on whether another process has looked meanwhile."""
    producer, log = late
    log.clock.now += TIMEOUT_MS / 2000
    producer.send("t", b"1", partition=0)
    producer.flush()  # It is open since the first one.
    log.clock.now += TIMEOUT_MS / 2000
    producer.send("t", b"2", partition=0)
    producer.send_offsets_to_transaction({AT: 1}, "g")
    with pytest.raises(
        ProducerFencedError, match=r"open for 60000 ms, longer than its transaction\.timeout\.ms"
    ):
        getattr(producer, call)()
    state = log.follow()
    assert state.producers[0].transaction is TransactionState.COMPLETE_ABORT
    assert state.producers[0].epoch == 1
    assert state.offset_of("g", *AT) is None
    assert [one.name for one in log.store.list("data/")] == [
        row.file.name for row in state.partitions[log.topic("t").topic_id, 0].index.scan(0) if row.file
    ], "the file of the last record is gone"
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()
    producer.close()


def test_a_producer_that_is_just_in_time_commits(late):
    producer, log = late
    log.clock.now += TIMEOUT_MS / 1000 - 0.001
    producer.commit_transaction()
    assert log.state.producers[0].transaction is TransactionState.COMPLETE_COMMIT
    producer.begin_transaction()
    log.clock.now += 10 * TIMEOUT_MS
    producer.send("t", b"2", partition=0)
    log.clock.now += 10 * TIMEOUT_MS
    producer.commit_transaction()  # Nobody has seen it open: it has no time to be past.
    reader = Consumer(log, {"isolation.level": "read_committed", "auto.offset.reset": "earliest"})
    reader.assign([AT])
    assert [record.value for record in reader.poll()] == [b"1", b"2"]


def test_a_producer_whose_transaction_others_have_ended_hears_the_rule(late):
    producer, log = late
    log.clock.now += TIMEOUT_MS / 1000
    log.store.now += TIMEOUT_MS / 1000
    assert len(Log.open(log.store).expire_overdue()) == 1
    with pytest.raises(ProducerFencedError, match="its transaction timed out"):
        producer.commit_transaction()


# -- Real processes ---------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_processes_that_look_once_get_past_one_that_was_killed(tmp_path, where, request):
    url = str(tmp_path / "log") if where == "folder" else request.getfixturevalue("bucket_url")
    Admin(Log.open_or_create(url)).create_topic("t", 1)
    run("clients/dies_in_a_transaction", url, status=-9)
    with Producer(url) as producer:
        producer.send("t", "behind", partition=0)
    # The second by which stores round their times, twice, and the timeout.
    time.sleep(3)
    if where == "folder":
        eoslog("expire", url)
    assert run("clients/polls_once", url).stdout == "['behind']\n"
    partition = Log.open(url).state.partitions[Log.open(url).topic("t").topic_id, 0]
    assert partition.last_stable_offset == partition.end


def test_what_a_successor_asks_for(store):
    """KIP-447: who takes over asks for stable offsets before it does anything else."""
    log = new(store)
    with Producer(log) as producer:
        producer.send("t", b"more", partition=0)
    with consumer(store) as other:
        other.commit({AT: 2})
    store.now += TIMEOUT_MS / 1000
    with consumer(store) as successor:
        assert successor.committed([AT]) == {AT: OffsetAndMetadata(2)}
    assert Log.open(store).offset_for_time(AT, 0, Isolation.READ_COMMITTED) is not None
