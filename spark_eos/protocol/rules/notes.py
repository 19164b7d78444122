"""What ``eoslog verify --note`` and ``eoslog backup --note`` leave in the log: versions of jobs, without rows. Pure.

A note says that a job has ended then, by the log's time. It does not say what became of a backup since, and a copy of a
log has the notes of the other one. `SetAppVersion` is the action: what it needs is a name, a number and the time.
"""

from __future__ import annotations

from spark_eos.protocol.actions import SetAppVersion
from spark_eos.protocol.state import State

BACKUP, VERIFY, SOUND = "eoslog backup", "eoslog verify", "eoslog verify: sound"


def note_actions(state: State, job: str, *results: str) -> tuple[SetAppVersion, ...]:
    """The actions that note that ``job`` has ended now, with these results."""
    note = state.app_versions.get((job, ""))
    number = 1 if note is None else note.version + 1
    return tuple(SetAppVersion(name, number) for name in (job, *results))


def noted_ms(state: State, job: str) -> int | None:
    """When ``job`` has ended the last time; None if no note says so."""
    note = state.app_versions.get((job, ""))
    return None if note is None else note.timestamp_ms


def is_damaged(state: State) -> bool:
    """Whether the last verification has found something wrong, as far as notes say."""
    last, sound = (state.app_versions.get((job, "")) for job in (VERIFY, SOUND))
    return last is not None and (sound is None or sound.version < last.version)
