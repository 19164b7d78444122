"""The rules of a move of data files: one at a time, by its own number, and copied before the old place is left."""

from __future__ import annotations

import pytest

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.data_place import place_beside
from spark_eos.protocol.rules.apply import Accepted, apply_entry
from spark_eos.protocol.state import EMPTY


@pytest.fixture
def state():
    return done(EMPTY, a.CreateLog("log"))


def outcome(state, *actions):
    entry = a.Entry(state.seq + 1, (a.Request(bytes([state.seq + 1]) * 16, 1000, actions),), state.lineage)
    after, (found,) = apply_entry(state, entry)
    return after, found


def done(state, *actions):
    after, found = outcome(state, *actions)
    assert isinstance(found, Accepted), found
    return after


def refused(state, action, match):
    after, found = outcome(state, action)
    assert isinstance(found.error, InvalidRequestError)
    assert match in str(found.error)
    assert (after.data_url, after.data_before, after.data_placed_at) == (
        state.data_url,
        state.data_before,
        state.data_placed_at,
    )


def test_a_move(state):
    state = done(state, a.MoveData("s3://b/data", -1))
    at = state.seq
    assert (state.data_url, state.data_placed_at, state.data_before.url) == ("s3://b/data", at, "")
    assert state.staging_floor <= at, "what is staged at the old place can be committed"
    refused(state, a.DataCopied(at), "staging floor")
    refused(state, a.DataMoved(at), "not all at their new place")
    state = done(state, a.RaiseStagingFloor(at + 1))
    state = done(state, a.DataCopied(at))
    copied = state.seq
    assert done(state, a.DataCopied(at)).data_before.copied_at == copied, "the second mover changes nothing"
    state = done(state, a.DataMoved(at))
    assert state.data_before is None
    refused(state, a.DataMoved(at), "no data files of this log are being moved")


def test_one_at_a_time(state):
    state = done(state, a.MoveData("s3://b/one", -1))
    refused(state, a.MoveData("s3://b/two", state.data_placed_at), "end that move first")
    refused(state, a.MoveData("s3://b/two", -1), "after this move was planned")
    refused(state, a.DataCopied(state.data_placed_at - 1), "after this move was planned")


def test_places(state):
    refused(state, a.MoveData("", -1), "cannot be moved to ''")
    refused(state, a.MoveData("./_data/7", -1), "never used before")
    state = done(state, a.MoveData(place_beside(-1), -1))
    assert state.data_url == "./_data/0"
    refused(state, a.MoveData("s3://b/\x01", state.data_placed_at), "control characters")
