"""A staged file that meets an object of its own name: its own, or that of another process."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.errors import ObjectExistsError, StoreUnavailableError
from spark_eos.log.data.planner import plan
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store):
    log = Log.create(store)
    log.ensure_topic("t", 2)
    return log


def stage(log, *values):
    with log.stage(log.topic("t")) as writer:
        for partition in range(2):
            writer.append(pa.table({"value": [value + b"%d" % partition for value in values]}), partition)
        return writer.finish()


def test_an_upload_that_meets_itself_has_succeeded(log, store):
    store.inject(Fault.DUPLICATE, "upload")
    files = stage(log, b"x", b"y")
    assert store.journal[-1].operation == "read", "it was looked at"
    topic = log.topic("t")
    log.commit(lambda _: (AppendBatches(NO_PRODUCER, (("t", topic.topic_id),), files),))
    (fetch,) = plan(log.state, TopicPartition("t", 1), 0, 2, Isolation.READ_COMMITTED)
    assert log.read(topic, fetch).column("value").to_pylist() == [b"x1", b"y1"]


@pytest.mark.parametrize("damage", ["shorter", "other"])
def test_an_object_of_somebody_else_is_not_taken_for_ours(log, store, damage):
    def take(operation, name):
        if operation == "upload":
            body = bytearray(store.inner.read(other[0].file.name))
            if damage == "shorter":
                del body[-1:]
            else:
                body[other[0].batches[1].position + 8] ^= 1
            store.inner.create(name, body)

    other = stage(log, b"x", b"y")
    store.before = take
    with pytest.raises(ObjectExistsError):
        stage(log, b"x", b"y")


def test_a_free_name_that_was_refused_is_no_file(log, store):
    store.inject(ObjectExistsError("conflict"), "upload")
    with pytest.raises(StoreUnavailableError, match="write it again"):
        stage(log, b"x")
    assert stage(log, b"x")
