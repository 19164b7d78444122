"""A mover of data files that dies at each operation of either store, and real ones that are killed beside a writer."""

from __future__ import annotations

import multiprocessing
import random
import time
import uuid
from contextlib import suppress
from itertools import count

import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.errors import EosLogError
from spark_eos.log.clock import Retry
from spark_eos.maintenance.moving.mover import DataMover
from spark_eos.maintenance.verify.verify import verify
from spark_eos.storage import MemoryStore, Settings, open_store
from spark_eos.testing.crash_store import Crashed, CrashStore, Trouble
from tests.log.test_two_stores import received
from tests.log.test_two_stores_crashes import send

PROCESSES = multiprocessing.get_context("forkserver")
TROUBLES = [Trouble.CRASH_BEFORE, Trouble.CRASH_AFTER, Trouble.REPLY_LOST, Trouble.CONFLICT]


def move(store, to):
    DataMover(Log.open(store, retry=Retry(deadline_s=0)), to, min_age_s=0).run()


@pytest.mark.deep(
    "conflict-back", "crash_after-back", "crash_after-there", "crash_before-back", "reply_lost-there"
)
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.value)
def test_a_mover_dies(trouble, back):
    """At each moment the log is read and written, and the next mover ends what this one has begun."""
    for at in count():
        chain, place = MemoryStore(), f"memory://moved-{uuid.uuid4().hex}"
        Admin(Log.create(chain)).create_topic("t", config={"file.delete.delay.ms": 0})
        send(chain, b"one")
        send(chain, b"two")
        if back:
            move(chain, place)
        to = "" if back else place
        store = CrashStore(chain, at=at, trouble=trouble)
        with suppress(Crashed, EosLogError):
            move(store, to)
        met = len(store.operations) > at
        assert received(Log.open(chain)) == [b"one", b"two"]
        send(chain, b"three")
        assert received(Log.open(chain)) == [b"one", b"two", b"three"]
        assert verify(chain, print).is_sound
        move(chain, to)
        log = Log.open(chain)
        assert received(log) == [b"one", b"two", b"three"]
        assert log.state.data_before is None
        assert verify(chain, print).is_sound
        old = open_store(place) if back else chain
        assert [info.name for info in old.list("data/")] == []
        if not met:
            assert at > 10
            return


def mover(url, to):
    DataMover(Log.open(url), to, min_age_s=0).run()


def writer(url, name, stop, answered):
    """Transactions of one record; what was answered."""
    with Producer(url, {"transactional.id": name}) as producer:
        producer.init_transactions()
        number = 0
        while not stop.is_set():
            producer.begin_transaction()
            producer.send("t", f"{name}.{number}".encode(), partition=0)
            producer.commit_transaction()
            answered.value = number = number + 1


@pytest.mark.deep
def test_movers_are_killed_beside_writers_and_a_reader(tmp_path):
    """Killed at random, begun again, to three places one after the other."""
    url = str(tmp_path / "log")
    Admin(url).create_topic("t", config={"file.delete.delay.ms": 0})
    chance = random.Random(3)
    stop = PROCESSES.Event()
    answered = [PROCESSES.Value("q", 0) for _ in range(2)]
    writers = [
        PROCESSES.Process(target=writer, args=(url, f"w{at}", stop, one)) for at, one in enumerate(answered)
    ]
    for one in writers:
        one.start()
    reader = Consumer(url, {"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    reader.assign([TopicPartition("t", 0)])
    found = []
    try:
        for to in (tmp_path / "a", tmp_path / "b", ""):
            before = [one.value for one in answered]
            wanted = time.monotonic() + 300
            while any(now.value < then + 20 for now, then in zip(answered, before, strict=True)):
                assert time.monotonic() < wanted, "the writers make no progress"
                assert all(one.is_alive() for one in writers)
                time.sleep(0.02)
            for attempt in count():
                process = PROCESSES.Process(target=mover, args=(url, str(to)))
                process.start()
                process.join(None if attempt == 3 else chance.uniform(0.05, 0.6))
                found += reader.poll(0, max_records=10_000)
                if process.exitcode == 0:
                    break
                assert process.exitcode is None, "the mover failed"
                process.kill()
                process.join()
        stop.set()
        for one in writers:
            one.join(300)
            assert one.exitcode == 0
    finally:
        for one in writers:
            one.kill()
    while more := reader.poll(0, max_records=10_000):
        found += more
    expected = {f"w{at}.{number}" for at, one in enumerate(answered) for number in range(one.value)}
    values = [record.value.decode() for record in found]
    assert len(values) == len({*values})
    assert expected <= {*values}
    assert verify(url, print).is_sound
    assert Log.open(url, settings=Settings({})).state.data_before is None
    assert not list((tmp_path / "a").rglob("*.arrow"))
