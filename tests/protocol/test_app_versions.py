"""Versions of batch jobs: what comes a second time is refused as a whole."""

from __future__ import annotations

import pytest

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.actions import AppendBatches, CreateTopic, DeleteTopic, SetAppVersion
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.invariants import InvariantError, check_later
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.fate import Fate, fate_of
from spark_eos.protocol.state import AppVersion
from spark_eos.protocol.types import NO_PRODUCER
from tests.golden.world import kafka


def golden(world):
    """What the golden log of tests has of it."""
    topic = world.create("copies")
    job = SetAppVersion("job", 7, topic.topic_id)
    world.commit(world.append(topic, kafka("job")), job, writer="spark batch")
    world.commit(SetAppVersion("job", 3), writer="spark batch")


def write(log, action, rows=4):
    log.do(*[log.appending(NO_PRODUCER, (0, rows))] * bool(rows), action)


def test_a_version_is_written_once(log):
    write(log, SetAppVersion("job", 1, "t-id"))
    before = log.state
    with pytest.raises(InvalidRequestError, match="txnAppId 'job' has committed version 1, so version 1 was"):
        write(log, SetAppVersion("job", 1, "t-id"))
    assert log.state == before, "the rows went in without their version"
    with pytest.raises(InvalidRequestError, match="version 0 was written before"):
        write(log, SetAppVersion("job", 0, "t-id"))
    write(log, SetAppVersion("job", 7, "t-id"))
    assert log.state.app_versions["job", "t-id"] == AppVersion(7, log.state.timestamp_ms)


def test_each_job_each_topic_and_the_whole_log_have_versions_of_their_own(log):
    log.topic("u", 1)
    for action in (
        SetAppVersion("job", 3, "t-id"),
        SetAppVersion("job", 3, "u-id"),
        SetAppVersion("job", 3),
        SetAppVersion("other", 3, "t-id"),
    ):
        log.do(action)
        with pytest.raises(InvalidRequestError, match="has committed version 3"):
            log.do(action)
    assert {key: known.version for key, known in log.state.app_versions.items()} == {
        ("job", "t-id"): 3,
        ("job", "u-id"): 3,
        ("job", ""): 3,
        ("other", "t-id"): 3,
    }


def test_the_versions_of_a_topic_go_with_it(log):
    log.topic("u", 1)
    log.do(SetAppVersion("job", 3, "t-id"))
    log.do(SetAppVersion("job", 4, "u-id"))
    log.do(SetAppVersion("job", 5))
    log.do(DeleteTopic("t", "t-id"))
    assert sorted(log.state.app_versions) == [("job", ""), ("job", "u-id")]
    with pytest.raises(InvalidRequestError, match="topic id t-id, which is not in the log"):
        log.do(SetAppVersion("job", 6, "t-id"))
    log.do(CreateTopic("t", "t-id-2", 1), SetAppVersion("job", 1, "t-id-2"))


@pytest.mark.parametrize(
    "action", [SetAppVersion("", 1), SetAppVersion("job", -1), SetAppVersion("job", 2**63)]
)
def test_what_is_no_version_is_refused(log, action):
    with pytest.raises(InvalidRequestError):
        log.do(action)


def test_what_a_state_says_of_a_lost_request(log):
    action = SetAppVersion("job", 3, "t-id")
    actions = (log.appending(NO_PRODUCER, (0, 4)), action)
    assert isinstance(actions[0], AppendBatches)
    assert fate_of(log.state, actions) is Fate.NOT_APPLIED
    log.do(SetAppVersion("job", 2, "t-id"))
    assert fate_of(log.state, actions) is Fate.NOT_APPLIED
    log.do(action)
    assert fate_of(log.state, actions) is Fate.UNKNOWN, "another process may have written the version"
    log.do(DeleteTopic("t", "t-id"))
    assert fate_of(log.state, actions) is Fate.UNKNOWN, "the version went with its topic"


def test_a_snapshot_keeps_them(log):
    log.do(SetAppVersion("é", 3, "t-id"))
    log.do(SetAppVersion("job", 2**62))
    assert decode_snapshot(encode_snapshot(log.state), log.state.seq, "snapshot") == log.state


def test_versions_that_go_back_or_vanish_are_found(log):
    log.do(SetAppVersion("job", 3, "t-id"))
    versions = log.state.app_versions
    check_later(log.state, log.state)
    with pytest.raises(InvariantError, match="the version of job 'job' is gone"):
        check_later(log.state, replace(log.state, app_versions=versions.delete(("job", "t-id"))))
    back = versions.set(("job", "t-id"), AppVersion(2, 0))
    with pytest.raises(InvariantError, match="the versions of job 'job' went back"):
        check_later(log.state, replace(log.state, app_versions=back))
