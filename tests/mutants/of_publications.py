"""Breaks of publications: who publishes, what a version pins, and what vacuum leaves of it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_PUBLICATIONS = "spark_eos/protocol/actions/publishing/publications.py"
_VERSIONS = "spark_eos/protocol/actions/publishing/versions.py"
_STATE, _ENCODING = "spark_eos/protocol/state.py", "spark_eos/protocol/encoding/snapshot_publications.py"
_VACUUM, _MARKS = "spark_eos/maintenance/vacuum.py", "spark_eos/maintenance/end_marks.py"
_REACHABLE = "spark_eos/maintenance/reachability.py"

_RULES = ("tests/protocol/test_publications.py",)
_DELTA = ("tests/tables/test_delta.py",)
_FILES = ("tests/maintenance/test_published_files.py",)

MUTANTS = (
    Mutant(
        "publisher-not-fenced",
        _PUBLICATIONS,
        "    if publication.epoch != epoch:",
        "    if publication.epoch < epoch:",
        "a publisher that was replaced begins and ends versions",
        _RULES,
    ),
    Mutant(
        "epochs-of-publishers-come-again",
        _PUBLICATIONS,
        "floor = max(state.publication_floor, publication.epoch + 1, publication.sequence)",
        "floor = 0",
        "a publisher of a dropped publication writes to the next one, and its tables pass for that one's",
        _RULES,
    ),
    Mutant(
        "two-publications-in-one-table",
        _PUBLICATIONS,
        "if other.format == action.format and _place(other.config) == _place(config):",
        "if other.name == action.name:",
        "two publications write to one table",
        _RULES,
    ),
    Mutant(
        "published-topic-deleted",
        "spark_eos/protocol/actions/topics.py",
        "    for publication in state.publications_of(topic.topic_id):",
        "    for publication in ():",
        "a topic goes whose table is published, and the files with it",
        _RULES,
    ),
    Mutant(
        "intent-over-intent",
        _VERSIONS,
        "    if publication.begun is not None:\n",
        "    if publication.begun is not None and publication.begun.sequence > action.sequence:\n",
        "an intent that some tables may have is replaced by another one",
        _RULES,
    ),
    Mutant(
        "version-skipped",
        _VERSIONS,
        "    if action.sequence != publication.sequence + 1:",
        "    if action.sequence <= publication.sequence:",
        "a sequence is left out",
        _RULES,
    ),
    Mutant(
        "version-of-a-later-entry",
        _VERSIONS,
        "<= action.entry <= state.seq:",
        "<= action.entry:",
        "a version stands for an entry that is not written yet",
        _RULES,
    ),
    Mutant(
        "version-of-an-earlier-entry",
        _VERSIONS,
        "    if not (0 if last is None else last.entry) <= action.entry",
        "    if not 0 <= action.entry",
        "tables go back in time",
        _RULES,
    ),
    Mutant(
        "open-transaction-published",
        _VERSIONS,
        "    if not 0 <= start <= end <= partition.last_stable_offset:",
        "    if not 0 <= start <= end <= partition.end:",
        "a table shows records of a transaction that may yet abort",
        _RULES,
    ),
    Mutant(
        "version-lacks-its-first-records",
        _VERSIONS,
        "    if start > partition.start:",
        "    if start > partition.end:",
        "a version lacks the oldest records",
        _RULES,
    ),
    Mutant(
        "deleted-records-pinned",
        _VERSIONS,
        "    if start < partition.start:",
        "    if start < 0:",
        "a version has files that vacuum has deleted",
        _RULES,
    ),
    Mutant(
        "replaced-pages-pinned",
        _VERSIONS,
        "    if not whole or checksum(pages) != wanted.pages:",
        "    if not whole:",
        "the tables have other files than those that are pinned",
        _RULES,
    ),
    Mutant(
        "partition-left-out",
        _VERSIONS,
        "            if pin is None or not pin.is_whole or pin.start != state.partitions[key].start:",
        "            if pin is not None and pin.start != state.partitions[key].start:",
        "a version lacks a partition",
        _RULES,
    ),
    Mutant(
        "kept-range-lost-records",
        _VERSIONS,
        "            if pin is None or not pin.is_whole or pin.start != state.partitions[key].start:",
        "            if pin is None or not pin.is_whole:",
        "a version has records of a partition that were deleted before its entry",
        _RULES,
    ),
    Mutant(
        "last-version-unpinned-too-early",
        _VERSIONS,
        "replace(publication, begun=version)), None",
        "replace(publication, begun=version, published=None)), None",
        "the files of the version that readers have may go before the next one is there",
        _RULES,
    ),
    Mutant(
        "ended-by-another",
        _VERSIONS,
        "    return Fate.APPLIED if alone else Fate.UNKNOWN  #",
        "    return Fate.APPLIED  #",
        "a publisher believes that its request went in, which another one made",
        _RULES,
    ),
    Mutant(
        "pinned-pages-not-stored",
        _STATE,
        "                        if id(page) not in seen:",
        "                        if not page:",
        "a process that starts from a snapshot cannot read what is pinned",
        _FILES,
    ),
    Mutant(
        "snapshot-of-other-pins",
        _ENCODING,
        "tuple([pool(key)[number] for number in numbers])",
        "tuple([pool(key)[0] for number in numbers])",
        "a process that starts from a snapshot pins other pages",
        _RULES,
    ),
    Mutant(
        "pins-not-reached",
        _REACHABLE,
        "    for key, pin in pins(state):\n        partition",
        "    for key, pin in ():\n        partition",
        "vacuum deletes files that a published table has",
        _FILES,
    ),
    Mutant(
        "no-time-for-readers-of-tables",
        _MARKS,
        "        was_there = begun_seq >= 0 and staged_at(name) <= begun_seq",
        "        was_there = begun_seq < 0",
        "readers of the version before lose their files at once",
        _FILES,
    ),
    Mutant(
        "promise-for-every-file",
        _MARKS,
        "        was_there = begun_seq >= 0 and staged_at(name) <= begun_seq",
        "        was_there = begun_seq >= 0",
        "files that were never in a table stay for a week",
        _FILES,
    ),
    Mutant(
        "first-seen-not-noted",
        _VACUUM,
        "            since_ms = seen.get(name, now_ms)",
        "            since_ms = now_ms",
        "what a table has dropped is never deleted",
        _FILES,
    ),
    Mutant(
        "vacuum-waits-for-a-week",
        _VACUUM,
        "            if now_ms >= since_ms + promised_ms:",
        "            if since_ms:",
        "readers of the version before lose their files",
        _FILES,
    ),
    Mutant(
        "files-of-the-table-itself",
        _VACUUM,
        "            if paths.is_segment(info.name) and _is_below(info.name, floor):",
        "            if _is_below(info.name, floor):",
        "vacuum deletes files that only the table knows",
        _FILES,
    ),
    Mutant(
        "copy-without-pins",
        "spark_eos/maintenance/reachability.py",
        "        *(pin.rows(load) for _, pin in pins(state)),\n",
        "",
        "the tables of a copy cannot be published again as they were",
        _FILES,
    ),
    Mutant(
        "pins-not-verified",
        "spark_eos/maintenance/verify/data.py",
        "            self._pinned(state, key, whole)\n",
        "            pass\n",
        "a file that only a table has is missing, and verify finds nothing",
        _FILES,
    ),
    Mutant(
        "versions-counted-from-another",
        "spark_eos/tables/delta_history.py",
        "        if table.version() == native:",
        "        if True:",
        "versions of a table that another process commits to beside are numbered wrongly: they name other entries",
        _DELTA,
    ),
    Mutant(
        "a-merge-of-nothing-is-no-version",
        "spark_eos/tables/delta.py",
        "        if table.version() == before:",
        "        if False:",
        "a compacted topic without new rows is never published",
        _DELTA,
    ),
)
