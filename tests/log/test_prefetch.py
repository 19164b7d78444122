"""Reading ahead: the same rows, by fewer requests, several at a time, and never more than there is room for."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.errors import CorruptRecordError, ObjectNotFoundError
from spark_eos.log.data import prefetch
from spark_eos.log.data.planner import plan
from spark_eos.log.data.prefetch import prefetch_batches
from spark_eos.log.data.records import read
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from spark_eos.storage import MemoryStore

PARTITIONS, FILES, ROWS = 4, 3, 20


class Remote(MemoryStore):
    """A store whose reads are requests, and counted."""

    requests_are_free = False

    def __init__(self):
        super().__init__()
        self.asked = []
        self.before = lambda _: None

    def read(self, name, offset=0, length=None):
        if name.startswith("data/"):
            self.asked.append((name, offset, length))
            self.before(name)
        return super().read(name, offset, length)


@pytest.fixture
def log():
    made = Log.create(Remote())
    topic = made.ensure_topic("t", PARTITIONS)
    for number in range(FILES):
        with made.stage(topic) as writer:
            values = [b"%d-%d" % (number, row) for row in range(ROWS)]
            writer.append(pa.table({"value": values}), np.arange(ROWS, dtype=np.int32) % PARTITIONS)
            files = writer.finish()
        made.commit(lambda _, files=files: (AppendBatches(NO_PRODUCER, (("t", topic.topic_id),), files),))
    return made


def planned(log):
    found = []
    for number in range(PARTITIONS):
        at = TopicPartition("t", number)
        end = log.state.partitions[log.topic("t").topic_id, number].end
        found += plan(log.state, at, 0, end, Isolation.READ_COMMITTED, log.load)
    return found


def values(log, store, fetches):
    return [read(store, log.topic("t"), fetch).column("value").to_pylist() for fetch in fetches]


def test_a_file_is_one_request(log):
    fetches = planned(log)
    assert len(fetches) == PARTITIONS * FILES
    expected = values(log, log.store, fetches)
    log.store.asked.clear()
    with prefetch_batches(log.store, fetches) as store:
        assert values(log, store, fetches) == expected
    assert len(log.store.asked) == FILES
    assert len({name for name, _, _ in log.store.asked}) == FILES


def test_parts_of_a_batch_are_read_once(log):
    whole = planned(log)[0]
    parts = [whole.take(0, 2), whole.take(2, 3)]
    log.store.asked.clear()
    with prefetch_batches(log.store, [*parts, planned(log)[1]]) as store:
        first, second = values(log, store, parts)
        assert first + second == values(log, log.store, [whole])[0]
    wanted = (whole.file.name, whole.batch.position, whole.batch.length)
    assert log.store.asked.count(wanted) == 2, "once for both parts, and once for the whole"


def test_requests_overlap(log):
    barrier = threading.Barrier(FILES)
    log.store.before = lambda _: barrier.wait(60)  # No read returns before all have begun.
    with prefetch_batches(log.store, planned(log)) as store:
        values(log, store, planned(log))


def test_where_a_read_is_a_system_call_nothing_is_read_ahead(log, monkeypatch):
    monkeypatch.setattr(Remote, "requests_are_free", True)
    with prefetch_batches(log.store, planned(log)) as store:
        assert store is log.store
    monkeypatch.setattr(Remote, "requests_are_free", False)
    with prefetch_batches(log.store, planned(log)[:1]) as store:
        assert store is log.store


@pytest.mark.parametrize(("name", "value"), [("MAX_GAP_BYTES", -1), ("MAX_COALESCED_BYTES", 1)])
def test_what_does_not_lie_together_is_asked_for_by_itself(log, monkeypatch, name, value):
    monkeypatch.setattr(prefetch, name, value)
    fetches = planned(log)
    expected = values(log, log.store, fetches)
    log.store.asked.clear()
    with prefetch_batches(log.store, fetches) as store:
        assert values(log, store, fetches) == expected
    assert len(log.store.asked) == len(fetches)


@pytest.mark.parametrize("order", [1, -1])
def test_no_more_is_held_than_there_is_room_for(log, monkeypatch, order):
    monkeypatch.setattr(prefetch, "MAX_COALESCED_BYTES", 1)
    fetches = planned(log)
    size = fetches[0].batch.length
    monkeypatch.setattr(prefetch, "MAX_BUFFERED_BYTES", 3 * size)
    expected = values(log, log.store, fetches)
    log.store.asked.clear()
    taken = 0
    with prefetch_batches(log.store, fetches) as store:
        # Also in another order than was announced: it is only slower.
        for fetch, wanted in list(zip(fetches, expected, strict=True))[::order]:
            assert values(log, store, [fetch]) == [wanted]
            taken += 1
            assert len(log.store.asked) <= taken + 4
            if order == 1:
                until(lambda: len(log.store.asked) >= min(taken + 2, len(fetches)))  # noqa: B023  (used at once)
    assert len(log.store.asked) == len(fetches)


def until(condition):
    """The bound is only there to end a test that has failed."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_what_is_read_once_more_than_was_said_is_read_as_ever(log):
    fetches, threads = planned(log), []
    with prefetch_batches(log.store, fetches) as store:
        values(log, store, fetches)
        log.store.before = lambda _: threads.append(threading.current_thread())
        values(log, store, fetches[:1])
        values(log, store, fetches[:1])
    assert threads == [threading.current_thread()] * 2


def test_errors_come_where_the_rows_would(log):
    fetches = planned(log)
    log.store.delete(fetches[1].file.name)
    with prefetch_batches(log.store, fetches) as store:
        values(log, store, fetches[:1])
        with pytest.raises(ObjectNotFoundError, match=fetches[1].file.name):
            values(log, store, fetches[1:2])
    name = fetches[0].file.name
    log.store.overwrite(name, log.store.read(name).slice(0, fetches[0].batch.position + 10))
    with prefetch_batches(log.store, fetches) as store, pytest.raises(CorruptRecordError, match="only 10 of"):
        values(log, store, fetches)


def test_whoever_leaves_early_waits_for_nobody(log):
    gate, waited = threading.Event(), []
    first = planned(log)[0].file.name
    log.store.before = lambda name: name == first or waited.append(gate.wait(30))
    with prefetch_batches(log.store, planned(log)) as store:
        values(log, store, planned(log)[:1])
    assert waited == []
    gate.set()


@pytest.mark.parametrize("threads", [0, 1])
def test_without_new_threads_one_is_read_after_the_other(log, threads):
    """A process that ends has none: the first is refused, or a later one."""

    class Ending(ThreadPoolExecutor):
        left = threads

        def submit(self, *call):
            if not self.left:
                raise RuntimeError("cannot schedule new futures after interpreter shutdown")
            self.left -= 1
            return super().submit(*call)

    fetches = planned(log)
    expected = values(log, log.store, fetches)
    with prefetch_batches(log.store, fetches, Ending) as store:
        assert values(log, store, fetches) == expected
