"""Tools to test stores and jobs, shipped so that users can test their own (docs/guide/testing.md).

- `FaultyStore` wraps a store and fails on demand.
- `crash_points` runs a job once for each operation of its store, with a crash or another trouble there; `check_log`
  checks the log that is left.
- `Recorder` writes down what clients asked for and were answered; `check` looks for anomalies in it.
- The contract suite for stores needs pytest and is imported from its module:
  ``from spark_eos.testing.store_contract import StoreContract``.
"""

from __future__ import annotations

from spark_eos.testing.crash_store import CrashStore, Trouble
from spark_eos.testing.crashpoints import CrashPoint, check_log, crash_points
from spark_eos.testing.faulty_store import Call, Fault, FaultyStore
from spark_eos.testing.history import Poll, Recorder, Report, Send, check

__all__ = [
    "Call",
    "CrashPoint",
    "CrashStore",
    "Fault",
    "FaultyStore",
    "Poll",
    "Recorder",
    "Report",
    "Send",
    "Trouble",
    "check",
    "check_log",
    "crash_points",
]
