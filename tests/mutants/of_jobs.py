"""Breaks of batch jobs that are repeated, and of several frames in one commit."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_VERSIONS = "spark_eos/protocol/actions/app_versions.py"
_OF_VERSIONS = ("tests/protocol/test_app_versions.py",)
_JOB = "spark_eos/spark/batch/job.py"
_FRAMES = "spark_eos/spark/transactions/transaction.py"
_MICRO_BATCH = "spark_eos/spark/transactions/micro_batch.py"
_LEFT_OUT = "spark_eos/spark/transactions/left_out.py"
_OF_LEFT_OUT = ("tests/spark/test_left_out_batches.py",)
_RUNNING = "spark_eos/spark/transactions/running_query.py"
_OF_CRASHES = ("tests/crashpoints/test_queries.py", "-k", "foreachBatch or txnVersion")


def _of_frames(test: str) -> tuple[str, ...]:
    return ("tests/spark/test_transactions.py", "-k", test)


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
        "action.version <= last.version",
        "action.version == last.version",
        "a job that repeats an older version writes its rows a second time",
        _OF_VERSIONS,
    ),
    Mutant(
        "versions-of-all-topics",
        _VERSIONS,
        '    last = state.app_versions.get((action.app_id, action.topic_id or ""))',
        "    last = max((one for (app, _), one in state.app_versions.items() if app == action.app_id), default=None)",
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
    Mutant(
        "repeated-job-not-looked-for",
        _JOB,
        "        if self.version is not None and is_committed(state, self.version):",
        "        if False:",
        "a job whose commit was answered by silence is refused when it is repeated",
        _OF_CRASHES,
    ),
    Mutant(
        "version-not-in-the-entry",
        _JOB,
        "        version = () if self.version is None else (self.version,)",
        "        version = ()",
        "a job that is repeated writes its rows a second time",
        _OF_CRASHES,
    ),
    Mutant(
        "files-of-a-repeated-job-stay",
        _JOB,
        "        if not committed.results and self.files:",
        "        if False:",
        "a job that another one outran leaves its files",
        ("tests/spark/test_outcomes.py", "-k", "outrun"),
    ),
    Mutant(
        "commit-after-an-error-inside",
        _FRAMES,
        "        if kind is None and not running:\n",
        "        if not running:\n",
        "half a transaction is committed when its block ends in an error",
        _of_frames("an_error_inside"),
    ),
    Mutant(
        "second-transaction-of-a-batch",
        _MICRO_BATCH,
        "        if _COMMITTED.get((log.log_id, query_id)) == (self._query.run_id, self._batch_id):",
        "        if False:",
        "a second transaction of a micro-batch is taken for its repetition, and silently lost",
        _of_frames("second_transaction"),
    ),
    Mutant(
        "batches-left-out-unproved",
        _LEFT_OUT,
        "    elif last_begun == (None if last is None else last.batch_id):",
        "    elif True:",
        "a log that was put back, or an error that a function passed over, is taken for batches that were left out",
        _OF_LEFT_OUT,
    ),
    Mutant(
        "repetition-evaluates-nothing",
        _MICRO_BATCH,
        "        if not self._messages and self._checkpoint.stateful():",
        "        if False:",
        "Spark ends a query that keeps state when one of its batches is repeated",
        ("tests/spark/test_stateful_transactions.py",),
    ),
    Mutant(
        "failed-beginning-not-noted",
        _MICRO_BATCH,
        "            self._checkpoint.note_transaction(None, self._batch_id)\n",
        "",
        "a batch whose transaction could not begin, and whose function passed that over, looks like one left out",
        _OF_LEFT_OUT,
    ),
    Mutant(
        "transaction-not-noted",
        _MICRO_BATCH,
        "        self._checkpoint.note_transaction((log or self._log()).log_id, self._batch_id)\n",
        "",
        "a batch whose error its function passed over looks like one that was left out",
        _OF_LEFT_OUT,
    ),
    Mutant(
        "first-batches-of-another-log",
        _LEFT_OUT,
        "        if last is not None or not checkpoint.has_transactions():",
        "        if True:",
        "a query whose batches are in another log goes on in this one",
        _OF_LEFT_OUT,
    ),
    Mutant(
        "another-batch-is-committed",
        _RUNNING,
        "    if str(batch_id) != running:",
        "    if False:",
        "a function of foreachBatch commits the offsets of another batch",
        _of_frames("another_batch"),
    ),
    Mutant(
        "notes-of-another-process",
        _RUNNING,
        '    return Path(folders[0], "eoslog") if folders else None',
        "    return None",
        "a transaction finds no proof of what its sources have planned, and is refused",
        _of_frames("without_frames"),
    ),
    Mutant(
        "committed-without-a-write-that-runs",
        _FRAMES,
        "        if kind is None and not running:\n",
        "        if kind is None:\n",
        "rows of a write in another thread are missing, and their offsets are committed",
        _of_frames("still_runs_at_the_end"),
    ),
    Mutant(
        "late-write-leaves-its-files",
        _FRAMES,
        "            self._discard(messages)\n",
        "",
        "files of a write that comes too late stay",
        _of_frames("still_runs_at_the_end"),
    ),
    Mutant(
        "overwritten-after-an-append",
        _FRAMES,
        "            if topic in written:",
        "            if False:",
        "rows of a transaction are lost as it overwrites its own topic",
        _of_frames("not_overwritten"),
    ),
    Mutant(
        "overwrites-nothing",
        _MICRO_BATCH,
        "action for topic in self._overwritten for action in truncation(state, topic)",
        "action for topic in self._overwritten[1:] for action in truncation(state, topic)",
        "a frame with mode overwrite is appended",
        _of_frames("overwritten_together"),
    ),
    Mutant(
        "overwritten-before-it-is-staged",
        _FRAMES,
        "        messages = stage(frame, sink_options, target)\n",
        "        self._overwritten += [sink_options.topic or ''] * overwrite\n"
        "        messages = stage(frame, sink_options, target)\n",
        "a frame that failed, and whose error was caught, has emptied its topic",
        _of_frames("overwrites_nothing"),
    ),
)
