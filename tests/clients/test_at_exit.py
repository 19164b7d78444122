"""What a program that ends without `flush` or `close` has sent: real processes."""

from __future__ import annotations

import gc
import weakref

import pytest

from spark_eos import Producer, read_arrow
from spark_eos.clients import at_exit
from tests import starting
from tests.needing import needs

RECORDS = 1_000
ENDS, FAILS = "clients/ends", "clients/ends_where_the_store_fails"


@pytest.fixture
def log(tmp_path):
    """The folder of a log, which the program may create."""
    return tmp_path / "log"


def run(log, program, *arguments, status=0, by=starting):
    """The values in the log, what the program has written to standard error, and to standard output."""
    ended = by.run(program, *arguments, status=status)
    found = read_arrow(str(log), "t").read_all()["value"].to_pylist() if log.exists() else []
    return found, ended.stderr, ended.stdout


def everything(found, more=()):
    return sorted(found) == sorted([*(b"%d" % number for number in range(RECORDS)), *more])


WAYS = {
    "by_its_last_line": (0, "", ()),
    "by_an_error": (1, "ValueError", ()),
    "by_exit": (3, "", ()),
    "after_an_acknowledged_record": (0, "", [b"x"]),
    "by_the_classes_of_kafka_python": (0, "", ()),
    "without_a_reference": (0, "", ()),
    "by_asyncio": (0, "", ()),
    "while_another_thread_goes_on": (0, "", [b"x"]),
    "when_a_batch_is_just_handed_on": (0, "", ()),
    "when_no_thread_can_be_started": (0, "", ()),
}
"""The status with which the program ends, what it says, and what else it has sent."""


NEEDS = {"by_the_classes_of_kafka_python": "kafka", "by_asyncio": "aio"}


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=needs(NEEDS[way]) if way in NEEDS else ()) for way in WAYS]
)
def test_a_program_that_ends_sends_what_waits(nursery, log, way):
    status, said, more = WAYS[way]
    by = starting if way == "by_its_last_line" else nursery
    found, errors, _ = run(log, ENDS, way, log, RECORDS, status=status, by=by)
    assert everything(found, more), len(found)
    assert said in errors
    assert "spark_eos:" not in errors


@pytest.mark.parametrize("threads", ["AS_THEY_ARE", "REFUSED"])
def test_a_handler_that_comes_last_sends(log, threads):
    found, errors, _ = run(log, "clients/sends_in_the_last_handler", log, RECORDS, threads)
    assert everything(found, [b"last 0", b"last 1", b"last 2", b"of its own"]), len(found)
    assert "spark_eos:" not in errors


@pytest.mark.parametrize("threads", ["AS_THEY_ARE", "REFUSED"])
def test_a_thread_that_goes_on_after_the_main_one_does_all_it_did(nursery, log, threads):
    """Python 3.12 starts no thread from the end of the main one on."""
    found, errors, told = run(log, "clients/goes_on_after_the_main_thread", log, threads, by=nursery)
    assert found == [b"of the main thread", b"one", b"two", b"three"]
    assert (told, errors) == ("2 2\n", "")


@pytest.mark.deep("spawn", "forkserver")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_multiprocessing_sends_its_own_records_and_no_others(log, method):
    found, errors, told = run(log, "clients/sends_in_a_child", method, log, RECORDS)
    assert everything(found, [b"above"])
    assert (told, errors) == ("0\n", "")


def test_a_forked_child_that_ends_sends_nothing_of_its_parent(nursery, log):
    found, errors, told = run(log, "clients/forks_and_both_end", log, RECORDS, by=nursery)
    assert everything(found)
    assert (told, errors) == ("{} 1\n", "")


def test_the_end_waits_for_a_bounded_time_and_says_what_is_left(nursery, log):
    """The store hangs: one batch is on its way for ever, one waits."""
    found, errors, told = run(log, FAILS, "hangs", log, by=nursery)
    assert found == [b"first"]
    assert sorted(told.split("\n")) == ["", "CommitOutcomeUnknownError None", *["KafkaTimeoutError None"] * 3]
    assert errors.startswith(
        "spark_eos: the process ends, and 4 records that were sent did not get into the log"
    )


def test_an_interrupt_ends_the_wait(nursery, log):
    found, errors, _ = run(log, FAILS, "hangs_and_is_interrupted", log, by=nursery)
    assert found == [b"first"]
    assert "the process ends, and 1 record that was sent did not get into the log" in errors


def test_the_end_says_what_failed(nursery, log):
    found, errors, _ = run(log, FAILS, "is_full", log, RECORDS, by=nursery)
    assert found == []
    assert f"the process ends, and {RECORDS} records that were sent did not get into the log" in errors
    assert "full" in errors


def test_what_fails_after_the_end_is_said(nursery, log):
    found, errors, _ = run(log, FAILS, "is_full_for_a_later_handler", log, by=nursery)
    assert found == [b"first"]
    assert "the process ends, and 1 record that was sent did not get into the log" in errors


def test_the_end_says_what_failed_long_before(nursery, log):
    found, errors, _ = run(log, FAILS, "was_full", log, by=nursery)
    assert found == [b"two"]
    assert "the process ends, and 1 record that was sent did not get into the log" in errors


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("nothing", "the open transaction of transactional.id 'app' is not committed"),
        ("flush", "the open transaction of transactional.id 'app' is not committed"),
        ("forget", "is gone without close, and the open transaction"),
        ("commit_transaction", ""),
        ("abort_transaction", ""),
        ("close", ""),
    ],
)
def test_the_end_commits_no_transaction_and_says_so(nursery, log, then, said):
    found, errors, _ = run(log, "clients/ends_in_a_transaction", log, then, by=nursery)
    assert found == ([b"one"] if "commit" in then else [])
    assert said in errors
    assert errors.count("spark_eos:") == bool(said)


def test_a_producer_that_nobody_has_is_not_kept_for_the_end():
    producer = Producer("memory://not-kept-for-the-end", transactional_id="app")
    producer.init_transactions()
    known = weakref.ref(producer)
    assert producer in at_exit._watched
    del producer
    gc.collect()
    assert known() is None
