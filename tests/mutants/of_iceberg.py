"""Breaks of Iceberg tables, and of tables of Avro and JSON topics."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_FOLDER = "spark_eos/extensions/tables/iceberg/"
_TARGET, _CLEANUP, _ROWS = (f"{_FOLDER}{name}.py" for name in ("target", "cleanup", "rows"))
_TESTS = ("tests/extensions/tables/test_targets.py", "tests/extensions/tables/test_iceberg.py")

MUTANTS = (
    Mutant(
        "iceberg-bounds-of-some-row-groups",
        f"{_FOLDER}files.py",
        "        return bool(statistics.null_count == column.num_values)\n",
        "        return True\n",
        "readers leave out files that have a long value beside others",
        ("tests/extensions/tables/test_iceberg.py",),
    ),
    Mutant(
        "iceberg-columns-of-one-name",
        f"{_FOLDER}columns.py",
        "            if name in owners:\n",
        "            if name == field.name in owners:\n",
        "a publication is made that can never be published",
        ("tests/extensions/tables/test_iceberg.py",),
    ),
    Mutant(
        "iceberg-bounds-without-nan",
        f"{_FOLDER}files.py",
        "            write_statistics=bounded_leaves(rows.schema),\n",
        "",
        "Spark leaves out NaN, its greatest number",
        ("tests/extensions/tables/test_targets.py",),
    ),
    Mutant(
        "iceberg-commit-made-again",
        _TARGET,
        '        table.metadata.properties[_RETRIES] = "0"\n',
        "",
        "pyiceberg puts a fenced publisher's version on top of a newer one",
        _TESTS,
    ),
    Mutant(
        "iceberg-any-version-before",
        _TARGET,
        "        if current_id != expected.native:\n",
        "        if expected is None:\n",
        "a publisher that was overtaken commits on top of a version that it has not seen",
        _TESTS,
    ),
    Mutant(
        "iceberg-gives-the-logs-files-away",
        _TARGET,
        '"gc.enabled": str(not self._is_shared).lower()',
        '"gc.enabled": "true"',
        "Spark's expire_snapshots deletes files of the log",
        _TESTS,
    ),
    Mutant(
        "iceberg-new-ids-for-old-names",
        _TARGET,
        "        ids = paths_of_mapping(table.name_mapping())\n",
        "        ids: dict[tuple[str, ...], int] = {}\n",
        "an earlier version of the table reads nulls where a column changed its type since",
        _TESTS,
    ),
    Mutant(
        "iceberg-change-by-another-program",
        _TARGET,
        "                if not _is_harmless(snapshot):\n",
        "                if snapshot is None:\n",
        "rows that another program has added stay in the table as if the log had them",
        _TESTS,
    ),
    Mutant(
        "iceberg-cleanup-deletes-shared-files",
        _TARGET,
        'None if self._is_shared else f"{self._address}/"',
        'f"{self._address}/"',
        "the cleanup of a table deletes files of the log",
        _TESTS,
    ),
    Mutant(
        "iceberg-cleanup-deletes-used-manifests",
        _CLEANUP,
        "if path not in live]",
        "]",
        "the newest version of a table cannot be read after a cleanup",
        _TESTS,
    ),
    Mutant(
        "iceberg-merge-keeps-old-rows",
        _ROWS,
        "            numbered = numbered.filter(pc.invert(old))\n",
        "            numbered = numbered.filter(pc.is_valid(old))\n",
        "a table of a compacted topic keeps rows before the log's start",
        _TESTS,
    ),
    Mutant(
        "iceberg-merge-forgets-tombstones",
        _ROWS,
        "change.removed().select(keys)",
        "change.removed().slice(0, 0).select(keys)",
        "a key that was deleted stays in the table of a compacted topic",
        _TESTS,
    ),
    Mutant(
        "decoded-by-an-old-schema",
        "spark_eos/extensions/value_formats/settings.py",
        "(self.format, self.schema, str(self.schema_id), self.writers)",
        "(self.format, str(self.schema_id), self.writers)",
        "a table has rows of the old value.schema beside those of the new one",
        ("tests/extensions/tables/test_decoded.py",),
    ),
    Mutant(
        "decoded-columns-late",
        "spark_eos/extensions/tables/values/decoded.py",
        "        return decoded.are_all(target.files())\n",
        "        return True\n",
        "a table has the columns of a new value.schema only once there are new records",
        ("tests/extensions/tables/test_decoded.py",),
    ),
    Mutant(
        "decoded-beside-older-copies",
        "spark_eos/extensions/tables/values/decoded.py",
        "        whole = not old_files or not self.are_all(old_files)\n",
        "        whole = not old_files\n",
        "a table keeps columns that value.schema has no more",
        ("tests/extensions/tables/test_decoded.py",),
    ),
)
