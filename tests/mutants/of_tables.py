"""Breaks of the publisher, and of Delta tables."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_PUBLISHER, _PLANNER = "spark_eos/extensions/tables/publisher.py", "spark_eos/extensions/tables/planner.py"
_STATS, _DELTA = "spark_eos/extensions/tables/delta/stats.py", "spark_eos/extensions/tables/delta/target.py"
_COMPACTED, _COLUMNS = "spark_eos/extensions/tables/compacted.py", "spark_eos/extensions/tables/columns.py"
_OF_PLANNER = ("tests/extensions/tables/test_planner.py",)
_OF_STATS = ("tests/extensions/tables/test_delta_stats.py",)
_OF_PLACES = ("tests/extensions/tables/test_places.py",)
_OF_PUBLISHER = (
    "tests/extensions/tables/test_publisher.py",
    "-k",
    "not bucket and not killed and not growing",
)

MUTANTS = (
    Mutant(
        "part-of-a-file-published",
        _PLANNER,
        "            if (run.position, run.end) != (_FIRST, run.file.size - run.file.footer):",
        "            if run.position > run.end:",
        "a table takes a file with records that the log has deleted",
        _OF_PLANNER,
    ),
    Mutant(
        "file-across-the-end-published",
        _PLANNER,
        "            if run.base_offset < pin.start or run.next_offset > pin.end:",
        "            if run.base_offset < pin.start:",
        "a table takes a file with records after its entry",
        _OF_PLANNER,
    ),
    Mutant(
        "file-of-other-columns-published",
        _COLUMNS,
        "    return all(shapes.get(field.name) == _shape(field) for field in layout_of(topic, old).fields)",
        "    return True",
        "files from before a column was renamed stay in the table",
        _OF_PUBLISHER,
    ),
    Mutant(
        "upper-bound-cut-off",
        _STATS,
        "            return text[: end - 1] + chr(point)",
        "            return text[:end]",
        "readers leave out files with texts longer than a bound",
        _OF_STATS,
    ),
    Mutant(
        "a-folder-that-is-taken-for-another",
        _DELTA,
        "        if refused := re.search(",
        "        if refused := re.fullmatch(",
        "a table is written into another folder, and taken for that of another program",
        _OF_PLACES,
    ),
    Mutant(
        "bounds-in-surrogates",
        _STATS,
        "json.dumps(value, ensure_ascii=False)",
        "json.dumps(value)",
        "readers leave out files with texts from U+100000 up",
        _OF_STATS,
    ),
    Mutant(
        "a-bound-missing-beside-others",
        _STATS,
        '            return _json({"numRecords": footer.num_rows})\n',
        "            pass\n",
        "readers leave out files with a time of no calendar",
        _OF_STATS,
    ),
    Mutant(
        "bounds-that-delta-rs-makes-wrong",
        _DELTA,
        "by_delta_rs=isinstance(change, RowChange)",
        "by_delta_rs=False",
        "a merge ends with a date of no calendar, or hides it",
        ("tests/extensions/tables/test_delta.py", "-k", "not bucket"),
    ),
    Mutant(
        "bounds-of-some-row-groups",
        _STATS,
        "        elif column_stats.null_count != group.num_rows:\n            bounded = False",
        "        elif column_stats.null_count != group.num_rows:\n            pass",
        "the bounds of a file leave out the row groups without any",
        _OF_STATS,
    ),
    Mutant(
        "delta-commits-again",
        _DELTA,
        "            custom_metadata=stamp.properties(), max_commit_retries=0, app_transactions=[transaction]",
        "            custom_metadata=stamp.properties(), max_commit_retries=9, app_transactions=[]",
        "of two publishers both commit",
        ("tests/extensions/tables/test_delta.py", "-k", "not bucket"),
    ),
    Mutant(
        "file-replaced-by-itself",
        _DELTA,
        "            self._check_new(change)\n",
        "",
        "a commit removes a file and adds it at once",
        ("tests/extensions/tables/test_delta.py", "-k", "not bucket"),
    ),
    Mutant(
        "intent-not-finished",
        _PUBLISHER,
        "        is_new = publication.begun is not None\n",
        "        is_new = False\n",
        "a publisher does not finish what another one has begun",
        ("tests/extensions/tables/test_publisher.py", "-k", "killed"),
    ),
    Mutant(
        "lost-table-not-seen",
        _PUBLISHER,
        "            if current is None or current.stamp != self._contents.stamp(publication, version, name):",
        "            if current is not None and current.stamp != self._contents.stamp(publication, version, name):",
        "a table that is lost stays so until the topic has new records",
        _OF_PUBLISHER,
    ),
    Mutant(
        "paused-publisher-removes-the-table",
        _PUBLISHER,
        "        self._take_over()\n        if why:\n",
        "        if why:\n",
        "a publisher that was paused removes the tables of the one after it",
        _OF_PUBLISHER,
    ),
    Mutant(
        "table-of-another-program-replaced",
        _PUBLISHER,
        "                self._check_free(name)\n            return False",
        "                pass\n            return False",
        "publishing goes on where another program has a table",
        _OF_PUBLISHER,
    ),
    Mutant(
        "removed-tombstones-missed",
        _COMPACTED,
        " and not _may_lack_tombstones(log, topic, newer, last):",
        ":",
        "a key stays in the table whose tombstone compaction has removed",
        ("tests/extensions/tables/test_compacted.py",),
    ),
    Mutant(
        "altered-topic-merged",
        _COMPACTED,
        "if not _was_altered(log.state, topic, last) and not",
        "if not",
        "rows stay in the table that have the key of others since the topic was altered",
        ("tests/extensions/tables/test_compacted.py",),
    ),
    Mutant(
        "another-programs-table-is-damaged",
        _DELTA,
        "not reached and native and self._is_published():",
        "not reached and native:",
        "the table of another program is removed, if it has two versions",
        _OF_PLACES,
    ),
    Mutant(
        "refusal-is-damage",
        _DELTA,
        "if _OF_STORE.search(str(error)) and not _MISSING.search(str(error)):",
        "if False:",
        "a table loses its earlier versions because a store has refused a request",
        _OF_PLACES,
    ),
    Mutant(
        "publisher-of-a-dropped-publication",
        _PUBLISHER,
        "        if publication.first != self._first:",
        "        if False:",
        "maintenance publishes where the tables of a dropped publication were",
        _OF_PLACES,
    ),
)
