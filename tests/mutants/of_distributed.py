"""Breaks of transactions of many processes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_AT = "spark_eos/extensions/distributed"
_TESTS = "tests/extensions/distributed/test_distributed.py"


def _seen_by(words: str) -> tuple[str, ...]:
    return (_TESTS, "-k", words)


MUTANTS = (
    Mutant(
        "every-attempt-counts",
        f"{_AT}/receipt.py",
        "        by_task.setdefault(receipt.task, receipt)",
        "        by_task.setdefault(receipt.attempt, receipt)",
        "a task that ran twice is in the log twice",
        _seen_by("first_receipt"),
    ),
    Mutant(
        "the-last-attempt-counts",
        f"{_AT}/receipt.py",
        "        by_task.setdefault(receipt.task, receipt)",
        "        by_task[receipt.task] = receipt",
        "of the receipts of a task another one counts than is said",
        _seen_by("first_receipt"),
    ),
    Mutant(
        "receipt-of-any-transaction",
        f"{_AT}/receipt.py",
        "        if (receipt.log_id, receipt.stamp) != (token.log_id, token.stamp):",
        "        if receipt.log_id != token.log_id:",
        "a receipt that came too late is committed by the next transaction",
        _seen_by("late_receipt"),
    ),
    Mutant(
        "late-writer-begins",
        f"{_AT}/staged_writer.py",
        "        require_open(log.state, self._token)\n",
        "",
        "a task writes for a transaction that is over",
        _seen_by("comes_late"),
    ),
    Mutant(
        "late-writer-leaves-its-files",
        f"{_AT}/staging.py",
        "            require_open(log.follow(), token)\n",
        "",
        "a task that was overtaken hands back a receipt",
        _seen_by("overtaken"),
    ),
    Mutant(
        "fence-not-looked-at",
        f"{_AT}/outcome.py",
        "    if producer.epoch != token.epoch:",
        "    if producer.epoch < token.epoch:",
        "a task goes on for a transaction that was replaced",
        _seen_by("comes_late or fenced"),
    ),
    Mutant(
        "successor-taken-for-the-own",
        f"{_AT}/outcome.py",
        "Outcome.FENCED if producer.number < token.number else Outcome.UNKNOWN",
        "Outcome.FENCED if producer.number < token.number else Outcome.COMMITTED",
        "the commit of a successor is taken for that of the transaction that it has fenced",
        _seen_by("fenced_transaction_is_known or before_a_newer"),
    ),
    Mutant(
        "commit-with-other-receipts-is-success",
        f"{_AT}/outcome.py",
        "    if ending.outcome is Outcome.COMMITTED and ending.files != files:",
        "    if False:",
        "a commit is answered with success, and its rows are not in the log",
        _seen_by("late_receipt"),
    ),
    Mutant(
        "other-log-taken",
        f"{_AT}/outcome.py",
        "    if state.log_id != token.log_id:",
        "    if False:",
        "a token is used in another log",
        _seen_by("another_log"),
    ),
    Mutant(
        "distributed-version-not-in-the-entry",
        f"{_AT}/request.py",
        "        *_version(token),\n",
        "",
        "a coordinator that is started again commits the same work twice",
        _seen_by("version"),
    ),
    Mutant(
        "distributed-offsets-left-out",
        f"{_AT}/request.py",
        "for receipt in receipts for offsets in receipt.offsets)",
        "for receipt in receipts[1:] for offsets in receipt.offsets)",
        "rows are committed without the offsets of their task",
        _seen_by("offsets_are_committed"),
    ),
    Mutant(
        "two-tasks-commit-a-partition",
        f"{_AT}/request.py",
        "            if earlier != at:",
        "            if False:",
        "two tasks have read a partition, and one of them unseen",
        _seen_by("two_tasks"),
    ),
    Mutant(
        "expired-tasks-not-named",
        f"{_AT}/request.py",
        "    if old:\n",
        "    if False:\n",
        "after vacuum nothing says which tasks have to run again",
        _seen_by("staged_again"),
    ),
    Mutant(
        "abort-while-a-commit-is-in-doubt",
        f"{_AT}/transaction.py",
        "        if self._is_over or self._in_doubt is not None:",
        "        if self._is_over:",
        "a block that ends in doubt aborts what may be committed",
        _seen_by("ends_in_doubt"),
    ),
    Mutant(
        "abort-after-a-commit-in-doubt",
        f"{_AT}/transaction.py",
        "        if self._in_doubt not in {None, call}:",
        "        if False:",
        "an abort is allowed whose transaction may be committed",
        _seen_by("in_doubt_is_repeated"),
    ),
    Mutant(
        "other-receipts-to-a-commit-in-doubt",
        f"{_AT}/transaction.py",
        '        if self._in_doubt == "commit" and counted != self._counted:',
        "        if False:",
        "a commit in doubt is repeated as another one",
        _seen_by("in_doubt_is_repeated"),
    ),
    Mutant(
        "left-without-an-abort",
        f"{_AT}/transaction.py",
        "        try:\n            self.abort()\n",
        "        try:\n            self.outcome()\n",
        "a transaction that was left without a commit can be committed later",
        _seen_by("leaving"),
    ),
    Mutant(
        "token-with-another-end",
        f"{_AT}/texts.py",
        "    if inflate.unused_data or not inflate.eof:",
        "    if False:",
        "a token that was cut or glued together is taken",
        _seen_by("travel"),
    ),
    Mutant(
        "half-a-write-of-another-thread",
        f"{_AT}/staged_writer.py",
        "        if running:\n",
        "        if False:\n",
        "a receipt has half of the rows of a write that still runs in another thread",
        _seen_by("still_runs"),
    ),
)
