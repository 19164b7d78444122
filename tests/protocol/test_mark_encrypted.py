"""The mark of an encrypted log: it stays, plain files from before it are refused, and nothing is published."""

from __future__ import annotations

import pytest

from spark_eos.errors import InvalidRequestError, StagedFileExpiredError
from spark_eos.protocol.actions import CreatePublication, DropPublication, MarkEncrypted
from spark_eos.protocol.actions.appends import check_floor
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.invariants import InvariantError, check_later
from spark_eos.protocol.replace import replace


def published(log):
    topic = log.state.topics["t"]
    return CreatePublication("lake", "delta", (), (("t", topic.topic_id),))


@pytest.fixture
def marked(log):
    log.do(MarkEncrypted("one"))
    return log


def test_the_first_mark_stays(marked):
    at = marked.state.seq
    marked.do(MarkEncrypted("two"))
    assert (marked.state.encrypted_at, marked.state.encryption_key_id) == (at, "one")


def test_a_file_that_was_staged_before_the_mark_is_refused(marked):
    at = marked.state.encrypted_at
    assert marked.state.staging_floor == at + 1
    with pytest.raises(StagedFileExpiredError, match=r"encrypted \(key 'one'\).*encryption\.keys"):
        check_floor(marked.state, f"data/t/{at:020d}-a.arrow")
    check_floor(marked.state, f"data/t/{at + 1:020d}-a.arrow")


def test_a_key_id_is_checked(log):
    for bad in ("", "é", "x" * 121):
        with pytest.raises(InvalidRequestError, match="1 to 120 characters"):
            log.do(MarkEncrypted(bad))
    assert log.state.encrypted_at == -1


def test_an_encrypted_log_is_not_published(marked):
    with pytest.raises(InvalidRequestError, match=r"'lake'.*encrypted since entry"):
        marked.do(published(marked))


def test_a_published_log_is_not_encrypted(log):
    log.do(published(log))
    with pytest.raises(InvalidRequestError, match=r"publication 'lake'.*eoslog tables drop"):
        log.do(MarkEncrypted("one"))
    assert log.state.encrypted_at == -1
    log.do(DropPublication("lake"))
    log.do(MarkEncrypted("one"))
    assert log.state.encrypted_at == log.state.seq


def test_snapshots_keep_the_mark(marked):
    state = marked.state
    assert decode_snapshot(encode_snapshot(state), state.seq, "x") == state
    with pytest.raises(InvariantError, match="encrypted_at"):
        check_later(state, replace(state, encrypted_at=-1))
