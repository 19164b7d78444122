"""Transactions over two logs in one store: it may fail, or the process may die, at each operation in either log."""

from __future__ import annotations

from spark_eos import Admin, MultiLogProducer, Producer, TopicPartition
from spark_eos.errors import AbortableError, FatalError
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.testing import check_log
from tests.crashpoints.app import Scenario, committed
from verification.no_threads import NO_THREADS
from verification.part_store import PartStore

VALUES = ("a", "b", "c")
IDS = {"transactional.id": "shop", "transaction.timeout.ms": 1000}


def second(app):
    """The other log; each of the two knows where the other one is."""
    retry = Retry(deadline_s=30 if app.patient else 0)
    two = app.patiently(
        lambda: Log.open_or_create(PartStore(app.store), app.clock, retry, environment=NO_THREADS)
    )
    two.register_decider(app.log)
    app.log.register_decider(two)
    return two


def prepare(app):
    app.patiently(lambda: Admin(app.log).create_topic("out", 1))
    two = second(app)
    app.patiently(lambda: Admin(two).create_topic("out", 1))


def seen(app, log):
    """What a reader sees, who ends what is left."""
    app.patiently(log.resolve_followers)
    return app.patiently(lambda: committed(log.store, log.follow(), "out"))[0]


def begun(app, *, turned=False):
    two = second(app)
    logs = (two, app.log) if turned else (app.log, two)
    group = MultiLogProducer(*(Producer(log, IDS) for log in logs))
    app.patiently(group.init_transactions)
    return group, two


def both(app, *, turned=False, refuses=()):
    """Each value goes into both logs, with how far that is. What is in there already, is not sent again."""
    group, two = begun(app, turned=turned)
    decider = two if turned else app.log
    for number, value in enumerate(VALUES):
        while value not in seen(app, decider):
            group = _write(app, group, number, value, refuses) or begun(app, turned=turned)[0]
    app.patiently(group.close)


def _write(app, group, number, value, refuses):
    """One transaction. None: the group has to be made again."""
    app.patiently(group.begin_transaction)
    try:
        for producer in group._producers:
            app.patiently(lambda one=producer: one.send("out", value, partition=0))
        offsets = {TopicPartition("out", 0): number}
        app.patiently(lambda: group._producers[1].send_offsets_to_transaction(offsets, "g"))
        if value in refuses and ("no", value) not in app.store.notes:
            app.store.note(("no", value))
            app.patiently(group._producers[1].flush)
            app.patiently(group.abort_transaction)
            return group
        app.store.note(("trying", "out", value))
        app.patiently(group.commit_transaction)
        app.store.note(("sent", "out", value))
    except AbortableError:
        app.patiently(group.abort_transaction)
    except FatalError:
        group.close()
        return None
    return group


def check(app):
    """Both logs have the same, each once, in order; nothing is open, and no decision is awaited."""
    two = second(app)
    assert seen(app, app.log) == seen(app, two) == [*VALUES]
    check_log(PartStore(app.store.inner))
    for log in (app.log, two):
        state = log.follow()
        assert not state.open_transactions
        assert [one.committed for one in _prepared(state)] in ([], [True])


def _prepared(state):
    return [one.prepared for one in state.producers.values() if one.prepared is not None]


def read_half(app):
    """Readers of the following log alone, after the coordinator has died with everything prepared."""
    two = second(app)
    app.patiently(two.resolve_followers)
    app.clock.sleep(100)
    app.patiently(two.resolve_followers)


def leave_prepared(app):
    prepare(app)
    group, _ = begun(app)
    group.begin_transaction()
    for producer in group._producers:
        producer.send("out", "a", partition=0)
    group._members[0].commit = _die
    try:
        group.commit_transaction()
    except _Died:
        return


def leave_decided(app):
    prepare(app)
    group, _ = begun(app)
    group.begin_transaction()
    for producer in group._producers:
        producer.send("out", "a", partition=0)
    group._members[1].follow = _die
    try:
        group.commit_transaction()
    except _Died:
        return


class _Died(BaseException):
    pass


def _die(*_args, **_kwargs):
    raise _Died


def check_aborted(app):
    read_half(app)
    two = second(app)
    assert seen(app, app.log) == seen(app, two) == []
    assert not two.follow().open_transactions


def check_committed(app):
    two = second(app)
    assert seen(app, app.log) == seen(app, two) == ["a"]
    assert not two.follow().open_transactions


SCENARIOS = {
    "over two logs": Scenario(both, prepare, check),
    "over two logs, turned": Scenario(lambda app: both(app, turned=True), prepare, check),
    "over two logs, with aborts": Scenario(lambda app: both(app, refuses={"a", "c"}), prepare, check),
    "a reader after all were prepared": Scenario(read_half, leave_prepared, check_aborted, same=False),
    "a reader after the decision": Scenario(read_half, leave_decided, check_committed, same=False),
}
