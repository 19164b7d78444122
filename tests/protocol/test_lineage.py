"""Entries name the history that they were put after, and keep the outcome they had."""

from __future__ import annotations

import pytest

from spark_eos.errors import DivergedLogError
from spark_eos.protocol.actions import CreateLog, CreateTopic, Entry, Request
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.apply import KEPT_LINEAGES, apply_entry, is_in_history
from spark_eos.protocol.state import EMPTY, State
from spark_eos.protocol.types import RULES


def request(number: int, name: str = "") -> Request:
    action = CreateTopic(name, f"{name}-id", 1) if name else CreateLog("log")
    return Request(number.to_bytes(16, "big"), 1000, (action,), "test")


def after(*entries: Entry) -> State:
    state = EMPTY
    for entry in entries:
        state, _ = apply_entry(state, entry)
    return state


CREATED = Entry(0, (request(0),))


def test_an_entry_of_another_history_is_not_applied():
    here, there = after(CREATED, Entry(1, (request(1, "a"),))), after(CREATED, Entry(1, (request(2, "a"),)))
    stray = Entry(2, (request(3, "b"),), there.lineage)
    with pytest.raises(DivergedLogError, match="entry 2 was written after another entry 1"):
        apply_entry(here, stray)
    state, _ = apply_entry(there, stray)
    assert set(state.topics) == {"a", "b"}


def test_two_histories_that_hold_the_same_in_another_order_are_two():
    one = after(CREATED, Entry(1, (request(1, "a"), request(2, "b"))))
    other = after(CREATED, Entry(1, (request(2, "b"), request(1, "a"))))
    split = after(CREATED, Entry(1, (request(1, "a"),)), Entry(2, (request(2, "b"),)))
    assert one.topics == other.topics == split.topics
    assert len({one.lineage, other.lineage, split.lineage}) == 3


def test_a_snapshot_and_an_entry_keep_it():
    state = after(CREATED, Entry(1, (request(1, "a"),)))
    assert decode_snapshot(encode_snapshot(state), 1, "snapshot") == state
    entry = Entry(2, (request(2, "b"),), state.lineage)
    assert decode_entry(encode_entry(entry), 2, "entry") == entry


def test_an_entry_is_judged_by_the_rules_of_its_day():
    assert decode_entry(encode_entry(CREATED), 0, "entry").rules == RULES
    state = after(CREATED)
    assert state.rules == RULES
    state, _ = apply_entry(state, Entry(1, (request(1, "a"),), state.lineage, RULES + 1))
    assert state.rules == RULES + 1
    # An earlier one that lands after it does not bring the earlier rules back.
    late, _ = apply_entry(state, Entry(2, (request(2, "b"),), state.lineage, RULES))
    assert late.rules == RULES + 1
    assert decode_snapshot(encode_snapshot(late), 2, "snapshot").rules == RULES + 1


def test_the_last_entry_alone_does_not_tell():
    same = request(3, "c")
    one = after(CREATED, Entry(1, (request(1, "a"),)), Entry(2, (same,)))
    other = after(CREATED, Entry(1, (request(2, "a"),)), Entry(2, (same,)))
    assert one.lineage != other.lineage


def test_a_state_knows_the_newest_of_its_history():
    history = [after(CREATED)]
    for seq in range(1, KEPT_LINEAGES + 4):
        history.append(apply_entry(history[-1], Entry(seq, (request(seq, f"t{seq}"),)))[0])
    newest = history[-1]
    assert all(is_in_history(newest, one) for one in history)
    for one in history:
        stranger = replace(one, lineage=bytes(16))
        forgotten = newest.seq - one.seq >= KEPT_LINEAGES
        assert is_in_history(newest, stranger) == forgotten, one.seq
    assert len(newest.lineages) == 4 * KEPT_LINEAGES
    assert decode_snapshot(encode_snapshot(newest), newest.seq, "snapshot") == newest
    assert not is_in_history(history[1], replace(history[1], lineage=bytes(16)))
    assert is_in_history(history[1], history[2]), "one that is further tells nothing"
