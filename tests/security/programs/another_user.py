"""Becomes another user, and does the steps that are named: `LOG UID GROUPS UMASK STEP ...`.

A step is a function of this module, with its numbers: "write:12".
"""

import os
import sys

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.clients.arrow_reader import read_arrow
from spark_eos.errors import StorePermissionError
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.storage import MemoryStore
from tests.security.roles import EARLIEST, TOPIC, maintain, transact, values
from verification.retiring import RETIRED_AT_ONCE

url, uid, groups, umask, *steps = sys.argv[1:]


def warm_up():
    """What is imported late is imported now: other users cannot read this one's Python."""
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t", 2, config=TOPIC)
    for _ in range(4):
        with Producer(log) as producer:
            producer.send("t", b"1", partition=0)
    list(Maintainer(log, min_age_s=0, tail_rows=2).run())
    values(log, {})
    read_arrow(log, "t").read_all()


def refused(what):
    try:
        what()
    except Exception as error:  # noqa: BLE001
        assert "StorePermissionError" in repr(error), repr(error)
        assert url in str(error), error
        assert "Give this process's user" in str(error), error
    else:
        raise AssertionError("it was not refused")


def produce():
    with Producer(url) as producer:
        producer.send("t", b"no", partition=0).result()


def make():
    log = Log.create(url, snapshot_interval=5, config=RETIRED_AT_ONCE)
    Admin(url).create_topic("t", 2, config=TOPIC)
    transact(url, {}, 12)
    log.follow()
    log.maintenance.snapshot()
    log.maintenance.retire(log.state, 3)


def make_an_open_topic():
    Admin(url).create_topic("open", 1)
    with Producer(url) as producer:
        producer.send("open", b"1")


def read():
    assert len(values(url, {})) == 12
    assert read_arrow(Log.open(url), "t").read_all().num_rows == 12
    assert Admin(url).list_topics() == ["t"]


def is_refused_to_write():
    refused(produce)
    refused(lambda: Admin(url).create_topic("u", 1))
    refused(lambda: Admin(url).delete_records({TopicPartition("t", 0): 1}))
    refused(lambda: Log.open(url).store.delete("_log/00000000000000000001.avro"))
    for step in ("roll", "vacuum"):
        (done,) = maintain(url, {}, step)
        assert isinstance(done.error, StorePermissionError), done


def is_refused_all():
    refused(lambda: Log.open(url))
    refused(produce)


def is_refused_the_rows_of_one_topic():
    assert values(url, {}, "open", 1) == [b"1"]
    assert Admin(url).describe_topic("t").partitions[0].end > 0
    refused(lambda: values(url, {}))


def write(before):
    """Twelve records more than there are, a group that has read all, and maintenance."""
    own = {"auto.maintenance.enable": False}  # All of it is left to `maintain`.
    after = before + 12
    transact(url, own, 12, first=before)
    with Consumer(url, {**own, **EARLIEST, "group.id": f"g{uid}"}) as consumer:
        consumer.subscribe(["t"])
        found = 0
        while found < after:
            found += len(consumer.poll(timeout_ms=1000))
        consumer.commit()
    done = list(maintain(url, {}))
    assert not [one for one in done if one.error], done
    assert all(word in str(done) for word in ("rewrote", "retired", "deleted")), done
    assert len(values(url, {})) == after


warm_up()
os.setgroups([int(one) for one in groups.split(",") if one])
os.setgid(int(uid))
os.setuid(int(uid))
os.umask(int(umask, 8))
for step in steps:
    name, *numbers = step.split(":")
    globals()[name](*map(int, numbers))
