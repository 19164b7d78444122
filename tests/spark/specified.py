"""What the queries of a test have written is held against the specification of runs."""

from __future__ import annotations

from verification.specification.traces import RUNS, rejected


def check(traces):
    """Each is a behaviour of `specs/Runs.tla`; the key of a trace says where it is from."""
    wrong = rejected([*traces.values()], RUNS) if traces else []  # One test alone may have no query.
    assert not wrong, "\n".join(f"{[*traces][one.trace - 1]}, {one}" for one in wrong)
