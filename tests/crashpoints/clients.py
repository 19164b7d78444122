"""Everything that clients write, as jobs that can be run again at any time."""

from __future__ import annotations

import pyarrow as pa

from spark_eos import Admin, Producer
from spark_eos.errors import (
    AbortableError,
    CommitFailedError,
    CommitOutcomeUnknownError,
    EosLogError,
    GroupIdNotFoundError,
    InvalidRequestError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from spark_eos.protocol.types import TopicPartition
from tests.crashpoints.app import Scenario

INPUT = {0: ["a", "b"], 1: ["c"]}
ENDS = {("in", number): len(values) for number, values in INPUT.items()}
PARTITIONS = [TopicPartition("in", number) for number in INPUT]


def fill(app):
    """A topic ``in`` with a few records, a topic ``out`` without."""
    admin = Admin(app.log)
    admin.create_topic("in", 2)
    admin.create_topic("out", 2)
    producer = Producer(app.log)
    for partition, values in INPUT.items():
        for value in values:
            producer.send("in", value, partition=partition)
    producer.flush()


# -- The log and its topics -------------------------------------------------------------------------


def create_log(app):
    app.store.note(("log", app.log.log_id))


def check_log_id(app):
    assert {note[1] for note in app.store.notes} == {app.log.log_id}


def topics(app):
    admin = Admin(app.log)
    there = app.patiently(admin.list_topics)
    if "t" not in there:
        app.patiently(lambda: admin.create_topic("t", 1), done=TopicExistsError)
    app.patiently(lambda: admin.alter_topic("t", partitions=3, config={"retention.ms": 5}))
    if ("deleted",) in app.store.notes:
        return
    if "u" not in there:
        app.patiently(lambda: admin.create_topic("u", 2), done=TopicExistsError)
    app.patiently(lambda: admin.delete_topic("u"), done=UnknownTopicOrPartitionError)
    app.store.note(("deleted",))


# -- Producers --------------------------------------------------------------------------------------


def hurried(app):
    return {} if app.patient else {"linger.ms": 0, "delivery.timeout.ms": 0}


def idempotent(app):
    """Two flushes, to two partitions. Who does not know looks into the log."""
    producer = Producer(app.log, hurried(app))
    for wanted in (("a", "b", "c"), ("d", "e")):
        for _ in range(20):
            there = {value for rows in app.values("t").values() for value in rows}
            missing = [value for value in wanted if value not in there]
            if not missing:
                break
            assert not {("sent", "t", value) for value in missing} & set(app.store.notes)
            futures = {
                value: app.patiently(lambda value=value: producer.send("t", value, partition=0))
                for value in missing
            }
            for value in missing:
                app.store.note(("trying", "t", value))
            producer.flush()
            for value, future in futures.items():
                try:
                    future.result(0)
                except CommitOutcomeUnknownError:
                    app.store.note(("unknown", "t", value))
                except EosLogError:
                    app.store.note(("refused", "t", value))
                else:
                    app.store.note(("sent", "t", value))
        else:
            raise AssertionError("the store is well, and records do not get in")
    producer.close()


def arrow(app):
    """Tables into several partitions of several topics, as one request."""
    producer = Producer(app.log, {"num.partitions": 2, **hurried(app)})
    table = {
        name: pa.table({"value": [f"{name}{n}" for n in range(6)], "partition": [0, 1] * 3}) for name in "tu"
    }
    for _ in range(20):
        there = {name for name in "tu" if any(app.values(name).values())}
        assert len(there) in {0, 2}, "half a request"
        if there:
            return
        futures = [app.patiently(lambda n=n: producer.send_arrow(n, table[n])) for n in "tu"]
        for name in "tu":
            tell(app, "trying", name)
        producer.flush()
        for name, future in zip("tu", futures, strict=True):
            word = "unknown"
            try:
                future.result(0)
                word = "sent"
            except CommitOutcomeUnknownError:
                pass
            except EosLogError:
                word = "refused"
            tell(app, word, name)
    raise AssertionError("the store is well, and records do not get in")


def tell(app, word, name):
    for n in range(6):
        app.store.note((word, name, f"{name}{n}"))


MORE_COLUMNS = [{}, {"key": "k"}, {"headers": [("h", b"1")]}]
"""Of the records of a transaction that spills: each needs a file of its own."""


def copier(*, flushes=0, aborts=False, spills=False):
    """Copies ``in`` to ``out`` with the offsets in the transaction; two records at a time."""

    def run(app):
        settings = {"transactional.id": "copier"}
        if spills:
            settings["buffer.memory"] = 1
        producer = Producer(app.log, settings)
        app.patiently(producer.init_transactions)
        consumer = app.consumer(enable_auto_commit=False)
        app.patiently(lambda: consumer.assign(PARTITIONS))
        refusals = 1 if aborts else 0
        for _ in range(20):
            records = app.patiently(lambda: consumer.poll(max_records=3 if spills else 2))
            if not records:
                return
            committed = transaction(
                app, producer, records, flushes=flushes, spills=spills, commits=not refusals
            )
            refusals = 0
            if not committed:
                for at, known in app.patiently(lambda: consumer.committed(PARTITIONS)).items():
                    consumer.seek(at, 0 if known is None else known.offset)
        raise AssertionError("the store is well, and the copier does not come to an end")

    return run


def transaction(app, producer, records, *, flushes, spills, commits):
    def tell(word):
        for record in records:
            app.store.note((word, "out", record.value.decode()))

    producer.begin_transaction()
    try:
        for number, record in enumerate(records):
            more = MORE_COLUMNS[number] if spills else {}
            where = {"partition": record.partition, **more}
            app.patiently(lambda record=record, where=where: producer.send("out", record.value, **where))
            if number < flushes:
                app.patiently(producer.flush)
        after = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
        app.patiently(lambda: producer.send_offsets_to_transaction(after, "g"))
        if flushes > 1:
            app.patiently(producer.flush)
        if commits:
            tell("trying")
            app.patiently(producer.commit_transaction)
            tell("sent")
            return True
    except AbortableError:
        pass
    app.patiently(producer.abort_transaction)
    tell("refused")
    return False


def leave_open(*names, timeout_ms=60_000):
    """Transactions that are open, with records and offsets."""

    def prepare(app):
        fill(app)
        for name in names:
            producer = Producer(app.log, {"transactional.id": name, "transaction.timeout.ms": timeout_ms})
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("out", f"lost of {name}", partition=0)
            producer.send_offsets_to_transaction({PARTITIONS[0]: 2}, f"group of {name}")
            producer.flush()

    return prepare


def take_over(app):
    app.patiently(Producer(app.log, {"transactional.id": "p"}).init_transactions)


# -- Prepared transactions --------------------------------------------------------------------------


def database(app):
    """What the database has committed: (value, token). Its commit is one step."""
    return [note[1:] for note in app.store.notes if note[0] == "database"]


def two_phase(app, *, refuses=()):
    """Each record of ``in`` goes to the database and to ``out``, with its offset; the database decides.

    Values in ``refuses`` are refused by the database the first time.
    """
    settings = {"transactional.id": "till", "transaction.two.phase.commit.enable": True}
    producer = Producer(app.log, settings)
    app.patiently(lambda: producer.init_transactions(keep_prepared_transaction=True))
    known = database(app)
    app.patiently(lambda: producer.complete_transaction(known[-1][1] if known else ""))
    for partition, values in INPUT.items():
        for number, value in enumerate(values):
            while value not in {row[0] for row in database(app)}:
                _write_both(app, producer, partition, number, value, refuses)
    producer.close()


def _write_both(app, producer, partition, number, value, refuses):
    producer.begin_transaction()
    try:
        app.patiently(lambda: producer.send("out", value, partition=partition))
        after = {TopicPartition("in", partition): number + 1}
        app.patiently(lambda: producer.send_offsets_to_transaction(after, "g"))
        token = app.patiently(producer.prepare_transaction)
    except AbortableError:
        app.patiently(producer.abort_transaction)
        return
    if value in refuses and ("no", value) not in app.store.notes:
        app.store.note(("no", value))
        app.patiently(lambda: producer.complete_transaction(""))
        return
    app.store.note(("database", value, str(token)))
    app.patiently(lambda: producer.complete_transaction(token))


def check_both(app):
    """The log has what the database has, each once; and nothing waits any more."""
    inside = sorted(value for rows in app.values("out").values() for value in rows)
    assert inside == sorted(row[0] for row in database(app)) == sorted([*INPUT[0], *INPUT[1]])
    tokens = [row[1] for row in database(app)]
    assert len(tokens) == len({*tokens})
    assert not app.log.follow().open_transactions


def leave_prepared(app):
    """A prepared transaction whose process is dead, and whose id was not used for hours."""
    old_things(app)
    settings = {"transactional.id": "p", "transaction.two.phase.commit.enable": True}
    producer = Producer(app.log, settings)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("out", "prepared", partition=0)
    producer.send_offsets_to_transaction({PARTITIONS[0]: 2}, "group of p")
    producer.prepare_transaction()


def check_ended(app):
    producer = app.log.follow().producer_of("p")
    assert producer.prepared[:2] == (1, False)
    assert producer.epoch >= 2


def check_prepared_is_kept(app):
    producer = app.log.follow().producer_of("p")
    assert producer.stamp == producer.stamp._replace(epoch=1, number=0)
    assert producer.prepared[:2] == (1, None)


# -- Consumers --------------------------------------------------------------------------------------


def note_read(app, records):
    for record in records:
        app.store.note(("read", record.value.decode()))


def check_read(app):
    """Everything was delivered, and offsets never say more than that."""
    seen = {note[1] for note in app.store.notes if note[0] == "read"}
    assert seen == {value for rows in INPUT.values() for value in rows}


def read_and_commit(app):
    consumer = app.consumer(enable_auto_commit=False)
    app.patiently(lambda: consumer.assign(PARTITIONS))
    while records := app.patiently(lambda: consumer.poll(max_records=1)):
        note_read(app, records)
        app.patiently(consumer.commit)
    consumer.close()


def read_with_auto_commit(app):
    """Automatic commits say nothing of their trouble, so the last ones may be missing."""
    consumer = app.consumer(enable_auto_commit=True, auto_commit_interval_ms=1000)
    app.patiently(lambda: consumer.assign(PARTITIONS))
    while records := app.patiently(lambda: consumer.poll(max_records=1)):
        note_read(app, records)
        app.clock.now += 2
    app.patiently(lambda: consumer.poll(max_records=1))
    consumer.close()


def dead_member(app):
    """A member joined, got everything, and has not been seen since."""
    fill(app)
    join(app).poll()


def join(app, **settings):
    config = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 2000, "enable_auto_commit": False}
    consumer = app.consumer(**config, **settings)
    consumer.subscribe(["in"])
    return consumer


