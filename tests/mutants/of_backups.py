"""Breaks of incremental backups, and of copies by several processes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_SEALED, _HISTORY = "spark_eos/extensions/backup/sealed.py", "spark_eos/extensions/backup/history.py"
_COPYING = "spark_eos/maintenance/copying.py"
_OF_GROWTH = ("tests/extensions/backup/test_growth.py",)
_OF_SLEEP = ("tests/extensions/backup/test_copy_asleep.py",)

_PLACED = "    plan += placing_entry(fixed.state, place, clock)\n"
_SNAPSHOT = """\
    if fixed.base is not None:
        # All who write a snapshot write the same bytes. The log may have dropped this one meanwhile.
        plan.append((paths.snapshot(fixed.base.seq), pa.py_buffer(encode_snapshot(fixed.base))))
"""

MUTANTS = (
    # -- what an increment costs ------------------------------------------------------------------------
    Mutant(
        "backup-reads-all-pages",
        _SEALED,
        "        if inside is None:\n",
        "        if True:\n",
        "an increment reads the whole index",
        _OF_GROWTH,
    ),
    Mutant(
        "backup-keeps-what-lies-before-the-start",
        _SEALED,
        "            if page.base_offset >= start and (end is None or page.next_offset <= end) and not page.is_held:",
        "            if not page.is_held:",
        "files of deleted records stay in the backups",
        _OF_GROWTH,
    ),
    Mutant(
        "backup-trusts-a-page-with-a-missing-file",
        _SEALED,
        "                below = [self._stored_files[inner]] if inner in self._stored_files else None",
        "                below = [self._stored_files[inner]] if inner in self._stored_files else []",
        "a file that the repository has lost is not copied again",
        _OF_GROWTH,
    ),
    Mutant(
        "backup-packs-stay",
        _HISTORY,
        "    while new > 0 and remaining",
        "    while new < 0 and remaining",
        "without snapshots each backup reads as many packs as there are backups",
        _OF_GROWTH,
    ),
    Mutant(
        "backup-reads-all-manifests",
        "spark_eos/extensions/backup/repository.py",
        "self._summaries([id_ for id_ in ids if _may_have(id_, name)])",
        "self._summaries(self.ids())",
        "each backup reads the manifests of all others to compare names",
        _OF_GROWTH,
    ),
    # -- copies by several processes --------------------------------------------------------------------
    Mutant(
        "copies-by-two-plans",
        _COPYING,
        "    return _planned(target) or plan",
        "    return plan",
        "two copies with different ends become one log",
        _OF_SLEEP,
    ),
    Mutant(
        "copy-plan-that-comes-too-late",
        _COPYING,
        "        if is_there(target, paths.entry(0)):\n            target.delete(PLAN)",
        "        if False:\n            target.delete(PLAN)",
        "a copy that slept leaves its plan in a log that is in use",
        _OF_SLEEP,
    ),
    Mutant(
        "copy-marks-a-log-in-use",
        _COPYING,
        "            if is_there(target, paths.entry(0)):\n                target.delete(MARK)",
        "            if False:\n                target.delete(MARK)",
        "a copy that slept goes on in a log that is in use",
        _OF_SLEEP,
    ),
    Mutant(
        "copy-takes-another-log-for-its-own",
        _COPYING,
        "    if made is not None and made != first:",
        "    if False:",
        "a log that a program has made in the place is reported as the copy",
        _OF_SLEEP,
    ),
    Mutant(
        "half-restored-is-no-log",
        "spark_eos/log/handle/unfinished.py",
        "    return unfinished(store) or NotALogError(",
        "    return NotALogError(",
        "a restore that was killed leaves a place of which nothing says what to do with it",
        ("tests/log/test_unfinished.py",),
    ),
    Mutant(
        "entries-after-the-end-are-none",
        "spark_eos/log/time_travel.py",
        "    if not 0 <= seq <= newest.seq:",
        "    if False:",
        "a dump from an entry after the end prints nothing, as if nothing had been written since",
        ("tests/cli/test_history.py",),
    ),
    Mutant(
        "log-made-among-data-files",
        "spark_eos/log/log.py",
        "    of_logs = (paths.LOG, paths.COPY, DATA_MARK)\n",
        "    of_logs = (paths.LOG, paths.COPY)\n",
        "a log is made in the place of another one's data files, which its vacuum deletes",
        ("tests/log/test_two_stores.py", "-k", "among_data"),
    ),
    Mutant(
        "copied-from-where-the-data-was",
        _COPYING,
        "        source = data_place(fixed.state).of(source)  # The data may be moved meanwhile.\n",
        "        source = data_place(fixed.state).of(source) if not missed else source\n",
        "a copy beside a move of the data calls a sound log damaged",
        ("tests/maintenance/test_moving.py", "-k", "while_it_is_copied"),
    ),
    Mutant(
        "log-made-in-a-copy",
        "spark_eos/log/log.py",
        "    of_logs = (paths.LOG, paths.COPY, DATA_MARK)\n",
        "    of_logs = (paths.LOG, DATA_MARK)\n",
        "a program makes a log of its own in an unfinished copy",
        ("tests/log/test_unfinished.py",),
    ),
    Mutant(
        "copy-in-use-is-never-finished",
        _COPYING,
        "    if snapshot is not None and any(name.startswith(paths.SNAPSHOTS) for name in existing):\n",
        "    if False:\n",
        "a copy that was stopped before entry 0, and is in use, is refused for ever",
        ("tests/maintenance/test_copying.py",),
    ),
    Mutant(
        "copy-can-be-opened-before-its-place-is-known",
        _COPYING,
        _PLACED + _SNAPSHOT,
        _SNAPSHOT + _PLACED,
        "a writer of a copy writes where the log has its data, and takes the entry that would say so",
        ("tests/log/test_two_stores.py",),
    ),
    Mutant(
        "copy-with-what-others-left",
        _COPYING,
        "        _check_unfinished(target, *(name for name in existing if name not in names))",
        "        _check_unfinished(target)",
        "an entry that is none of the copy's lies behind its end",
        _OF_SLEEP,
    ),
)
