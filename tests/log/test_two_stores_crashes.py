"""A log in two stores is made, copied and restored by processes that die at each operation of either store."""

from __future__ import annotations

import uuid
from contextlib import suppress
from itertools import count

import pyarrow as pa
import pytest

from spark_eos import Admin, Log
from spark_eos.errors import EosLogError
from spark_eos.log.clock import Retry
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.verify.verify import verify
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.storage import MemoryStore, Settings, Store
from spark_eos.storage.two_stores import DATA_MARK, TwoStores
from spark_eos.testing.crash_store import Crashed, CrashStore, Trouble
from tests.log.test_two_stores import received
from tests.needing import needs

TROUBLES = [Trouble.CRASH_BEFORE, Trouble.CRASH_AFTER, Trouble.REPLY_LOST, Trouble.CONFLICT]


def two(at: int, trouble: Trouble | None) -> CrashStore:
    """Two empty stores, as a process sees them."""
    url = f"memory://two-{uuid.uuid4().hex}"
    return CrashStore(TwoStores(MemoryStore(), Settings({"data.url": url})), at=at, trouble=trouble)


def send(store: MemoryStore | CrashStore, *values: bytes) -> None:
    """In this thread: a producer has others, and a death is an error there."""
    log = Log.open(store, retry=Retry(deadline_s=0))
    topic = log.topic("t")
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": [*values]}), 0)
        append = AppendBatches(NO_PRODUCER, (("t", topic.topic_id),), writer.finish())
    log.commit(lambda _: (append,))


def is_marked(store: CrashStore) -> bool:
    return any(info.name == DATA_MARK for info in bound(store).list("_"))


def bound(store: CrashStore) -> Store:
    """Both stores, as a process sees them that has read the log."""
    return store.inner.with_data(store.settings["data.url"])


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.value)
def test_a_log_is_made(trouble: Trouble) -> None:
    """The next process makes it, or goes on with it; no row is written before the place is marked."""
    for at in count():
        store = two(at, trouble)
        with suppress(Crashed, EosLogError):
            log = Log.open_or_create(store, retry=Retry(deadline_s=0))
            Admin(log).create_topic("t")
            send(store, b"first")
        met = len(store.operations) > at
        store = store.restarted()
        files = [info.name for info in bound(store).list("data/")]
        assert not files or is_marked(store)
        log = Log.open_or_create(store, retry=Retry(deadline_s=0))
        assert log.state.data_url == store.settings["data.url"]
        if "t" not in log.state.topics:
            Admin(log).create_topic("t")
        send(store, b"last")
        assert is_marked(store)
        assert received(Log.open(store)) in ([b"last"], [b"first", b"last"])
        assert verify(store, print).is_sound
        if not met:
            assert at > 10
            return


@pytest.fixture(params=["copy", pytest.param("restore", marks=needs("backup"))])
def make(request):
    """Makes a copy of a log in two stores at another place; the log, and how to read it."""
    source = TwoStores(MemoryStore(), Settings({"data.url": f"memory://source-{uuid.uuid4().hex}"}))
    Admin(Log.create(source)).create_topic("t")
    send(source, b"one", b"two")
    if request.param == "copy":
        return lambda target: copy_log(source, target, print)
    from spark_eos.extensions.backup.backing_up import backup_log
    from spark_eos.extensions.backup.restoring import restore_log

    repository = MemoryStore()
    backup_log(source, repository)
    return lambda target: restore_log(repository, target)


@pytest.mark.deep
@pytest.mark.parametrize("trouble", TROUBLES[:2], ids=lambda one: one.value)
def test_a_copy_is_made(trouble: Trouble, make) -> None:
    """Until it is whole it is no log, and then it never names the original's place."""
    for at in count():
        store = two(at, trouble)
        with suppress(Crashed, EosLogError):
            make(store)
        met = len(store.operations) > at
        store = store.restarted()
        with suppress(EosLogError):
            assert Log.open(store.inner).state.data_url == store.settings["data.url"]
        with suppress(EosLogError):  # It may have been finished.
            make(store)
        assert received(Log.open(store)) == [b"one", b"two"]
        send(store, b"three")
        assert received(Log.open(store)) == [b"one", b"two", b"three"]
        chain = {info.name.partition("/")[0] for info in store.inner.with_data("").list("")}
        assert not chain & {"data", "tables"}
        if not met:
            assert at > 10
            return