def beat(consumer):
    consumer._rebalance.beats.step()


def members(count, **settings):
    """So many consumers of one group in this process read everything between them, and leave."""

    def run(app):
        consumers = [join(app, **settings) for _ in range(count)]
        quiet = 0
        for _ in range(60):
            found = 0
            for consumer in consumers:
                records = app.patiently(lambda consumer=consumer: consumer.poll(max_records=2))
                note_read(app, records)
                found += len(records)
                try:
                    app.patiently(consumer.commit)
                except CommitFailedError:
                    found += 1  # Its next poll goes on with what it is assigned then.
                beat(consumer)
            app.clock.now += 2
            quiet = 0 if found or len(held(consumers)) < 2 else quiet + 1
            if quiet == 2:
                break
        else:
            raise AssertionError("the store is well, and the group does not settle")
        for consumer in consumers:
            consumer.close()

    return run


def held(consumers):
    return {at for consumer in consumers for at in consumer.assignment()}


def check_group(app):
    """All was read and committed; and the next member gets everything, once the silent ones are evicted."""
    check_read(app)
    committed = app.log.follow().offsets["g"]
    assert {at: known.offset for at, known in committed.items()} == ENDS
    consumer = join(app)
    for _ in range(30):
        assert consumer.poll() == []
        if len(consumer.assignment()) == 2:
            return
        beat(consumer)
        app.clock.now += 2
    raise AssertionError("a partition of the group has no reader")


