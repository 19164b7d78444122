"""Mutants of Parquet segments."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_READER, _PLAN = "spark_eos/log/data/parquet/reader.py", "spark_eos/log/data/parquet/plan.py"

_OF_FILES = ("tests/log/test_parquet_files.py",)
_OF_SEGMENTS = ("tests/maintenance/test_parquet_segments.py",)
_OF_SEALING = ("tests/protocol/test_sealing.py",)

MUTANTS = (
    Mutant(
        "footer-unchecked",
        _READER,
        "        _check(data, file, start, file.footer, file.footer_crc, context)\n",
        "",
        "a damaged footer says where other rows lie",
        _OF_FILES,
    ),
    Mutant(
        "row-group-unchecked",
        _READER,
        "    _check(data, file, batch.position, batch.length, batch.crc, context)\n",
        "",
        "damaged rows are read",
        _OF_FILES,
    ),
    Mutant(
        "parquet-is-appended",
        "spark_eos/protocol/actions/appends.py",
        "    if staged.file.is_parquet:",
        "    if False:",
        "rows are appended that say other offsets than they get",
        ("tests/protocol/test_appends.py",),
    ),
    Mutant(
        "rows-in-the-footer",
        "spark_eos/protocol/actions/segments.py",
        "    end = row.file.size - row.file.footer\n",
        "    end = row.file.size\n",
        "a batch lies in the footer of its file",
        _OF_SEALING,
    ),
    Mutant(
        "cut-batch-is-whole",
        _PLAN,
        "(0 if is_cut else batch.length)",
        "batch.length",
        "a table gets a file with records after the entry that it stands for",
        _OF_SEGMENTS,
    ),
    Mutant(
        "no-bloom-filters",
        "spark_eos/maintenance/segments/form.py",
        "        return ParquetOptions(bloom=bloom)",
        "        return ParquetOptions()",
        "a setting has no effect: files have no bloom filters",
        ("tests/test_settings.py", "-k", "bloom"),
    ),
    Mutant(
        "aborted-records-in-parquet",
        "spark_eos/maintenance/rewrite.py",
        "            parquet = self._form.parquet is not None and fits_parquet(row)\n",
        "            parquet = self._form.parquet is not None\n",
        "a table shows aborted records",
        (*_OF_SEGMENTS, "-k", "aborted"),
    ),
    Mutant(
        "places-unverified",
        "spark_eos/maintenance/verify/data.py",
        '            problem = self._places(row, layout) if row.file.is_parquet else ""',
        '            problem = ""',
        "verify does not notice that a file tells other programs other offsets than the log",
        (*_OF_SEGMENTS, "-k", "something_else"),
    ),
)
