"""Histories are recorded in order, by many threads, and survive a file."""

from __future__ import annotations

import io
import json
import threading

import pytest

from spark_eos.errors import IllegalStateError, InvalidRequestError
from spark_eos.testing.history import (
    READ_UNCOMMITTED,
    Event,
    Kind,
    Poll,
    Recorder,
    Send,
    dump_event,
    load_event,
    merge,
    read_history,
    write_history,
)
from spark_eos.testing.history.checker import check

from .histories import T0, T1


def test_an_unknown_offset_is_none():
    assert Send(T0, "a", -1) == Send(T0, "a")
    assert Send(T0, "a", 0).offset == 0


def test_invocation_and_completion():
    recorder = Recorder(clock=iter([1.0, 2.0, 3.0, 4.0]).__next__)
    token = recorder.invoke("p", "commit", [Send(T0, "a")], transaction="x", isolation=READ_UNCOMMITTED)
    other = recorder.invoke("q", "poll")
    recorder.ok(token, [Send(T0, "a", 5)], streamed=True)
    recorder.fail(other)
    assert recorder.history == [
        Event(0, 1.0, "p", Kind.INVOKE, "commit", (Send(T0, "a"),), "x", False, READ_UNCOMMITTED),
        Event(1, 2.0, "q", Kind.INVOKE, "poll"),
        Event(2, 3.0, "p", Kind.OK, "commit", (Send(T0, "a", 5),), "x", True, READ_UNCOMMITTED),
        Event(3, 4.0, "q", Kind.FAIL, "poll"),
    ]


def test_without_actions_a_completion_repeats_those_of_the_invocation():
    recorder = Recorder()
    recorder.info(recorder.invoke("p", "send", [Send(T0, "a")]))
    assert [event.actions for event in recorder.history] == [(Send(T0, "a"),)] * 2
    assert recorder.history[1].kind is Kind.INFO


def test_what_was_streamed_at_its_invocation_stays_so():
    recorder = Recorder()
    recorder.ok(recorder.invoke("p", "commit", transaction="x", streamed=True))
    assert [event.streamed for event in recorder.history] == [True, True]


def test_a_call_is_completed_once():
    recorder = Recorder()
    token = recorder.invoke("p", "send")
    recorder.ok(token)
    with pytest.raises(IllegalStateError, match=r"send of p \(event 0\) is not open"):
        recorder.fail(token)
    killed = recorder.invoke("p", "send")
    recorder.invoke("p", "send")
    with pytest.raises(IllegalStateError):
        recorder.ok(killed)
    assert len(recorder.history) == 4


def test_threads_share_a_recorder():
    recorder = Recorder(file=io.StringIO())
    barrier = threading.Barrier(8)

    def work(process):
        barrier.wait()
        for number in range(200):
            recorder.ok(recorder.invoke(process, "send", [Send(T0, (process, number))]))

    threads = [threading.Thread(target=work, args=(f"p{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = recorder.history
    assert [event.index for event in history] == [*range(3200)]
    assert sorted(history, key=lambda event: event.time) == history
    assert check(history).counts["ok"] == 1600


EVENTS = [
    Event(0, 0.5, "p", Kind.INVOKE, "commit", (), "x", True, READ_UNCOMMITTED),
    Event(1, 1.5, "p", Kind.INFO, "commit", (Send(T0, "ä"), Send(T1, b"\xff", 3)), "x"),
    Event(2, 2.5, "q", Kind.OK, "poll", (Poll(T0, ((1, ("a", 1, None)), (2, 1.5)), True, True, 9, 2),)),
]


@pytest.mark.parametrize("event", EVENTS)
def test_json_round_trip(event):
    line = dump_event(event)
    assert "\n" not in line
    assert load_event(line) == event


def test_values_that_json_cannot_hold_are_refused():
    with pytest.raises(InvalidRequestError, match="frozenset"):
        dump_event(Event(0, 0.0, "p", Kind.INVOKE, "send", (Send(T0, frozenset()),)))


def test_file_round_trip(tmp_path):
    write_history(tmp_path / "h", EVENTS)
    assert read_history(tmp_path / "h") == EVENTS


def test_what_was_recorded_is_in_the_file_at_once(tmp_path):
    with (tmp_path / "h").open("w", encoding="utf-8") as file:
        recorder = Recorder(file=file)
        recorder.ok(recorder.invoke("p", "send", [Send(T0, "a")]), [Send(T0, "a", 1)])
        assert read_history(tmp_path / "h") == recorder.history


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    write_history(tmp_path / "h", EVENTS)
    text = (tmp_path / "h").read_text(encoding="utf-8")
    (tmp_path / "h").write_text(text[:-1], encoding="utf-8")
    assert read_history(tmp_path / "h") == EVENTS[:2]


@pytest.mark.parametrize("line", ["{", "{}", json.dumps({"kind": "odd", "actions": []}), "[]"])
def test_any_other_broken_line_is_refused(tmp_path, line):
    (tmp_path / "h").write_text(f"{dump_event(EVENTS[0])}\n{line}\n", encoding="utf-8")
    with pytest.raises(InvalidRequestError, match="line 2"):
        read_history(tmp_path / "h")


def test_merge_orders_by_time_and_numbers_anew():
    merged = merge([EVENTS[0], EVENTS[1]], [Event(0, 1.0, "r", Kind.INVOKE, "x"), EVENTS[2]])
    assert [(event.index, event.time) for event in merged] == [(0, 0.5), (1, 1.0), (2, 1.5), (3, 2.5)]


def test_merge_keeps_the_order_of_each_and_claims_none_at_the_same_time():
    def events(process, *kinds):
        return [Event(index, 1.0, process, kind, "x") for index, kind in enumerate(kinds)]

    merged = merge(events("p", Kind.INVOKE, Kind.OK, Kind.INVOKE), events("q", Kind.INVOKE, Kind.OK))
    assert [(event.process, event.kind) for event in merged] == [
        ("p", Kind.INVOKE),
        ("q", Kind.INVOKE),
        ("p", Kind.OK),
        ("p", Kind.INVOKE),
        ("q", Kind.OK),
    ]