# -- Administrators ---------------------------------------------------------------------------------


def administer(*calls, done=()):
    def run(app):
        for call in calls:
            app.patiently(lambda call=call: call(Admin(app.log)), done=done)

    return run


def abort_from_outside(app):
    admin = Admin(app.log)
    if app.patiently(lambda: admin.describe_transaction("p")).state == "Ongoing":
        app.patiently(lambda: admin.abort_transaction("p"), done=InvalidRequestError)


def check_fenced(*names):
    def check(app):
        state = app.log.follow()
        assert not state.open_transactions
        assert not any(app.values("out").values())
        assert all(state.producer_of(name).epoch >= 1 for name in names)

    return check


def group_offsets(app):
    fill(app)
    for group in ("g", "gone", "h"):
        Admin(app.log).alter_group_offsets(group, dict.fromkeys(PARTITIONS, 1))


def forget_group(app):
    admin = Admin(app.log)
    if "gone" in app.patiently(admin.list_groups):
        app.patiently(lambda: admin.delete_group("gone"), done=GroupIdNotFoundError)


def remove_members(app):
    admin = Admin(app.log)
    if "g" in app.patiently(admin.list_groups):
        app.patiently(lambda: admin.remove_members_from_group("g"), done=GroupIdNotFoundError)


def check_no_members(app):
    group = app.log.follow().groups.get("g")
    assert group is None or not group.members


