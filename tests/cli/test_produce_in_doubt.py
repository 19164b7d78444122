"""``eoslog produce`` on a store that loses replies: what it claims is what is there."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.cli.console.intake import TextLines, with_line
from spark_eos.cli.console.interrupts import Interrupted, Interrupts, interruptible
from spark_eos.cli.console.produce import _write
from spark_eos.cli.console.properties import LineFormat
from spark_eos.cli.console.sending import Sending
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    InvalidRecordError,
    NotALogError,
    ProducerFencedError,
    StoreUnavailableError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.commit.closing import close_after
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.cli.test_produce import wait_for


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store):
    log = Log.create(store, retry=Retry(deadline_s=0))
    log.ensure_topic("t")
    return log


def values(log):
    with Consumer(log, {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        return [record.value for record in consumer.poll()]


def pipe(data):
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading


def produce(log, store, fault):
    """Two lines; once they are in the log, two more, whose entry meets the fault."""
    reading, writing = os.pipe()

    def feed():
        os.write(writing, b"a\nb\n")
        wait_for(lambda: values(log) == [b"a", b"b"])
        store.inject(fault, "create", "_log/*", times=None)
        os.write(writing, b"c\nd\n")
        os.close(writing)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        with Producer(log, {"delivery.timeout.ms": 0, "linger.ms": 0}) as producer:
            _write(
                producer,
                Sending(producer, "t", None),
                TextLines(LineFormat()),
                reading,
                Interrupts(),
                is_transaction=False,
            )
    finally:
        feeder.join()
        os.close(reading)


def test_lines_whose_outcome_is_unknown_are_said_to_be(log, store):
    with pytest.raises(CommitOutcomeUnknownError) as raised:
        produce(log, store, Fault.LOST)
    told = "lines 1 to 2 are in the log, of lines 3 to 4 it is not known, the others are not there"
    assert str(raised.value).endswith(told)


def test_lines_that_a_store_refused_are_not_in_the_log(log, store):
    with pytest.raises(StoreUnavailableError) as raised:
        produce(log, store, Fault.FAIL_BEFORE)
    assert str(raised.value).endswith("lines 1 to 2 are in the log, the others not")
    assert values(log) == [b"a", b"b"]


class Happening(TextLines):
    """Lines; when they are read, something happens to the log."""

    def __init__(self, happen):
        super().__init__(LineFormat())
        self._happen = happen

    def rows(self, lines, first):
        self._happen()
        return super().rows(lines, first)


def produce_in_transaction(log, happen):
    """Two lines in a transaction of ``me``; ``happen()`` is called before they are sent."""
    reading = pipe(b"a\nb\n")
    try:
        with Producer(log, {"transactional.id": "me"}) as producer:
            sending = Sending(producer, "t", None)
            _write(producer, sending, Happening(happen), reading, Interrupts(), is_transaction=True)
    finally:
        os.close(reading)
    return sending


@pytest.mark.parametrize("lost", [1, 2])
def test_a_commit_whose_reply_is_lost_is_made_once(log, store, lost):
    """Once it is found by the log itself, twice by the same call made again."""
    sending = produce_in_transaction(
        log, lambda: store.inject(Fault.FAIL_AFTER, "create", "_log/*", times=lost)
    )
    assert sending.acknowledged == [(1, 2)]
    assert values(log) == [b"a", b"b"]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_commit_whose_outcome_stays_unknown(log, store, is_there):
    def happen():
        store.inject(Fault.FAIL_AFTER if is_there else Fault.LOST, "create", "_log/*")
        store.inject(Fault.FAIL_BEFORE, "*", "_log/*", times=None)

    with pytest.raises(CommitOutcomeUnknownError) as raised:
        produce_in_transaction(log, happen)
    store.heal()
    assert str(raised.value).endswith(
        "no line is in the log, of lines 1 to 2 it is not known, the others are not there; `eoslog history` lists the "
        "transaction if it is committed"
    )
    newer = Log.open(store)
    assert values(newer) == ([b"a", b"b"] if is_there else [])


def test_a_producer_that_was_fenced_wrote_nothing(log):
    """The last transaction of the id is the newer producer's: it says nothing of the older one's lines."""

    def happen():
        with Producer(log, {"transactional.id": "me"}) as newer:
            newer.init_transactions()
            newer.begin_transaction()
            newer.send("t", b"newer")
            newer.commit_transaction()

    with pytest.raises(ProducerFencedError) as raised:
        produce_in_transaction(log, happen)
    assert str(raised.value).endswith("the transaction is not committed, no line is in the log")
    assert values(log) == [b"newer"]


class InterruptedProducer(Producer):
    """A signal comes when it has just taken rows."""

    def send_arrow(self, *arguments):
        super().send_arrow(*arguments)
        raise Interrupted(signal.SIGINT)


def test_a_signal_between_taking_lines_and_noting_them(log, capsys):
    reading = pipe(b"a\nb\n")
    with InterruptedProducer(log) as producer, pytest.raises(SystemExit) as ended:
        _write(
            producer,
            Sending(producer, "t", None),
            TextLines(LineFormat()),
            reading,
            Interrupts(),
            is_transaction=False,
        )
    os.close(reading)
    assert ended.value.code == 130
    assert capsys.readouterr().err == (
        "eoslog: stopped by SIGINT: no line is in the log, of lines 1 to 2 it is not known, the others are not there\n"
    )
    assert values(log) == [b"a", b"b"]


def test_a_signal_while_an_error_waits_for_what_was_sent(log, capsys, monkeypatch):
    settle = Sending.settle_one
    signals = [signal.SIGTERM]

    def interrupted_once(sending):
        if signals:
            raise Interrupted(signals.pop())
        settle(sending)

    monkeypatch.setattr(Sending, "settle_one", interrupted_once)
    reading, writing = os.pipe()
    os.write(writing, b"a\n")

    class Lines(TextLines):
        def rows(self, lines, first):
            if lines != [b"a"]:
                raise InvalidRecordError(f"line {first}: no")
            os.write(writing, b"b\n")
            os.close(writing)
            return super().rows(lines, first)

    with Producer(log) as producer, pytest.raises(SystemExit) as ended:
        _write(
            producer,
            Sending(producer, "t", None),
            Lines(LineFormat()),
            reading,
            Interrupts(),
            is_transaction=False,
        )
    os.close(reading)
    assert ended.value.code == 143
    assert capsys.readouterr().err == "eoslog: stopped by SIGTERM: line 1 is in the log, the others not\n"
    assert values(log) == [b"a"]


def test_a_signal_after_the_commit(log, capsys):
    class Committed(Producer):
        def commit_transaction(self):
            super().commit_transaction()
            raise Interrupted(signal.SIGINT)

    reading = pipe(b"a\n")
    with Committed(log, {"transactional.id": "me"}) as producer, pytest.raises(SystemExit):
        _write(
            producer,
            Sending(producer, "t", None),
            TextLines(LineFormat()),
            reading,
            Interrupts(),
            is_transaction=True,
        )
    os.close(reading)
    assert capsys.readouterr().err.endswith("line 1 is in the log, the others not\n")
    assert values(log) == [b"a"]


def test_a_signal_before_anything_is_sent(log_url, capsys, monkeypatch):
    def interrupted(*_):
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr("spark_eos.cli.console.produce.find_topic", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["produce", log_url, "t", "--file", os.devnull])
    assert ended.value.code == 143
    assert capsys.readouterr().err == "eoslog: stopped by SIGTERM: no line is in the log\n"


def test_lines_are_counted_once_however_often_it_is_looked(log):
    with Producer(log) as producer:
        sending = Sending(producer, "t", None)
        sending.send(TextLines(LineFormat()).rows([b"a", b"b"], 1), 1)
        waiting = sending._waiting.copy()
        sending.settle()
        sending._waiting.extend(waiting)  # As after a signal before it was taken off.
        sending.settle()
    assert sending.count == 2
    assert sending.account() == "lines 1 to 2 are in the log, the others not"


def done(result):
    future = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future


def test_lines_that_came_one_by_one_are_told_together_and_the_first_error_is_raised():
    sending = Sending(None, "t", None)
    results = [[], [], InvalidRecordError("first"), InvalidRecordError("second")]
    sending._waiting.extend(((line, line), done(result)) for line, result in enumerate(results, 1))
    with pytest.raises(InvalidRecordError, match=r"^line 3: first$"):
        sending.settle()
    assert sending.account() == "lines 1 to 2 are in the log, the others not"


def test_errors_of_records_alone_name_lines():
    assert str(with_line(InvalidRecordError("no"), 3, 3)) == "line 3: no"
    assert str(with_line(InvalidRecordError("no"), 3, 5)) == "lines 3 to 5: no"
    away = StoreUnavailableError("away")
    assert with_line(away, 3, 5) is away


def test_the_second_signal_ends_the_process_and_later_ones_are_those_of_the_caller():
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with suppress(Interrupted), interruptible():
        with suppress(Interrupted):
            signal.raise_signal(signal.SIGTERM)
        assert [signal.getsignal(number) for number in numbers] == [signal.SIG_DFL] * 2
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_command_in_another_thread_gets_no_signals():
    with ThreadPoolExecutor(1) as pool, interruptible():
        handler = signal.getsignal(signal.SIGINT)
        pool.submit(interruptible().__enter__).result()
        assert signal.getsignal(signal.SIGINT) == handler


@pytest.mark.parametrize("is_there", [True, False])
def test_a_log_that_is_closed_while_the_commit_is_in_doubt(log, store, is_there):
    """`eoslog copy --close` comes between the create whose reply is lost and its repetition."""

    def close(operation, name):
        if operation == "create" and name.startswith("_log/"):
            store.before = store.after = lambda *_: None
            close_after(store.inner, Log.open(store.inner).state)

    def happen():
        store.inject(Fault.FAIL_AFTER if is_there else Fault.LOST, "create", "_log/*")
        setattr(store, "after" if is_there else "before", close)

    if is_there:
        assert produce_in_transaction(log, happen).account() == "lines 1 to 2 are in the log, the others not"
    else:
        with pytest.raises(NotALogError) as raised:
            produce_in_transaction(log, happen)
        assert str(raised.value).endswith("the transaction is not committed, no line is in the log")
    assert len(list(store.inner.list("data/"))) == is_there, "files that an entry lists stay"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("transaction", [(), ("--transactional-id", "me")])
def test_a_signal_below_a_library_that_drops_it(monkeypatch, tmp_path, capfd, number, transaction):
    """Importers, finalizers and callbacks of C libraries drop what a handler raises in them."""
    rows = TextLines.rows

    def interrupted_rows(self, lines, first):
        with suppress(Interrupted):
            signal.raise_signal(number)
        return rows(self, lines, first)

    monkeypatch.setattr(TextLines, "rows", interrupted_rows)
    url, lines = tmp_path / "log", tmp_path / "lines"
    Admin(url).create_topic("t")
    lines.write_bytes(b"one\n")
    with pytest.raises(SystemExit) as ended:
        main(["produce", str(url), "t", "--file", str(lines), *transaction])
    assert ended.value.code == 128 + number
    told = capfd.readouterr()
    account = (
        "the transaction is not committed, no line is in the log"
        if transaction
        else "line 1 is in the log, the others not"
    )
    assert told.err.endswith(f"eoslog: stopped by {number.name}: {account}\n")
    assert not told.out
    assert values(url) == ([] if transaction else [b"one"])
