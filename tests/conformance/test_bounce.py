"""Kafka's TransactionsBounceTest: a copy that goes on while the storage goes away all the time.

Kafka restarts its brokers one after the other; here the store refuses, loses requests and replies, answers
late, and is away for a while, at random and at every kind of call. The copying program does what the flags of
an error tell it to, as the README says, and nothing more.
"""

from __future__ import annotations

import random

import pytest

from spark_eos import Admin, Consumer, Producer
from spark_eos.errors import EosLogError, OutcomeUnknownError, StoreUnavailableError
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore
from tests.conformance.helpers import numbered, partitions, records
from tests.log.fakes import FakeClock

RECORDS, PARTITIONS, AT_MOST = 10_000, 3, 200


class Bouncer:
    """Spoils every third write and many reads, and takes the store away now and then for up to 40 calls."""

    def __init__(self, store, seed):
        self.store = store
        self.rng = random.Random(seed)
        self.away = 0
        self.spoiled = {}
        store.before, store.after = self.before, self.after

    def before(self, operation, name):
        if self.away:
            self.away -= 1
            self._fail("away", StoreUnavailableError, operation, name)
        chance = self.rng.random()
        if chance < 0.02:
            self.away = self.rng.randint(1, 40)
        if chance < 0.06:
            self._fail("refused", StoreUnavailableError, operation, name)
        if chance < 0.20 and operation in {"create", "upload"}:
            self._fail("request lost", OutcomeUnknownError, operation, name)

    def after(self, operation, name):
        if self.rng.random() < 0.15 and operation in {"create", "upload"}:
            self._fail("reply lost", OutcomeUnknownError, operation, name)

    def stop(self):
        self.store.before = self.store.after = lambda _operation, _name: None

    def _fail(self, what, error, operation, name):
        kind = what, operation
        self.spoiled[kind] = self.spoiled.get(kind, 0) + 1
        raise error(f"{what}: {operation} {name}")


def insist(call, *arguments):
    """The same call again for as long as it is the one to repeat."""
    while True:
        try:
            return call(*arguments)
        except EosLogError as error:
            if not error.retriable:
                raise


def rewind(reader):
    for at, known in insist(reader.committed, reader.assignment()).items():
        if known is None:
            insist(reader.seek_to_beginning, at)
        else:
            reader.seek(at, known.offset)


def copy(producer, reader, offsets_to):
    """Copy all records in transactions, every third of which is aborted. The number of transactions."""
    insist(producer.init_transactions)
    copied = iteration = 0
    while copied < RECORDS:
        assert iteration < 10 * RECORDS / AT_MOST, "no progress"
        found = insist(reader.poll, 0, min(AT_MOST, RECORDS - copied))
        if not found:
            continue
        producer.begin_transaction()
        try:
            for record in found:
                producer.send("out", record.value, key=record.key)
            if iteration % 4 == 0:
                insist(producer.flush)
            positions = {at: insist(reader.position, at) for at in reader.assignment()}
            insist(producer.send_offsets_to_transaction, positions, offsets_to())
            if iteration % 3 == 0:
                insist(producer.abort_transaction)
                rewind(reader)
            else:
                insist(producer.commit_transaction)
                copied += len(found)
        except EosLogError as error:
            if not error.txn_requires_abort:
                raise
            insist(producer.abort_transaction)
            rewind(reader)
        iteration += 1
    return iteration


@pytest.mark.parametrize(
    "with_metadata",
    [
        pytest.param(False, marks=pytest.mark.conformance("TransactionsBounceTest.testWithGroupId")),
        pytest.param(True, marks=pytest.mark.conformance("TransactionsBounceTest.testWithGroupMetadata")),
    ],
)
def test_copying_while_the_storage_bounces(with_metadata):
    clock, store = FakeClock(), FaultyStore(MemoryStore())
    patience = Retry(deadline_s=0.3)
    log = Log.create(store, clock=clock, retry=patience)
    for topic in ("in", "out"):
        Admin(log).create_topic(topic, PARTITIONS)
    with Producer(log) as seed:
        for value in numbered(0, RECORDS):
            seed.send("in", value, key=value)

    theirs = Log.open(store, clock=clock, retry=patience)
    config = {"group.id": "copy", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    reader = Consumer(theirs, config)
    producer = Producer(log, {"transactional.id": "copier", "transaction.timeout.ms": 900_000})
    if with_metadata:
        reader.subscribe(["in"])
        offsets_to = reader.group_metadata
    else:
        reader.assign(partitions(log, "in"))

        def offsets_to():
            return "copy"

    bouncer = Bouncer(store, seed=4)
    transactions = copy(producer, reader, offsets_to)
    bouncer.stop()
    reader.close()
    producer.close()

    assert transactions > RECORDS / AT_MOST * 1.5
    assert {what for what, _ in bouncer.spoiled} == {"away", "refused", "request lost", "reply lost"}
    assert {operation for _, operation in bouncer.spoiled} >= {"create", "upload", "read"}
    found = records(log, "out")
    by_partition = {number: [r.value for r in found if r.partition == number] for number in range(PARTITIONS)}
    for values in by_partition.values():
        assert len(values) > RECORDS / PARTITIONS / 2
        assert values == sorted(values, key=int)
    assert sorted((r.value for r in found), key=int) == numbered(0, RECORDS)
