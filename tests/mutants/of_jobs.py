"""Breaks of batch jobs that are repeated, and of several frames in one commit."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_VERSIONS = "spark_eos/protocol/actions/app_versions.py"
_OF_VERSIONS = ("tests/protocol/test_app_versions.py",)

MUTANTS = (
    Mutant(
        "version-written-twice",
        _VERSIONS,
        "    if is_committed(state, action):\n        raise",
        "    if False:\n        raise",
        "a version of a job that two processes write is there twice",
        _OF_VERSIONS,
    ),
    Mutant(
        "older-version-written",
        _VERSIONS,
        "action.version <= known.version",
        "action.version == known.version",
        "a job that repeats an older version writes its rows a second time",
        _OF_VERSIONS,
    ),
    Mutant(
        "versions-of-all-topics",
        _VERSIONS,
        '    known = state.app_versions.get((action.app_id, action.topic_id or ""))',
        "    known = max((one for (app, _), one in state.app_versions.items() if app == action.app_id), default=None)",
        "a job that writes one version to two topics writes only the first",
        _OF_VERSIONS,
    ),
    Mutant(
        "versions-outlive-their-topic",
        "spark_eos/protocol/actions/topics.py",
        "[key for key in state.app_versions if key[1] == topic.topic_id]",
        "[]",
        "the versions of deleted topics stay for ever",
        _OF_VERSIONS,
    ),
    Mutant(
        "fate-of-another-version",
        _VERSIONS,
        "    return Fate.UNKNOWN if is_committed(state, action) else Fate.NOT_APPLIED",
        "    return Fate.APPLIED if is_committed(state, action) else Fate.NOT_APPLIED",
        "a lost request counts as done because another process has written the version",
        _OF_VERSIONS,
    ),
)