# -- Maintenance ------------------------------------------------------------------------------------


def old_things(app):
    """An id, a producer without one, and offsets of a group, none of them used for hours."""
    fill(app)
    producer = Producer(app.log, {"transactional.id": "old"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("out", "kept", partition=0)
    producer.commit_transaction()
    Admin(app.log).alter_group_offsets("old", {PARTITIONS[0]: 1})
    Admin(app.log).alter_log(
        {
            "producer.id.expiration.ms": 1000,
            "transactional.id.expiration.ms": 1000,
            "offsets.retention.minutes": 1,
        }
    )


def expire_overdue(app):
    app.patiently(app.log.follow)
    app.log.expire_overdue()
    app.clock.now += 61
    app.patiently(lambda: app.log.expire_overdue(everything=True))


def expire_overdue_of_a_client(app):
    """As clients do it: trouble is only logged, and the next expiration tries again."""
    for _ in range(4):
        app.patiently(app.log.follow)
        app.log.expire_overdue()
        app.clock.now += 61


def check_expired(app):
    state = app.log.follow()
    assert not state.transactional_ids
    assert not state.producers
    assert not state.offsets.get("old")


def to(offset):
    return dict.fromkeys(PARTITIONS, offset)


SCENARIOS = {
    "create a log": Scenario(create_log, check=check_log_id),
    "topics": Scenario(topics),
    "idempotent": Scenario(idempotent),
    "arrow": Scenario(arrow),
    "one-shot transactions": Scenario(copier(), fill),
    "one-shot, aborted": Scenario(copier(aborts=True), fill),
    "streamed transactions": Scenario(copier(flushes=2), fill),
    "streamed, aborted": Scenario(copier(flushes=2, aborts=True), fill),
    "spilled transactions": Scenario(copier(spills=True), fill),
    "init, first": Scenario(take_over),
    "init over an open transaction": Scenario(take_over, leave_open("p"), check_fenced("p")),
    "prepared transactions": Scenario(two_phase, fill, check_both),
    "prepared transactions, refused": Scenario(
        lambda app: two_phase(app, refuses={"a", "c"}), fill, check_both
    ),
    "init over a prepared transaction": Scenario(take_over, leave_prepared, check_ended),
    "force_terminate_transaction of a prepared one": Scenario(
        administer(lambda admin: admin.force_terminate_transaction("p")), leave_prepared, check_ended
    ),
    "expiry beside a prepared transaction": Scenario(expire_overdue, leave_prepared, check_prepared_is_kept),
    "consumer commits": Scenario(read_and_commit, fill, check_read),
    "consumer commits by itself": Scenario(read_with_auto_commit, fill, check_read, same=False),
    "group of one": Scenario(members(1), fill, check_group),
    "group, eager": Scenario(members(2), fill, check_group),
    "group, cooperative": Scenario(
        members(2, partition_assignment_strategy="cooperative-sticky"), fill, check_group
    ),
    "group, static": Scenario(members(1, group_instance_id="i"), fill, check_group),
    "group, eviction": Scenario(members(1), dead_member, check_group),
    "members removed": Scenario(remove_members, dead_member, check_no_members),
    "abort_transaction": Scenario(abort_from_outside, leave_open("p"), check_fenced("p")),
    "fence_producers": Scenario(
        administer(lambda admin: admin.fence_producers(["p", "q"])),
        leave_open("p", "q"),
        check_fenced("p", "q"),
    ),
    "force_terminate_transaction": Scenario(
        administer(lambda admin: admin.force_terminate_transaction("p")), leave_open("p"), check_fenced("p")
    ),
    "delete_records": Scenario(administer(lambda admin: admin.delete_records(to(1))), fill),
    "alter_log": Scenario(administer(lambda admin: admin.alter_log({"offsets.retention.minutes": 7})), fill),
    "group offsets": Scenario(
        administer(
            lambda admin: admin.alter_group_offsets("g", to(0)),
            lambda admin: admin.reset_group_offsets("h", to_earliest=True),
            lambda admin: admin.delete_group_offsets("g", [PARTITIONS[1]]),
        ),
        group_offsets,
    ),
    "delete_group": Scenario(forget_group, group_offsets),
    "expiration of a timeout": Scenario(expire_overdue, leave_open("p", "q"), check_fenced("p", "q")),
    "expiration by a client": Scenario(
        expire_overdue_of_a_client, leave_open("p", "q"), check_fenced("p", "q")
    ),
    "expiry": Scenario(expire_overdue, old_things, check_expired),
}
