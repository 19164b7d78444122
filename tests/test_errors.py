"""Every error: raised by what users call, in its group, with flags that say what to do next; and doing it helps.

A scenario is a generator. The first call that it yields raises the error; the calls after it are what the
error asks for, and work.
"""

from __future__ import annotations

import inspect
import threading
from functools import partial

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition, errors
from spark_eos.extensions.tables.target import DataFile, FileChange, Stamp
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.protocol.actions import (
    CommitMicroBatch,
    EndTransaction,
    InitProducer,
    PartitionOffset,
    RaiseStagingFloor,
    ReplaceSegments,
    SourceProgress,
)
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.storage import open_store
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.conformance.helpers import ENTRIES, append, run, transactional, values
from tests.extensions.value_formats.registry_server import RegistryServer
from tests.log.fakes import FakeClock
from verification.publishing.memory_table import MemoryTable
from verification.retiring import RETIRED_AT_ONCE

T0 = TopicPartition("t", 0)

REPEAT, ABORT, CLOSE, OTHER = (
    (True, False, False),
    (False, False, True),
    (False, True, False),
    (False, False, False),
)
"""retriable, fatal, txn_requires_abort: repeat the call; abort; close the client; neither, see the message."""

GROUPS = {
    errors.RetriableError: REPEAT,
    errors.AbortableError: ABORT,
    errors.FatalError: CLOSE,
    errors.CheckpointMismatchError: CLOSE,
    errors.InvalidRequestError: OTHER,
    errors.StorageError: OTHER,
}
"""The branches of the tree, and what to do with every error of one."""

NOT_RAISED = {
    errors.EosLogError,  # the root
    errors.RetriableError,
    errors.FatalError,
    errors.CommitFailedError,  # what its three kinds have in common
}
"""Nothing raises these themselves."""


