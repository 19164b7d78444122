"""`flush` and `close` say that records failed, unless their futures have said so."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Producer
from spark_eos.errors import RecordsFailedError, RecordTooLargeError, StoreFullError, StorePermissionError
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore

PATIENT = {"linger.ms": 100_000, "batch.size": 1_000_000}
"""Nothing goes out before it is flushed."""


def on_a_full_disk(error):
    store = FaultyStore(MemoryStore())
    log = Log.create(store, retry=Retry(deadline_s=0))
    log.ensure_topic("t")
    store.inject(error, "upload", "data/*", times=None)
    return log


@pytest.fixture
def full():
    """A log on a disk that is full."""
    return on_a_full_disk(StoreFullError("full"))


def test_flush_says_once_that_records_failed(full):
    producer = Producer(full, PATIENT)
    producer.send("t", b"one")
    producer.send_arrow("t", pa.table({"value": [b"two", b"three"]}))
    with pytest.raises(
        RecordsFailedError, match=r"3 records that were sent did not get into .*: full"
    ) as raised:
        producer.flush()
    assert isinstance(raised.value.__cause__, StoreFullError)
    producer.flush()
    producer.close()


def test_a_future_that_is_there_can_tell(full):
    """As kafka-python's programs do it: first flush, then look."""
    producer = Producer(full, PATIENT)
    futures = [producer.send("t", b"%d" % number) for number in range(3)]
    producer.send("t", b"three")
    with pytest.raises(RecordsFailedError, match="1 record that was sent"):
        producer.flush()
    for future in futures[:2]:
        with pytest.raises(StoreFullError):
            future.result()
    producer.flush()
    del futures, future
    with pytest.raises(RecordsFailedError, match="1 record that was sent"):
        producer.close()


def test_a_future_of_a_function_that_has_returned_can_tell_no_more(full):
    """Its frame was kept by the traceback of the error, and the future by the frame: nothing was said."""
    producer = Producer(full, PATIENT)

    def sent_and_flushed():
        future = producer.send("t", b"one")
        producer.flush()
        return future.done()

    assert sent_and_flushed()
    with pytest.raises(RecordsFailedError, match="1 record that was sent"):
        producer.close()


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_an_error_below_that_of_the_store_keeps_no_future_either(link):
    error = StoreFullError("full")
    producer = Producer(on_a_full_disk(error), PATIENT)

    def sent_and_flushed():
        future = producer.send("t", b"one")
        try:
            int("no number")  # The error's traceback has this frame.
        except ValueError as below:
            setattr(error, link, below)
        producer.flush()
        return future.done()

    assert sent_and_flushed()
    with pytest.raises(RecordsFailedError, match="1 record that was sent"):
        producer.close()


def test_an_error_of_a_store_that_is_its_own_cause_is_said():
    """Python allows ``raise error from error``."""
    error = StoreFullError("full")
    error.__cause__ = error
    producer = Producer(on_a_full_disk(error), PATIENT)
    producer.send("t", b"one")
    with pytest.raises(RecordsFailedError, match="1 record that was sent"):
        producer.flush()
    producer.close()


def test_a_memory_that_is_full_takes_nothing_from_what_flush_says(full, capsys):
    """Only at the end of the process nothing but a message is left to say it."""
    producer = Producer(full, {**PATIENT, "buffer.memory": 1})
    producer.send("t", b"one")
    assert capsys.readouterr().err == ""
    with pytest.raises(RecordsFailedError, match="1 record that was sent"):
        producer.flush()
    producer.close()


def test_what_is_wrong_is_said_of_rows_that_are_too_many_for_memory_as_well():
    """They are staged while they are taken. The error was "could not be staged; try again", after two minutes."""

    class Forbidding(MemoryStore):
        is_forbidden = False

        def upload(self, name, **how):
            if self.is_forbidden:
                raise StorePermissionError(f"no right to write {name}")
            return super().upload(name, **how)

    store = Forbidding()
    log = Log.create(store)
    log.ensure_topic("t")
    store.is_forbidden = True
    with Producer(log, {"buffer.memory": 100_000, "delivery.timeout.ms": 1000, "linger.ms": 0}) as producer:
        future = producer.send_arrow("t", pa.table({"value": [b"x" * 1000] * 500}))
        with pytest.raises(StorePermissionError, match="no right to write data/t-"):
            future.result(60)


def test_close_says_it_of_what_the_thread_sent(full):
    producer = Producer(full, {"linger.ms": 0})
    future = producer.send("t", b"one")
    while not future.done():
        pass
    del future
    with pytest.raises(RecordsFailedError, match="1 record that was sent"):
        producer.close()
    producer.close()


def test_a_flush_with_a_timeout_says_it(full):
    producer = Producer(full, PATIENT)
    producer.send("t", b"one")
    with pytest.raises(RecordsFailedError):
        producer.flush(timeout=60)


def test_the_end_of_a_block_says_it(full):
    with pytest.raises(RecordsFailedError), Producer(full, PATIENT) as producer:
        producer.send("t", b"one")


def test_an_error_that_leaves_the_block_goes_on(full, capsys):
    def run():
        with Producer(full, PATIENT) as producer:
            producer.send("t", b"one")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert "1 record that was sent did not get into the log" in capsys.readouterr().err


HEARD = {
    "on_delivery": lambda producer: producer.send("t", b"x", on_delivery=lambda *_: None),
    "an errback": lambda producer: producer.send("t", b"x").add_errback(lambda _: None),
    "any callback": lambda producer: producer.send("t", b"x").add_done_callback(lambda _: None),
}


@pytest.mark.parametrize("name", HEARD)
def test_what_a_callback_tells_is_not_said_again(full, name):
    producer = Producer(full, PATIENT)
    HEARD[name](producer)
    producer.flush()
    producer.close()


@pytest.mark.parametrize("ask", ["get", "result", "exception", "failed"])
def test_what_a_future_has_told_is_not_said_again(full, ask):
    producer = Producer(full, {"linger.ms": 0})
    future = producer.send("t", b"one")
    with pytest.raises(StoreFullError):
        future.result(60)
    other = producer.send("t", b"two")
    while not other.done():
        pass
    if ask in ("get", "result"):
        with pytest.raises(StoreFullError):
            getattr(other, ask)()
    else:
        assert getattr(other, ask)()
    producer.flush()
    producer.close()


def test_a_callback_for_results_alone_hears_nothing(full):
    producer = Producer(full, PATIENT)
    producer.send("t", b"x").add_callback(lambda _: None)
    with pytest.raises(RecordsFailedError):
        producer.flush()


def test_a_future_that_was_only_asked_whether_it_is_done_has_told_nothing(full):
    producer = Producer(full, PATIENT)
    producer.send("t", b"x").done()
    with pytest.raises(RecordsFailedError):
        producer.flush()


def test_a_record_that_is_too_large_is_among_them():
    producer = Producer("memory://too-large-for-flush", {**PATIENT, "max.request.size": 10})
    producer.send("t", b"x" * 11)
    kept = producer.send("t", b"x")
    with pytest.raises(RecordsFailedError, match="1 record") as raised:
        producer.flush()
    assert isinstance(raised.value.__cause__, RecordTooLargeError)
    assert kept.result().offset == 0
    producer.close()
