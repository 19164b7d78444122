"""Rules that are broken on purpose: the crash points must find each of them."""

from __future__ import annotations

import pytest

from spark_eos import Producer
from spark_eos.clients.producer import transaction_manager
from spark_eos.errors import CommitOutcomeUnknownError, StoreUnavailableError
from spark_eos.log.commit.answers import Answers
from spark_eos.log.log import Log
from spark_eos.protocol.actions import EndTransaction, producers
from spark_eos.spark.sink import sink
from spark_eos.spark.sink.task import collect
from spark_eos.testing.crashpoints import CrashPointsError
from tests.crashpoints.app import Scenario, every_point, no_threads
from tests.crashpoints.clients import PARTITIONS, SCENARIOS, fill
from tests.crashpoints.queries import QUERIES, query, streaming


def finds(scenario, problem):
    with no_threads(), pytest.raises((CrashPointsError, AssertionError), match=problem) as caught:
        every_point(scenario)
    return str(caught.value)


@pytest.mark.deep
def test_a_sink_that_deletes_files_after_an_unknown_commit(monkeypatch):
    commit = sink.EosLogStreamWriter.commit

    def deletes(self, messages, batch_id):
        try:
            commit(self, messages, batch_id)
        except CommitOutcomeUnknownError:
            Log.shared(self._options.path).discard(collect(messages)[1])
            raise

    monkeypatch.setattr(sink.EosLogStreamWriter, "commit", deletes)
    report = finds(QUERIES["query"], "is missing")
    assert "reply_lost (create '_log/" in report
    assert "request_lost" not in report.splitlines()[1]


@pytest.mark.deep
def test_a_commit_in_doubt_that_is_reported_as_refused(monkeypatch):
    monkeypatch.setattr(
        Answers,
        "unknown",
        lambda _self, ticket, cause: setattr(ticket, "error", StoreUnavailableError(str(cause))),
    )
    assert "reply_lost (create '_log/" in finds(SCENARIOS["idempotent"], "there is no object .data/")


def test_an_abort_that_commits(monkeypatch):
    monkeypatch.setattr(
        transaction_manager, "EndTransaction", lambda stamp, **_: EndTransaction(stamp, commit=True)
    )
    finds(SCENARIOS["streamed, aborted"], "refused, and there")


@pytest.mark.deep
def test_a_take_over_that_commits_what_was_open(monkeypatch):
    complete = producers.complete
    monkeypatch.setattr(
        producers, "complete", lambda state, producer, **_: complete(state, producer, commit=True)
    )
    finds(SCENARIOS["streamed transactions"], "more than once")


@pytest.mark.deep
def test_a_sink_that_does_not_recognise_a_replay():
    careless = query(processing_guarantee="at_least_once")
    report = finds(streaming(careless, fill, None, same=False), "more than once")
    assert "crash_after (create '_log/" in report
    assert "crash_before (create '_checkpoint/commits/" in report


@pytest.mark.deep
def test_a_copier_that_commits_its_offsets_first():
    def run(app):
        producer = Producer(app.log, {"transactional.id": "copier"})
        app.patiently(producer.init_transactions)
        consumer = app.consumer(enable_auto_commit=False)
        app.patiently(lambda: consumer.assign(PARTITIONS))
        while records := app.patiently(lambda: consumer.poll(max_records=2)):
            app.patiently(consumer.commit)
            producer.begin_transaction()
            for record in records:
                producer.send("out", record.value, partition=record.partition)
            app.patiently(producer.commit_transaction)

    assert "crash_before (upload 'data/out-" in finds(Scenario(run, fill), "not as undisturbed")
