"""Breaks of what holds against clocks that are years off."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_TIMES, _KEEPING = "spark_eos/protocol/rules/times.py", "spark_eos/log/timekeeping.py"

_TESTS = ("tests/log/test_timekeeping.py",)

MUTANTS = (
    Mutant(
        "records-get-the-time-of-a-wrong-clock",
        "spark_eos/log/data/timestamps.py",
        "    times_ms[wrong] = now_ms",
        "    pass",
        "records of a producer that is years off are out of reach of retention",
        ("tests/log/test_record_timestamps.py",),
    ),
    Mutant(
        "a-task-believes-its-clock",
        "spark_eos/log/data/task_io.py",
        "        return now_ms if abs(now_ms - store_ms) <= _NEAR_MS else store_ms",
        "        return now_ms",
        "rows of a Spark task that is years off get its time",
        ("tests/log/test_record_timestamps.py",),
    ),
    Mutant(
        "a-given-time-is-not-bounded",
        "spark_eos/log/data/timestamps.py",
        "            if timestamp_ms > latest_ms:",
        "            if False:",
        "a record is accepted whose time lies years ahead",
        ("tests/log/test_record_timestamps.py",),
    ),
    Mutant(
        "any-clock-moves-the-time",
        _TIMES,
        "    if state.log_id and not request.clock_checked:",
        "    if False:",
        "one request drives the log's time years ahead",
        _TESTS,
    ),
    Mutant(
        "expiry-by-an-unchecked-clock",
        _TIMES,
        "if request.clock_checked else before.timestamp_ms",
        "if request.clock_checked else state.timestamp_ms",
        "what is in use expires by one client's clock",
        _TESTS,
    ),
    Mutant(
        "time-set-back-by-any-clock",
        _TIMES,
        "    if clock is Clock.CHECKED and not request.clock_checked:",
        "    if False:",
        "a request that asked no store sets the log's time back",
        _TESTS,
    ),
    Mutant(
        "store-is-not-asked-for-the-time",
        _KEEPING,
        "        if not exact and agrees:",
        "        if not exact:",
        "a client's wrong clock is in its entries",
        _TESTS,
    ),
    Mutant(
        "store-is-asked-for-every-entry",
        _KEEPING,
        "monotonic - reading.monotonic_s < _ASKED_S",
        "monotonic - reading.monotonic_s < 0",
        "a client with a wrong clock makes three more requests for each commit",
        _TESTS,
    ),
    Mutant(
        "store-is-believed-for-ever",
        _KEEPING,
        "monotonic - reading.monotonic_s < _ASKED_S",
        "True",
        "what the store said once counts, though clocks drift",
        _TESTS,
    ),
    Mutant(
        "idle-log-expires",
        _KEEPING,
        "        if trust_clock:",
        "        if True:",
        "what was only idle with its log is forgotten",
        _TESTS,
    ),
    Mutant(
        "times-stay-ahead",
        "spark_eos/protocol/actions/log_time.py",
        "last_ms=min(producer.last_ms, now_ms)",
        "last_ms=producer.last_ms",
        "what was used while the log's time was ahead never expires",
        _TESTS,
    ),
)
