"""A coordinator over two logs is killed by SIGKILL after each of its operations; plain readers see both or neither."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import warnings

import pytest

from spark_eos import Admin, MultiLogProducer, Producer, read_arrow
from spark_eos.clients.opening import store_settings
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.storage import open_store
from spark_eos.testing import check_log
from spark_eos.testing.wrapped_store import WrappedStore
from tests.crashpoints.app import Clock
from tests.forking import forks_allowed

NAMES = ("orders", "payments")
_CHANGES = {"create", "upload", "overwrite", "delete", "retire"}


class Counting(WrappedStore):
    """Kills its process after so many operations that change anything, in all stores of the process."""

    left = itertools.count()
    dies_after = -1

    def _call(self, operation, name, effect):
        done = effect()
        if operation in _CHANGES and next(Counting.left) == Counting.dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


def coordinate(urls):
    """Two transactions, of which one was flushed."""
    logs = [Log.open(Counting(open_store(url))) for url in urls]
    producers = [
        Producer(log, {"transactional.id": "shop", "transaction.timeout.ms": 60_000}) for log in logs
    ]
    with MultiLogProducer(*producers) as group:
        group.init_transactions()
        for value in ("a", "b"):
            group.begin_transaction()
            for producer, name in zip(producers, NAMES, strict=True):
                producer.send(name, value)
                if value != "a":
                    producer.flush()
            group.commit_transaction()


def killed(urls, after):
    """Run it in a process of its own; whether it was killed."""
    with forks_allowed():
        pid = os.fork()
    if not pid:
        try:
            warnings.simplefilter("ignore", DeprecationWarning)
            Counting.dies_after = after
            coordinate(urls)
        except BaseException:  # noqa: BLE001
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in {0, -signal.SIGKILL}
    return code != 0


def seen(url, name, later_s=0):
    """What a reader of one log sees, after the timeout of what is open."""
    log = Log.open(url, Clock(1), Retry(deadline_s=0))
    for _ in range(2):
        table = read_arrow(log, name).read_all()
        log.clock.now += later_s
    return log, [value.decode() for value in table.column("value").to_pylist()]


@pytest.mark.deep("each")
@pytest.mark.parametrize("step", [1, 3], ids=["each", "each third"])
def test_it_is_killed_after_each_operation(tmp_path, step):
    found = []
    for name in NAMES:
        Admin(Log.create(tmp_path / "new" / name)).create_topic(name)
    for after in itertools.count(0, step):
        shutil.copytree(tmp_path / "new", tmp_path / "now")
        urls = [tmp_path / "now" / name for name in NAMES]
        was_killed = killed(urls, after)
        # The follower first: its reader has to find out by itself.
        payments, second = seen(urls[1], "payments", 100)
        orders, first = seen(urls[0], "orders", 100)
        assert first == second, f"torn after operation {after}: {first}, {second}"
        found.append(tuple(first))
        for log in (payments, orders):
            assert not log.follow().open_transactions
            check_log(log.store)
        if len(found) % 5 == 1:  # The next coordinator goes on.
            assert not killed(urls, -1)
            assert [seen(url, name)[1] for url, name in zip(urls, NAMES, strict=True)] == [
                [*first, "a", "b"]
            ] * 2
        if not was_killed:
            break
        (tmp_path / "now").rename(tmp_path / str(after))  # Nothing of this process knows that place.
    assert len(found) * step > 15
    assert sorted(set(found)) == [(), ("a",), ("a", "b")]
    assert found == sorted(found)


def test_logs_in_a_bucket(minio_server):
    """A reader finds the deciding log by itself, with the settings of its own store."""
    settings = minio_server.settings
    urls = [f"{minio_server.url}/several-logs/{name}" for name in NAMES]
    for url, name in zip(urls, NAMES, strict=True):
        Admin(Log.create(url, settings=store_settings(settings))).create_topic(name)
    producers = [Producer(url, {"transactional.id": "shop", **settings}) for url in urls]
    group = MultiLogProducer(*producers)
    group.init_transactions()
    group.begin_transaction()
    for producer, name in zip(producers, NAMES, strict=True):
        producer.send(name, "a")
    group._members[1].follow = die
    with pytest.raises(Died):
        group.commit_transaction()
    log = Log.open(urls[1], settings=store_settings(settings))
    assert log.state.open_transactions
    assert read_arrow(log, "payments").read_all().num_rows == 1
    assert not log.follow().open_transactions
    orders = Log.open(urls[0], settings=store_settings(settings))
    assert orders.state.producers[0].decision.waiting == ()


class Died(BaseException):
    pass


def die(*_args, **_kwargs):
    raise Died
