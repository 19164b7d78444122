"""Breaks of reading a whole topic by its sealed files, and of streams that begin at a version of a table."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_RESOLUTION, _STAMPS = "spark_eos/spark/source/offset_resolution.py", "spark_eos/tables/stamps.py"

# No test that is named here starts Spark.
_OF_STARTS = ("tests/spark/test_starting_table.py", "tests/tables/test_stamps.py")
_OF_PLANS = ("tests/log/test_sealed.py",)

MUTANTS = (
    Mutant(
        "table-of-another-log",
        _RESOLUTION,
        "    if stamp.log_id != log.log_id:",
        "    if False:",
        "a stream begins at the offsets of another log's table",
        _OF_STARTS,
    ),
    Mutant(
        "table-of-a-topic-that-was",
        _RESOLUTION,
        "    if topic is None or topic.topic_id != stamp.topic_id:",
        "    if topic is None:",
        "a stream begins at the offsets of a deleted topic of that name",
        _OF_STARTS,
    ),
    Mutant(
        "newer-partitions-from-their-end",
        _RESOLUTION,
        "        wanted, default = _of_table(options, log, partitions), EARLIEST",
        "        wanted = _of_table(options, log, partitions)",
        "partitions that the version does not have are read from their end: their records are passed over",
        _OF_STARTS,
    ),
    Mutant(
        "another-version-of-the-table",
        _STAMPS,
        "        if version is not None and native != version:\n            continue\n",
        "",
        "an Iceberg table's newest version is taken for the one that was named",
        _OF_STARTS,
    ),
    Mutant(
        "file-cut-at-its-end",
        "spark_eos/log/selection/sealed.py",
        "    return position == file.size - file.footer",
        "    return True",
        "a file whose last row groups are not in the read is read whole",
        _OF_PLANS,
    ),
    Mutant(
        "row-group-cut",
        "spark_eos/log/selection/sealed.py",
        "(fetch.skip, fetch.count) == (0, fetch.batch.count)):",
        "True):",
        "a file is read whole of whose last row group only a part is in the read",
        _OF_PLANS,
    ),
    Mutant(
        "ranges-over-a-sealed-file",
        "spark_eos/log/selection/sealed.py",
        "            if not ranges or between:",
        "            if not ranges:",
        "the records of a sealed file between two others are read twice",
        _OF_PLANS,
    ),
)
