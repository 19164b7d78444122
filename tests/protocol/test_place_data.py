"""Where data files are: the newest entry that says so counts, and files from before it are refused."""

from __future__ import annotations

import pytest

from spark_eos.errors import InvalidRequestError, StagedFileExpiredError
from spark_eos.protocol.actions import PlaceData
from spark_eos.protocol.actions.appends import check_floor
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.invariants import InvariantError, check_later
from spark_eos.protocol.replace import replace


def test_the_newest_place_counts(log):
    assert (log.state.data_url, log.state.data_placed_at) == ("", -1)
    log.do(PlaceData("s3://bucket/data"))
    at = log.state.seq
    assert (log.state.data_url, log.state.data_placed_at) == ("s3://bucket/data", at)
    log.do(PlaceData("s3://bucket/data"))
    assert log.state.data_placed_at == at, "the same place is no other one"
    log.do(PlaceData(""))
    assert (log.state.data_url, log.state.data_placed_at) == ("", log.state.seq)


def test_a_file_that_was_staged_at_the_place_before_is_refused(log):
    log.do(PlaceData("s3://bucket/data"))
    at = log.state.data_placed_at
    with pytest.raises(
        StagedFileExpiredError, match=f"before entry {at}.*s3://bucket/data: write the rows again"
    ):
        check_floor(log.state, f"data/t/{at:020d}-a.arrow")
    check_floor(log.state, f"data/t/{at + 1:020d}-a.arrow")
    log.do(PlaceData(""))
    with pytest.raises(StagedFileExpiredError, match="beside its entries: write the rows again"):
        check_floor(log.state, f"data/t/{at + 1:020d}-a.arrow")


def test_a_place_is_a_short_text(log):
    for bad in ("x" * 2049, "s3://bucket/\n"):
        with pytest.raises(InvalidRequestError, match="at most 2048 characters"):
            log.do(PlaceData(bad))
    assert log.state.data_placed_at == -1


def test_snapshots_keep_the_place(log):
    log.do(PlaceData("s3://bucket/data"))
    state = log.state
    assert decode_snapshot(encode_snapshot(state), state.seq, "x") == state
    with pytest.raises(InvariantError, match="data_placed_at"):
        check_later(state, replace(state, data_placed_at=-1))
