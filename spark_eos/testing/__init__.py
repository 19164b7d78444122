"""Tools to test stores and jobs, shipped so that users can test their own.

- `FaultyStore` wraps a store and fails on demand; `Disk` is a disk that forgets what was not synced.
- `Recorder` writes down what clients asked and were told, `check` looks for anomalies in it.
- `crash_points` runs a scenario once for every operation of the store, with trouble just there.
- The contract suite for stores needs pytest and is imported from its module:
  ``from spark_eos.testing.store_contract import StoreContract``.
- `spark_eos.testing.object_server` is a small object store behind HTTP that errs on demand;
  `spark_eos.testing.cloud_servers` starts real ones (MinIO, Azurite) where they are installed.
"""

from __future__ import annotations

from spark_eos.testing.crashpoints import crash_points
from spark_eos.testing.disk import Disk, PowerCut
from spark_eos.testing.faulty_store import Call, Fault, FaultyStore
from spark_eos.testing.history import Poll, Recorder, Report, Send, check

__all__ = [
    "Call",
    "Disk",
    "Fault",
    "FaultyStore",
    "Poll",
    "PowerCut",
    "Recorder",
    "Report",
    "Send",
    "check",
    "crash_points",
]
