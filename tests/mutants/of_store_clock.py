"""Breaks of what is known by the store's own clock: since when a transaction is open."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_EXPIRATION, _HORIZON = "spark_eos/log/expiration.py", "spark_eos/log/snapshots/horizon.py"

_OF_EXPIRATION = ("tests/log/test_store_clock.py",)
_OF_CALLS = ("tests/clients/test_visitors.py", "-k", "not processes")
_OF_AGES = ("tests/storage/test_ages.py",)

MUTANTS = (
    Mutant(
        "store-never-asked",
        _EXPIRATION,
        "            if not watch.asked and (everything or self._is_worth_asking(producer)):",
        "            if not watch.asked and everything:",
        "a dead producer's transaction blocks readers for ever if each stays shorter than the timeout",
        _OF_EXPIRATION,
    ),
    Mutant(
        "store-asked-by-the-wall-clock-alone",
        _EXPIRATION,
        "            if not watch.asked and (everything or self._is_worth_asking(producer)):",
        "            if not watch.asked and self._is_worth_asking(producer):",
        "cron does not end what is past its time because a wall clock is wrong",
        _OF_EXPIRATION,
    ),
    Mutant(
        "age-from-before-the-question",
        _EXPIRATION,
        "self._clock.monotonic() - age_s)",
        "self._clock.monotonic() - 2 * age_s)",
        "a transaction ends before its time",
        _OF_EXPIRATION,
    ),
    Mutant(
        "clocks-that-contradict-each-other",
        _EXPIRATION,
        "not -SKEW_MS <= open_ms < producer.timeout_ms",
        "open_ms >= producer.timeout_ms",
        "a producer whose clock was a day ahead blocks readers for a day",
        _OF_EXPIRATION,
    ),
    Mutant(
        "evidence-retired",
        _HORIZON,
        "(state.seq if begun is None else begun)]",
        "state.seq]",
        "nobody can tell any more since when a transaction is open",
        _OF_EXPIRATION,
    ),
    Mutant(
        "evidence-retired-behind-the-state",
        _HORIZON,
        "seq <= (state.seq if begun is None else begun)]",
        "begun is None or seq <= begun]",
        "who retires by an old state retires the entry in which a newer transaction began",
        _OF_EXPIRATION,
    ),
    Mutant(
        "began-in-the-entry-before",
        "spark_eos/protocol/actions/producers.py",
        "started_seq=state.seq + 1,",
        "started_seq=state.seq,",
        "a transaction is taken for as old as the entry before it",
        _OF_EXPIRATION,
    ),
    Mutant(
        "times-that-anybody-can-set",
        "spark_eos/storage/posix/store.py",
        "now_ns - status.st_ctime_ns",
        "now_ns - status.st_mtime_ns",
        "a file whose time was set, or that was written long before it was linked, ends a live transaction",
        _OF_AGES,
    ),
    Mutant(
        "whole-seconds-believed",
        "spark_eos/storage/objects/store.py",
        ".total_seconds()) - ROUNDED_S, 0.0)",
        ".total_seconds()), 0.0)",
        "a transaction ends up to a second before its time",
        _OF_AGES,
    ),
    Mutant(
        "late-commit-gets-in",
        "spark_eos/clients/producer/transaction_manager.py",
        "        if not self._touched or waited_ms < self._timeout_ms:",
        "        if not self._touched or waited_ms >= 0:",
        "whether a late commit gets in depends on who has looked meanwhile",
        _OF_CALLS,
    ),
    Mutant(
        "committed-only-waits",
        "spark_eos/clients/consumer/offset_manager.py",
        "            state = self._log.end_overdue()",
        "            state = self._log.state",
        "a successor never gets the offsets of one that died",
        _OF_CALLS,
    ),
    Mutant(
        "first-poll-only-looks",
        "spark_eos/clients/consumer/base.py",
        "        self._next_expire_overdue = -math.inf",
        "        self._next_expire_overdue = self._log.clock.monotonic() + 1.0",
        "a consumer that polls once ends nothing",
        _OF_CALLS,
    ),
)
