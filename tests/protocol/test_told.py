"""What the trail is told: what a request has changed, once, and nothing of what was so before."""

from __future__ import annotations

import pytest

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.actions import (
    AlterLog,
    AlterTopic,
    CommitOffsets,
    DataCopied,
    DataMoved,
    DeleteOffsets,
    ExpireOffsets,
    ExpireTransactionalIds,
    JoinGroup,
    LeaveGroup,
    MarkEncrypted,
    MoveData,
    PlaceData,
    RaiseStagingFloor,
)
from spark_eos.protocol.actions.declaration import DECLARED
from spark_eos.protocol.types import ADMIN
from tests.protocol.test_expiry import DAY_MS

SETTINGS = (("health.lag.max.ms", "5"),)


def told(log, *actions, writer="test"):
    """What one request adds to the trail, and what the same one adds when it comes once more."""
    texts = []
    for _ in range(2):
        before = log.state.trail
        log.do(*actions, writer=writer)
        events = [event for event in log.state.trail if event not in before]
        texts.append([(event.what, event.name, event.text, event.times) for event in events])
    return texts


@pytest.fixture
def week_later(log):
    """Offsets of two partitions that group ``g`` committed, and a transactional.id; all of it is old."""
    log.init()
    log.do(CommitOffsets("g", (log.at(1), log.at(1, 1))))
    log.now += 7 * DAY_MS
    log.topic("clock")
    return log


def test_an_id_expires_once(week_later):
    expiring = ExpireTransactionalIds(("tx", "never", "tx"))
    assert told(week_later, expiring) == [[("transactional.id expired", "tx", "", 1)], []]


def test_a_group_expires_once(week_later):
    log = week_later
    some, others = ExpireOffsets("g", (("t", 0), ("t", 9))), ExpireOffsets("g", (("t", 0), ("t", 1)))
    assert told(log, some) == [[("offsets of a group expired", "g", "t-0", 1)], []]
    assert told(log, others) == [[("group expired", "g", "offsets of 1 partition", 1)], []]


def test_settings_that_stay_are_not_altered(log):
    assert told(log, AlterLog(SETTINGS)) == [
        [("settings of the log altered", "", "health.lag.max.ms=5 (was not set)", 1)],
        [],
    ]
    assert told(log, AlterTopic("t", "t-id", 3, (("retention.ms", "1"),))) == [
        [("topic altered", "t", "partitions: 3 (was 2); retention.ms=1 (was not set)", 1)],
        [],
    ]


def test_offsets_are_deleted_once(log):
    log.do(CommitOffsets("g", (log.at(1), log.at(1, 1))))
    some = DeleteOffsets("g", (("t", 0), ("t", 9)))
    assert told(log, some) == [[("offsets of a group deleted", "g", "t-0", 1)], []]
    log.now += DAY_MS  # Else it is the same event.
    assert told(log, DeleteOffsets("g")) == [[("offsets of a group deleted", "g", "all", 1)], []]


def test_no_offsets_are_none_that_were_set(log):
    assert told(log, CommitOffsets("g", ()), writer=ADMIN) == [[], []]


def test_a_member_is_removed_once(log):
    log.do(JoinGroup("g", "a", ("t",), ("range",), 50))
    assert told(log, LeaveGroup("g", ("a", "a")), writer=ADMIN) == [[("member removed", "g", "a", 1)], []]


def test_encryption_begins_once(log):
    assert told(log, MarkEncrypted("k")) == [[("encryption begun", "", "with key k", 1)], []]


def test_the_same_place_is_not_told(log):
    assert told(log, PlaceData("s3://bucket/data")) == [[("data placed", "", "s3://bucket/data", 1)], []]


SECRET, PLACE = "s3://key:secret@bucket/data?signature=secret#secret", "s3://bucket/data"


def test_what_may_be_secret_in_a_place_is_not_told(log):
    def text(*actions):
        log.do(*actions)
        return log.state.trail[-1].text

    for action in (PlaceData(SECRET), MoveData(SECRET, 0)):
        assert DECLARED[type(action)].show(action)["url"] == PLACE, "in a dump, and on the page"
    assert text(PlaceData(SECRET)) == PLACE
    assert text(PlaceData("")) == "beside the entries"
    assert text(MoveData(SECRET, log.state.data_placed_at)) == f"to {PLACE}"
    moved = log.state.data_placed_at
    assert text(RaiseStagingFloor(moved + 1), DataCopied(moved), DataMoved(moved)) == f"to {PLACE}"
    for url, was in ((SECRET, "not set"), (f"{SECRET}2", PLACE)):
        config = (("schema.registry.url", url),)
        assert text(AlterTopic("t", "t-id", config=config)) == f"schema.registry.url={PLACE} (was {was})"


def test_a_request_that_cannot_be_told_is_rejected(log, monkeypatch):
    """As one that a rule fails on: the entry is there, and every reader of the log applies it."""
    declared = DECLARED[AlterLog]._replace(tell=lambda *_: [{}["missing"]])
    monkeypatch.setitem(DECLARED, AlterLog, declared)
    with pytest.raises(InvalidRequestError, match=r"makes no sense to a rule: KeyError"):
        log.do(AlterLog(SETTINGS))
    assert not log.state.config
