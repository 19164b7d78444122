"""Breaks of reading a whole topic by its sealed files, and of streams that begin at a version of a table."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_RESOLUTION, _STAMPS = "spark_eos/spark/source/offset_resolution.py", "spark_eos/extensions/tables/stamps.py"

# No test that is named here starts Spark.
_OF_STARTS = ("tests/extensions/tables/test_starting_table.py", "tests/extensions/tables/test_stamps.py")
_OF_PLANS = ("tests/log/test_sealed.py",)

_WHOLE = ("tests/clients/test_whole_transactions.py",)

MUTANTS = (
    Mutant(
        "arrow-readers-split-transactions",
        "spark_eos/clients/arrow_reader.py",
        "    cut = whole_cut(handle, shown_state) if whole_transactions else {}\n",
        "    cut: Cut = {}\n",
        "read_arrow gives a part of a transaction though it is asked for whole ones",
        _WHOLE,
    ),
    Mutant(
        "table-readers-split-transactions",
        "spark_eos/clients/table_plan.py",
        "    cut = whole_cut(handle, shown_state) if whole_transactions else {}\n",
        "    cut: dict[tuple[str, int], int] = {}\n",
        "read_table gives a part of a transaction though it is asked for whole ones",
        _WHOLE,
    ),
    Mutant(
        "batch-reads-split-transactions",
        "spark_eos/spark/source/batch.py",
        "        cut = whole_cut(log, shown.state) if options.whole_transactions else {}\n",
        "        cut: dict[tuple[str, int], int] = {}\n",
        "a batch read of several topics gives a part of a transaction though it is asked for whole ones",
        _WHOLE,
    ),
    Mutant(
        "what-is-not-known-is-left-out",
        "spark_eos/log/selection/units.py",
        "    if first is not None and not is_before(first, ends):\n",
        "    if False:\n",
        "records are missing without a word, where it is not known what belongs together",
        _WHOLE,
    ),
    Mutant(
        "long-transactions-are-not-looked-for",
        "spark_eos/log/selection/units.py",
        "        if first is None or is_before(first, ends):\n",
        "        if True:\n",
        "a read ends with an error though the entries are there that say what belongs together",
        _WHOLE,
    ),
    Mutant(
        "decided-transactions-are-split",
        "spark_eos/log/selection/units.py",
        "*_decided(state, start), ",
        "",
        "a reader that may not write gives a part of what another log has decided",
        ("tests/extensions/several_logs/test_several_logs.py", "-k", "decided_elsewhere"),
    ),
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
        "        spec, default = _of_table(options, log, partitions), EARLIEST",
        "        spec = _of_table(options, log, partitions)",
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
