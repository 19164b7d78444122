"""Transactions whose rows are staged by other processes, and whose coordinator may die anywhere."""

from __future__ import annotations

from spark_eos import DistributedTransaction, StagedWriter
from spark_eos.errors import InvalidTxnStateError, ProducerFencedError
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from tests.crashpoints.app import Scenario
from tests.crashpoints.clients import ENDS, PARTITIONS, fill
from verification.no_threads import NO_THREADS

TASKS = {"a": 0, "b": 0, "c": 1}
"""What tasks read of ``in``, and where it is."""


def worker(app):
    """A process that has a handle of its own."""
    retry = Retry(deadline_s=30 if app.patient else 0)
    return app.patiently(lambda: Log.open(app.store, app.clock, retry, environment=NO_THREADS))


def stage(app, log, token, task):
    """A task that is run until it has a receipt; it commits how far it has read as well."""

    def attempt():
        with StagedWriter(token, task, url=log) as writer:
            writer.send("out", task, partition=TASKS[task])
            if task in {"b", "c"}:
                at = PARTITIONS[TASKS[task]]
                writer.send_offsets_to_transaction({at: ENDS[at.topic, at.partition]}, "g")
        return str(writer.receipt)

    return app.patiently(attempt)


def tell(app, word):
    for task in TASKS:
        app.store.note((word, "out", task))


def staged(app, token):
    log = worker(app)
    receipts = [stage(app, log, token, task) for task in TASKS]
    receipts.insert(1, stage(app, log, token, "a"))  # A second attempt, as of speculation.
    return receipts


def versioned(app):
    """A job that knows nothing of its last run: the version tells."""
    version = {"txn_app_id": "nightly", "txn_version": 1}
    transaction = app.patiently(lambda: DistributedTransaction.begin(app.log, "job", **version))
    if transaction.is_repetition:
        app.patiently(transaction.abort)
        return
    receipts = staged(app, transaction.token)
    tell(app, "trying")
    app.patiently(lambda: transaction.commit(receipts))
    tell(app, "sent")


def noted(app):
    """A job that notes token and receipts before its commit, and goes on with them."""
    notes = {note[0]: note[1] for note in app.store.notes if note[0] in {"token", "receipts"}}
    if "receipts" in notes:
        transaction = app.patiently(lambda: DistributedTransaction.resume(notes["token"], url=app.log))
        app.patiently(lambda: transaction.commit(notes["receipts"]))
        tell(app, "sent")
        return
    transaction = app.patiently(lambda: DistributedTransaction.begin(app.log, "job"))
    app.store.note(("token", str(transaction.token)))
    receipts = staged(app, transaction.token)
    app.store.note(("receipts", receipts))
    tell(app, "trying")
    app.patiently(lambda: transaction.commit(receipts))
    tell(app, "sent")


def aborted(app):
    """A job that gives its first transaction up, and does the work in a second one."""
    first = app.patiently(lambda: DistributedTransaction.begin(app.log, "job"))
    receipts = [stage(app, worker(app), first.token, task) for task in ("a", "b")]
    app.patiently(lambda: first.abort(receipts))
    late = worker(app)
    try:
        app.patiently(lambda: StagedWriter(first.token, "late", url=late))
    except InvalidTxnStateError:
        versioned(app)
    else:
        raise AssertionError("a writer took the token of a transaction that was aborted")


def replaced(app):
    """The coordinator is replaced between its staging and its commit."""
    old = app.patiently(lambda: DistributedTransaction.begin(app.log, "job"))
    receipts = [stage(app, worker(app), old.token, "a")]
    versioned(app)
    try:
        app.patiently(lambda: old.commit(receipts))
    except ProducerFencedError:
        return
    raise AssertionError("a transaction that was replaced was committed")


def check(app):
    """All rows once, in order, and the offsets of the tasks: no task is there without the others."""
    assert app.values("out") == {0: ["a", "b"], 1: ["c"]}
    state = app.log.follow()
    assert {at: known.offset for at, known in state.offsets["g"].items()} == ENDS


SCENARIOS = {
    "of many processes, with a version": Scenario(versioned, fill, check),
    "of many processes, resumed": Scenario(noted, fill, check),
    "of many processes, aborted": Scenario(aborted, fill, check),
    "of many processes, replaced": Scenario(replaced, fill, check),
}
