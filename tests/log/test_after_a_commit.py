"""What goes wrong after a durable entry never reaches its writer."""

from __future__ import annotations

import logging

import pytest

from spark_eos.log.clock import Retry
from spark_eos.log.commit.group import CommitGroup
from spark_eos.log.expiration import ExpirationTask
from spark_eos.log.log import Log
from spark_eos.log.snapshots.maintenance import BackgroundMaintenance, Retirer
from spark_eos.log.snapshots.snapshots import Snapshots
from spark_eos.protocol.actions import AlterLog
from spark_eos.storage.memory import MemoryStore
from verification.retiring import RETIRED_AT_ONCE

from .fakes import FakeClock

ERRORS = [OverflowError("x"), MemoryError(), OSError("x"), RecursionError(), KeyError("x")]
PLACES = {
    "snapshots after a boundary": (Snapshots, "write"),
    "old snapshots": (Snapshots, "drop_old"),
    "entries": (Retirer, "left"),
    "what is behind a boundary": (Snapshots, "passed"),
    "telling others": (CommitGroup, "publish"),
    "leaving others": (CommitGroup, "release_lead"),
}


class Clock(FakeClock):
    """A second passes with every commit."""

    def unique(self):
        self.now += 1
        return super().unique()


def created():
    return Log.create(
        MemoryStore(), Clock(), Retry(deadline_s=10), snapshot_interval=2, config=RETIRED_AT_ONCE
    )


@pytest.fixture
def log():
    return created()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_durable_commit_is_acknowledged(monkeypatch, caplog, place, error):
    calls = []

    def fail(*_, **__):
        calls.append(1)
        raise error

    cls, name = PLACES[place]
    assert hasattr(cls, name)
    monkeypatch.setattr(cls, name, fail)
    log = created()
    with caplog.at_level(logging.WARNING):
        for number in range(1, 8):
            committed = log.commit(lambda _: (AlterLog((("producer.id.expiration.ms", "5"),)),))
            assert committed.seq == number
            assert log.state.seq == number
    assert calls
    if place != "telling others":  # Who is not told looks for himself.
        assert "failed" in caplog.text


@pytest.mark.parametrize("step", ["_watch", "overdue"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_expire_overdue_behind_a_commit_raises_nothing(log, monkeypatch, caplog, error, step):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(ExpirationTask, step, fail)
    log.expire_overdue()
    log.clock.now += 7200
    with caplog.at_level(logging.WARNING):
        assert log.expire_overdue() == ()
    assert "was not ended" in caplog.text
    with pytest.raises(type(error)):
        log.expire_overdue(everything=True)


def test_an_interrupt_is_no_failure(log, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(BackgroundMaintenance, "_step", interrupt)
    log.clock.now += 60
    with pytest.raises(KeyboardInterrupt):
        log.commit(lambda _: (AlterLog(()),))


def test_what_cannot_be_sealed_is_never_written(log, monkeypatch):
    """The state after an entry is made before the entry is: what fails there would fail for every reader."""

    def fail(*_):
        raise OverflowError("x")

    before = log.state
    monkeypatch.setattr("spark_eos.log.commit.loop.state_after", fail)
    with pytest.raises(OverflowError):
        log.commit(lambda _: (AlterLog(()),))
    monkeypatch.undo()
    assert log.follow() == before
    assert log.commit(lambda _: (AlterLog(()),)).seq == before.seq + 1
