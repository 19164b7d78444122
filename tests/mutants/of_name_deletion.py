"""Breaks of the names of retired entries that are deleted, and of the tail that is rolled."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_RETIRED, _TAIL = "spark_eos/maintenance/name_deletion.py", "spark_eos/log/commit/tail.py"
_COMMIT, _ROLLING = "spark_eos/log/commit/loop.py", "spark_eos/maintenance/rolling.py"

_DIVERGENCE = "spark_eos/log/commit/divergence.py"
_OF_DIVERGENCE = ("tests/log/test_divergence.py",)
_OF_RETIRED = ("tests/maintenance/test_name_deletion.py",)
# Hypothesis takes minutes to make an example small.
_OF_ROLLING = ("tests/maintenance/test_rolling.py", "-k", "not any_history")

MUTANTS = (
    # -- names of retired entries ------------------------------------------------------------------------
    Mutant(
        "names-go-at-once",
        _RETIRED,
        "if milestone.time_ms <= now_ms - self._after_ms",
        "if True",
        "names of entries are deleted as soon as they are retired",
        _OF_RETIRED,
    ),
    Mutant(
        "names-as-soon-as-you-like",
        _RETIRED,
        "        if after_s < least_s:",
        "        if after_s < 0:",
        "names of entries may be deleted before a sleeper notices that it slept",
        _OF_RETIRED,
    ),
    Mutant(
        "reader-believes-a-free-slot",
        _TAIL,
        "                if self._skipped_ahead(reading) or (data is None and opening and self._has_become_a_log()):",
        "                if data is None and opening and self._has_become_a_log():",
        "who slept takes a deleted name for the end of the log, or a stray for an entry",
        _OF_RETIRED,
    ),
    Mutant(
        "name-of-the-last-look-is-kept-for-ever",
        _DIVERGENCE,
        "                if self._is_in_newest_snapshot(then, state):\n                    continue\n",
        "",
        "a log counts as put back because the name of an entry of a day ago was deleted",
        _OF_DIVERGENCE,
    ),
    Mutant(
        "deleted-name-says-that-all-is-well",
        _DIVERGENCE,
        "                    continue\n",
        "                    break\n",
        "the newest entry is not looked at when the name of the last look was deleted",
        _OF_DIVERGENCE,
    ),
    Mutant(
        "any-snapshot-stands-for-the-last-look",
        _DIVERGENCE,
        "if snapshot is None or snapshot.seq <= then.seq:",
        "if snapshot is None:",
        "a snapshot of before the last look stands for an entry that is gone",
        _OF_DIVERGENCE,
    ),
    Mutant(
        "snapshot-of-any-history-stands-for-the-last-look",
        _DIVERGENCE,
        "        return is_in_history(newer, older)",
        "        return True",
        "a snapshot of another history stands for an entry that is gone",
        _OF_DIVERGENCE,
    ),
    Mutant(
        "stray-is-another-history",
        _DIVERGENCE,
        "                if away() and self._is_covered(state.seq):\n                    return  # Its name may",
        "                if False:\n                    return  # Its name may",
        "who slept takes what another sleeper left in place of its newest entry for another history",
        _OF_RETIRED,
    ),
    Mutant(
        "sleeper-lost-what-it-created",
        _DIVERGENCE,
        "            if away() and self._is_covered(seq):\n",
        "            if False:\n",
        "a process that slept after its create says that nothing of it is in the log, though it is",
        _OF_RETIRED,
    ),
    Mutant(
        "sleeper-is-in-any-history",
        _DIVERGENCE,
        "                if away() and self._is_covered(state.seq):\n                    return  # Its name may",
        "                if away():\n                    return  # Its name may",
        "who slept does not look whether the log was put back meanwhile",
        _OF_DIVERGENCE,
    ),
    Mutant(
        "writer-believes-its-create",
        "spark_eos/log/commit/loop.py",
        "        elif not self._tail.is_covered_by_snapshot(entry.seq, draft.as_of):",
        "        else:",
        "who slept takes it for a commit that it could fill a slot whose name was deleted",
        _OF_RETIRED,
    ),
    Mutant(
        "only-the-monotonic-clock",
        _TAIL,
        " > seconds or now.wall_s",
        " > seconds and now.wall_s",
        "who was suspended, or whose clock was set, does not notice that it slept",
        _OF_RETIRED,
    ),
    Mutant(
        "away-all-the-time",
        _TAIL,
        "                self._as_of = since\n                self._newest_s",
        "                self._newest_s",
        "who only writes looks for snapshots at every commit after an hour",
        _OF_RETIRED,
    ),
    # -- the tail ------------------------------------------------------------------------------------------
    Mutant(
        "open-tail-replaced",
        "spark_eos/protocol/rules/sealing.py",
        "    count = min(ready(partition), tail.find(offset))",
        "    count = tail.find(offset)",
        "segments of an open transaction are rewritten, and stay if it is aborted",
        ("tests/protocol/test_sealing.py", "-k", "not any_history"),
    ),
    Mutant(
        "tail-not-rolled",
        _ROLLING,
        "        if ready(partition) >= self._tail_rows:",
        "        if False:",
        "the newest batches are never rolled, however many",
        _OF_ROLLING,
    ),
    Mutant(
        "a-lagging-sleeper-has-diverged",
        _TAIL,
        "            return not self._was_away() and self._divergence.is_undisturbed(self._state)\n",
        "            return self._divergence.is_undisturbed(self._state)\n",
        "a process lags and sleeps for days; then each of its commits fails with DivergedLogError",
        ("tests/log/test_lagging.py",),
    ),
)
