"""Histograms of how long calls took: every call is counted once, whichever threads make and read them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from spark_eos.clients import durations
from spark_eos.clients.durations import Durations


def test_a_value_goes_into_the_first_bucket_that_has_room_for_it():
    found = Durations((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.2, 1.0, 5.0):
        found.record(("send",), seconds)
    ((labels, spread),) = found.spreads().items()
    assert labels == ("send",)
    assert (spread.bounds, spread.counts) == ((0.1, 1.0), (2, 2, 1))
    assert spread.sum == 6.35


def test_labels_are_apart_and_sorted():
    found = Durations((1.0,))
    for label in ("b", "a", "b"):
        found.record((label,), 0.5)
    assert [(labels, spread.counts) for labels, spread in found.spreads().items()] == [
        (("a",), (1, 0)),
        (("b",), (2, 0)),
    ]


def test_no_call_is_lost_between_threads(monkeypatch):
    monkeypatch.setattr(durations, "MOST_NOTED", 10)
    found = Durations((1.0,))

    def work(number):
        for _ in range(1000):
            found.record(("send",), 0.5)
            if number == 0:
                found.spreads()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert found.spreads()["send",].counts == (4000, 0)


def test_what_is_noted_stays_small(monkeypatch):
    monkeypatch.setattr(durations, "MOST_NOTED", 10)
    found = Durations((1.0,))
    for _ in range(25):
        found.record(("send",), 0.5)
    assert len(found._noted) < 10
    assert found.spreads()["send",].counts == (25, 0)


def test_observers_hear_of_each_value():
    found, heard = Durations((1.0,)), []
    found.record(("send",), 0.1)
    found.observers += (lambda labels, seconds: heard.append((labels, seconds)),)
    found.record(("send",), 0.2)
    assert heard == [(("send",), 0.2)]
