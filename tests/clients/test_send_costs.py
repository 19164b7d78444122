"""What a record costs in `Producer.send`: counted in calls of Python functions."""

from __future__ import annotations

import gc
import itertools
import sys

import pytest

from spark_eos import Producer
from spark_eos.clients.producer import futures
from spark_eos.clients.producer.futures import SendFuture

NAMES = (f"memory://send-costs-{number}" for number in itertools.count())
SETTINGS = {
    "transaction": {"transactional.id": "app"},
    "plain": {"linger.ms": 60_000, "batch.size": 1_000_000},
}
SENDS = 100


@pytest.fixture(params=SETTINGS)
def producer(request):
    """One that has sent a record, so that the next ones only wait."""
    with Producer(next(NAMES), SETTINGS[request.param], num_partitions=3) as producer:
        if request.param == "transaction":
            producer.init_transactions()
            producer.begin_transaction()
        producer.send("t", b"first", timestamp_ms=1)
        yield producer


def calls(call):
    """How many functions of Python it calls, each time on the average."""
    count = 0

    def note(_frame, event, _arg):
        nonlocal count
        count += event == "call"

    gc.disable()  # It calls what others have left.
    sys.setprofile(note)
    try:
        for _ in range(SENDS):
            call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count / SENDS


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, 1),
        ({"key": b"k"}, 1),
        ({"partition": 1}, 1),
        ({"timestamp_ms": 1}, 1),
        ({"headers": [("trace", b"7")]}, 2),
        ({"on_delivery": lambda _error, _sent: None}, 3),
    ],
)
def test_one_frame_for_each_record(producer, more, expected):
    """Beside it only the check of what few records have, and the note of whom to tell."""
    send = producer.send
    assert calls(lambda: send("t", b"value", **more)) - 1 == expected  # The lambda is one.


def test_a_function_to_call_makes_no_future(producer, monkeypatch):
    """The state of a future, with its lock and lists, is made for a program that looks at it."""
    told, made = [], []
    kept = [
        producer.send("t", b"%d" % n, on_delivery=lambda error, sent: told.append((error, sent)))
        for n in range(SENDS)
    ]
    assert not any(map(vars, kept))
    original = futures.Outcome.state
    monkeypatch.setattr(
        futures.Outcome, "state", lambda outcome, *of: made.append(of) or original(outcome, *of)
    )
    if producer._transactions is None:
        producer.flush()
    else:
        producer.commit_transaction()
    assert not made
    assert told == [(None, future.result()) for future in kept]


def test_a_function_is_called_once_though_the_future_is_looked_at(producer):
    """It comes before what is added later, and the future is done when it is called; not if that was cancelled."""
    told = []
    looked_at = producer.send("t", b"one", on_delivery=lambda _, sent: told.append((looked_at.done(), sent)))
    looked_at.add_done_callback(lambda _: told.append("later"))
    cancelled = producer.send("t", b"two", on_delivery=lambda *_: told.append("cancelled"))
    assert cancelled.cancel()
    unseen = producer.send("t", b"three", on_delivery=lambda _, sent: told.append((unseen.done(), sent)))
    if producer._transactions is None:
        producer.flush()
    else:
        producer.commit_transaction()
    assert told == [(True, looked_at.result()), "later", (True, unseen.result())]
    assert isinstance(unseen, SendFuture)


def test_who_finds_no_room_waits_though_the_batch_is_not_full(monkeypatch):
    """Each of them: one that waits in vain, or in another thread, makes no room for the next."""
    waits = []
    settings = {"linger.ms": 60_000, "batch.size": 1_000_000, "buffer.memory": 500}
    with Producer(next(NAMES), settings) as producer:
        monkeypatch.setattr(producer, "_make_room", lambda: waits.append(1))
        for _ in range(10):
            producer.send("t", b"v" * 36)  # With what it takes beside the value: 100 bytes.
    assert sum(waits) == 6, "the fifth and all after it"