class Env:
    """A log with a topic ``t`` on a store that fails on demand, and time that passes only when told to."""

    def __init__(self, folder):
        self.folder = folder
        self.clock = FakeClock()
        self.store = FaultyStore(MemoryStore())
        self.log = Log.create(self.store, clock=self.clock, retry=Retry(deadline_s=0))
        self.topic = self.log.ensure_topic("t")
        self.admin = Admin(self.log)

    def producer(self, **settings):
        return transactional(self.log, **settings)

    def begun(self, **settings):
        """A producer whose transaction is open for all to see."""
        producer = self.producer(**settings)
        producer.begin_transaction()
        producer.send("t", "x")
        producer.flush()
        return producer

    def reader(self, **settings):
        """A consumer of a group; it reads when told what."""
        config = {name.replace("_", "."): value for name, value in settings.items()}
        base = {"group.id": "g", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        return Consumer(self.log, {**base, **config})

    def member(self, **settings):
        """One that subscribed to t, and is a member now."""
        reader = self.reader(**settings)
        reader.subscribe(["t"])
        reader.poll()
        return reader

    def do(self, *actions):
        return self.log.commit(lambda _state: actions)

    def at(self, offset):
        return PartitionOffset("t", self.topic.topic_id, 0, offset)


@pytest.fixture
def env(tmp_path):
    return Env(tmp_path)


# -- Retry ------------------------------------------------------------------------------------------------


def store_unavailable(env):
    producer = env.begun()
    env.store.inject(Fault.FAIL_BEFORE, "create", times=1)
    yield producer.commit_transaction
    yield producer.commit_transaction
    assert values(env.log) == [b"x"]


def schema_registry(env):
    with RegistryServer() as registry:
        registry.down = 503
        schema = {
            "value.format": "avro-confluent",
            "value.schema": '"long"',
            "schema.registry.url": registry.url,
        }
        yield lambda: env.admin.create_topic("u", config=schema)
        registry.down = 0
        yield lambda: env.admin.create_topic("u", config=schema)


def outcome_unknown(env):
    env.store.inject(Fault.FAIL_AFTER, "create")
    create = partial(env.store.create, "name", b"body")
    yield create
    with pytest.raises(errors.ObjectExistsError):  # the body tells whose it is
        create()
    assert env.store.read("name").to_pybytes() == b"body"


def commit_outcome_unknown(env):
    producer = env.begun()
    env.store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    yield producer.commit_transaction
    yield producer.commit_transaction
    assert values(env.log) == [b"x"]


def unstable_offset_commit(env):
    producer = env.begun()
    producer.send_offsets_to_transaction({T0: 1}, "g")
    producer.flush()
    reader = env.reader(isolation_level="read_committed", default_api_timeout_ms=0)
    yield lambda: reader.committed([T0])
    producer.commit_transaction()
    yield lambda: reader.committed([T0])


def segments_replaced(env):
    """Two maintainers plan the same; the second one plans again."""
    while not env.log.follow().partitions[env.topic.topic_id, 0].index.pages:
        append(env.log, NO_PRODUCER, b"x")
    pages = env.log.state.partitions[env.topic.topic_id, 0].index.pages
    ours = ReplaceSegments(
        "t",
        env.topic.topic_id,
        0,
        0,
        pages[-1].next_offset,
        checksum(pages),
        (IndexRow(0, pages[-1].next_offset, Kind.HOLE, NO_PRODUCER, 0),),
    )
    env.do(ours)
    yield partial(env.do, ours)
    newer = env.log.state.partitions[env.topic.topic_id, 0].index.pages
    yield partial(env.do, ours._replace(replaced=checksum(newer)))


# -- Abort the transaction --------------------------------------------------------------------------------


def abortable(env):
    producer = env.producer(max_request_size=10)
    producer.begin_transaction()
    producer.send("t", "x" * 11)
    yield producer.commit_transaction
    yield producer.abort_transaction
    yield partial(run, producer, "y")


def out_of_order_sequence(env):
    stamp = env.do(InitProducer(0, 0, "app", 1000)).results[0]._replace(number=0)
    append(env.log, stamp, b"x")
    yield partial(append, env.log, stamp, b"y", sequence=7)
    yield partial(env.do, EndTransaction(stamp, commit=False))
    yield partial(append, env.log, stamp._replace(number=1), b"y", sequence=1)


def record_too_large(env):
    producer = env.producer(max_request_size=10)
    producer.begin_transaction()
    future = producer.send("t", "x" * 11)
    yield future.result
    yield producer.abort_transaction
    yield partial(run, producer, "y")


def invalid_timestamp(env):
    producer = env.producer()
    producer.begin_transaction()
    yield partial(producer.send, "t", "x", timestamp_ms=env.clock.now_ms() + 3_700_000)
    yield partial(producer.send, "t", "x", timestamp_ms=env.clock.now_ms() + 3_500_000)
    producer.commit_transaction()
    assert values(env.log) == [b"x"]


def staged_file_expired(env):
    producer = env.producer()
    producer.begin_transaction()
    for _ in range(2):
        producer.send("t", "x" * 600_000)  # more than a chunk in all: its file has been begun
    env.log.ensure_topic("u")
    env.do(RaiseStagingFloor(env.log.state.seq + 1))
    yield producer.commit_transaction
    yield producer.abort_transaction
    yield partial(run, producer, "y")


def unknown_member_id(env):
    reader = env.member()
    env.admin.remove_members_from_group("g")
    yield lambda: reader.commit({T0: 0})
    yield reader.poll
    yield lambda: reader.commit({T0: 0})
    reader.close()


def illegal_generation(env):
    reader = env.member()
    stale = reader.group_metadata()
    reader.subscribe(["t", "u"])  # a new generation, which it joins at once
    reader.poll()
    producer = env.producer()
    producer.begin_transaction()

    def commit(metadata):
        producer.send_offsets_to_transaction({T0: 0}, metadata)
        producer.commit_transaction()

    yield partial(commit, stale)
    yield producer.abort_transaction
    producer.begin_transaction()
    yield partial(commit, reader.group_metadata())
    reader.close()


def fenced_instance_id(env):
    first = env.member(group_instance_id="one")
    second = env.member(group_instance_id="one")
    yield lambda: first.commit({T0: 0})
    yield first.close
    yield lambda: second.commit({T0: 0})
    second.close()


# -- Close the client -------------------------------------------------------------------------------------


def producer_fenced(env):
    old = env.begun()
    new = env.producer()
    yield old.commit_transaction
    yield old.close
    yield partial(run, new, "y")


def diverged_log(env):
    consumer = env.reader()
    consumer.assign([T0])
    run(env.producer(), "x")
    assert len(consumer.poll(0)) == 1
    last = paths.entry(env.log.follow().seq, env.log.state.entries_per_folder)
    env.store.inner.delete(last)
    yield lambda: consumer.poll(0)
    yield consumer.close
    yield lambda: Log.open(env.store)


def commit_outcome_lost(env):
    """A successor has gone on, and the entry that may hold the commit is retired."""
    store = FaultyStore(MemoryStore())
    log = Log.create(
        store, clock=env.clock, retry=Retry(deadline_s=0), snapshot_interval=4, config=RETIRED_AT_ONCE
    )
    producer = Producer(log, {"transactional.id": "app"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", "x")
    store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    with pytest.raises(errors.CommitOutcomeUnknownError):
        producer.commit_transaction()
    heirs = Log.open(store.inner)
    heirs.does_maintenance = False
    heir = Producer(heirs, {"transactional.id": "app"})
    heir.init_transactions()
    for _ in range(40):
        run(heir, "y")
    heirs.maintenance.snapshot()
    heirs.maintenance.retire(heirs.follow(), 1000)
    yield producer.commit_transaction
    yield producer.close
    yield partial(run, heir, "z")


def invalid_txn_state(env):
    producer = env.begun()
    stamp = env.log.state.producer_of("app").stamp
    producer.abort_transaction()
    yield partial(env.do, EndTransaction(stamp, commit=True))
    yield partial(run, env.producer(), "y")


def invalid_pid_mapping(env):
    producer = env.producer()
    env.clock.now += 7 * 86_400
    env.log.expire_overdue(everything=True)
    yield partial(run, producer, "x")
    yield producer.close
    yield partial(run, env.producer(), "y")


def invalid_transaction_timeout(env):
    yield partial(env.do, InitProducer(0, 0, "app", 900_001))
    yield partial(env.do, InitProducer(0, 0, "app", 900_000))


# -- Mend the call ----------------------------------------------------------------------------------------


def invalid_request(env):
    yield partial(env.admin.create_topic, "not a name")
    yield partial(env.admin.create_topic, "a-name")


def config(env):
    yield partial(Producer, env.log, {"transactional.di": "app"})
    yield partial(Producer, env.log, {"transactional.id": "app"})


def illegal_state(env):
    producer = env.producer()
    yield producer.commit_transaction
    yield producer.begin_transaction
    yield producer.commit_transaction


def unknown_topic_or_partition(env):
    yield partial(env.admin.describe_topic, "u")
    env.admin.create_topic("u")
    yield partial(env.admin.describe_topic, "u")


def topic_exists(env):
    yield partial(env.admin.create_topic, "t")
    yield partial(env.admin.create_topic, "u")


def invalid_record(env):
    producer = Producer(env.log)
    yield partial(producer.send, "t", 5)
    yield partial(producer.send, "t", b"5")
    producer.close()


def schema_mismatch(env):
    env.admin.create_topic("u", schema=pa.schema([("id", pa.int64())]))
    producer = Producer(env.log)
    yield partial(producer.send_arrow, "u", pa.table({"id": ["text"], "more": [1]}))
    yield partial(producer.send_arrow, "u", pa.table({"id": [1]}))
    producer.close()


def inconsistent_group_protocol(env):
    first = env.member(partition_assignment_strategy="range")
    other = env.reader(partition_assignment_strategy="roundrobin")
    other.subscribe(["t"])
    yield other.poll
    other.close()
    second = env.reader(partition_assignment_strategy="roundrobin,range")
    second.subscribe(["t"])
    yield second.poll
    for reader in (first, second):
        reader.close()


def group_id_not_found(env):
    yield partial(env.admin.delete_group, "nobody")
    env.admin.alter_group_offsets("somebody", {T0: 0})
    yield partial(env.admin.delete_group, "somebody")


def group_not_empty(env):
    reader = env.member()
    reader.commit({T0: 0})
    yield partial(env.admin.delete_group, "g")
    reader.close()
    yield partial(env.admin.delete_group, "g")


def offset_out_of_range(env):
    run(env.producer(), "x")
    reader = env.reader(auto_offset_reset="none")
    reader.assign([T0])
    reader.seek(T0, 99)
    yield reader.poll
    reader.seek(T0, 0)
    yield reader.poll


def kafka_timeout(env):
    producer = Producer(env.log, linger_ms=0)
    producer.send("t", "x").result(60)
    gate = threading.Event()
    env.store.before = lambda *_: gate.wait(60)
    future = producer.send("t", "y")
    yield partial(producer.flush, timeout=0.01)
    gate.set()
    yield partial(producer.flush, timeout=60)
    assert future.done()
    producer.close()


def wakeup(env):
    reader = env.reader()
    reader.assign([T0])
    reader.wakeup()
    yield reader.poll
    yield reader.poll


def until_woken(reader):
    with pytest.raises(errors.WakeupError):
        reader.poll(60_000)


def concurrent_modification(env):
    reader, called = env.reader(), threading.Event()
    reader.assign([T0])
    env.clock.sleep = lambda _: called.set()  # Time stands still: the poll goes on until it is woken.
    other = threading.Thread(target=until_woken, args=(reader,), daemon=True)
    other.start()
    assert called.wait(60)
    yield reader.poll
    reader.wakeup()
    other.join()
    yield reader.poll


def serialization(env):
    producer = Producer(env.log, value_serializer=str.encode)
    yield partial(producer.send, "t", 7)
    yield partial(producer.send, "t", "x")
    producer.close()
    assert values(env.log) == [b"x"]


def record_deserialization(env):
    run(env.producer(), "seven", "8")
    reader = env.reader(value_deserializer=int)
    reader.assign([T0])
    yield reader.poll
    yield lambda: reader.seek(T0, 1)
    assert [record.value for record in reader.poll()] == [8]


def no_offset_for_partition(env):
    run(env.producer(), "x")
    reader = env.reader(auto_offset_reset="none")
    reader.assign([T0])
    yield reader.poll
    reader.seek_to_beginning(T0)
    yield reader.poll


def not_a_log(env):
    url = str(env.folder / "log")
    yield partial(Log.open, url)
    Producer(url).send("t", "x").result(60)
    yield partial(Log.open, url)


def log_exists(env):
    yield partial(Log.create, env.store)
    yield partial(Log.open, env.store)


def unsupported_version(env):
    entry = "_log/00000000000000000002.avro"
    run(env.producer(), "x")
    right = env.store.read(entry).to_pybytes()
    env.store.overwrite(entry, right[:6] + (999).to_bytes(2, "big") + right[8:])
    yield partial(Log.open, env.store)
    env.store.overwrite(entry, right)  # as a newer version would be able to read it
    yield partial(Log.open, env.store)


# -- Look at the checkpoint, look at the storage ----------------------------------------------------------


def checkpoint_mismatch(env):
    def batch(run_id, number, start, stop, query="query"):
        return CommitMicroBatch("app", query, run_id, number, (SourceProgress(start, stop),))

    env.do(InitProducer(0, 0, "app", 1000, "run"), batch("run", 0, "0", "5"))
    yield partial(env.do, batch("run", 1, "3", "9"))
    yield partial(env.do, batch("run", 1, "5", "9"))


def storage(env):
    writer = env.log.stage(env.topic)
    stamps = pa.array([1], pa.timestamp("ms", "UTC"))
    headers = pa.nulls(1, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    columns = {"key": pa.nulls(1, pa.binary()), "value": pa.array([b"x"], pa.binary())}
    writer.append(pa.record_batch({**columns, "headers": headers, "timestamp": stamps}), 0)
    files = writer.finish()
    name = files[0].file.name
    body = env.store.read(name).to_pybytes()
    env.store.delete(name)
    yield partial(env.log.check_visible, files)
    env.store.create(name, body)
    yield partial(env.log.check_visible, files)


def corrupt_record(env):
    run(env.producer(), "x")
    (info,) = env.store.list("data/")
    right = env.store.read(info.name).to_pybytes()
    at = right.rindex(b"x")
    env.store.overwrite(info.name, right[:at] + b"y" + right[at + 1 :])
    reader = env.reader()
    reader.assign([T0])
    yield reader.poll
    env.store.overwrite(info.name, right)
    yield reader.poll


def object_exists(env):
    env.store.create("name", b"body")
    yield partial(env.store.create, "name", b"other")
    yield partial(env.store.create, "another name", b"other")


def object_not_found(env):
    yield partial(env.store.read, "name")
    env.store.create("name", b"body")
    yield partial(env.store.read, "name")


def store_permission(env):
    env.store.inject(errors.StorePermissionError("read-only"), "create", ENTRIES)
    yield partial(env.admin.create_topic, "u")
    yield partial(env.admin.create_topic, "u")


def store_full(env):
    producer = Producer(env.log)
    env.store.inject(errors.StoreFullError("no space left"), "upload")

    yield lambda: producer.send("t", "x").result(60)
    yield lambda: producer.send("t", "x").result(60)
    producer.close()


def records_failed(env):
    producer = Producer(env.log)
    env.store.inject(errors.StoreFullError("no space left"), "upload")
    producer.send("t", "x")
    yield producer.flush
    producer.send("t", "x")
    yield producer.flush
    producer.close()


def unsupported_store(env):
    yield partial(open_store, "gopher://host/log")
    yield partial(open_store, str(env.folder))


STAMP = Stamp("log", "p", 1, 7, 0, "t", "id", {0: (0, 1)})
CHANGE = FileChange(pa.schema([("a", pa.int64())]), (DataFile("f", 9, 1),))


def table_changed(_env):
    table = MemoryTable()
    seen = table.current()
    table.commit(seen, CHANGE, STAMP, id)
    yield lambda: table.commit(seen, CHANGE, STAMP, id)
    yield lambda: table.commit(table.current(), CHANGE._replace(replaces_all=True), STAMP, id)


def table_damaged(_env):
    table = MemoryTable(is_damaged=True)
    yield table.current
    table.drop()
    yield lambda: table.commit(table.current(), CHANGE, STAMP, id)


SCENARIOS = {
    getattr(errors, "".join(map(str.capitalize, scenario.__name__.split("_"))) + "Error"): scenario
    for scenario in (
        *(store_unavailable, outcome_unknown, commit_outcome_unknown, unstable_offset_commit),
        *(segments_replaced, kafka_timeout, wakeup, schema_registry),
        *(abortable, out_of_order_sequence, record_too_large, staged_file_expired),
        *(unknown_member_id, illegal_generation, fenced_instance_id),
        *(
            producer_fenced,
            commit_outcome_lost,
            diverged_log,
            invalid_txn_state,
            invalid_pid_mapping,
            invalid_transaction_timeout,
        ),
        concurrent_modification,
        *(invalid_request, config, illegal_state, unknown_topic_or_partition, topic_exists, invalid_record),
        *(invalid_timestamp, serialization, record_deserialization),
        *(schema_mismatch, inconsistent_group_protocol, group_id_not_found, group_not_empty),
        *(offset_out_of_range, no_offset_for_partition, log_exists, unsupported_version, checkpoint_mismatch),
        *(storage, corrupt_record, object_exists, object_not_found, store_permission, store_full),
        *(records_failed, unsupported_store, table_changed, table_damaged),
    )
} | {errors.NotALogError: not_a_log}


@pytest.mark.parametrize("error", SCENARIOS, ids=lambda error: error.__name__)
def test_an_error_and_what_to_do_next(env, error):
    steps = SCENARIOS[error](env)
    call = next(steps)
    with pytest.raises(error) as raised:
        call()
    assert type(raised.value) is error
    assert str(raised.value) == raised.value.args[0], "without the quotes of a KeyError"
    assert len(str(raised.value)) > 8
    mended = 0
    for step in steps:
        step()
        mended += 1
    assert mended or error is errors.OutcomeUnknownError


def test_every_error_has_a_scenario():
    known = {error for _, error in inspect.getmembers(errors, inspect.isclass)}
    assert known == SCENARIOS.keys() | NOT_RAISED
    assert not SCENARIOS.keys() & NOT_RAISED


def test_flags_are_those_of_the_group():
    for error in SCENARIOS.keys() | NOT_RAISED - {errors.EosLogError}:
        (group,) = (group for group in GROUPS if issubclass(error, group))
        assert (error.retriable, error.fatal, error.txn_requires_abort) == GROUPS[group], error
