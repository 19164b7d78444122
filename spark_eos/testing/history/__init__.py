"""Histories of what clients asked for and were answered, and the check for every known anomaly."""

from __future__ import annotations

from spark_eos.testing.history.checker import check
from spark_eos.testing.history.events import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Action,
    Event,
    Isolation,
    Kind,
    Poll,
    Send,
)
from spark_eos.testing.history.files import dump_event, load_event, merge, read_history, write_history
from spark_eos.testing.history.recorder import Recorder, Token
from spark_eos.testing.history.report import ANOMALIES, TOLERABLE, Anomaly, Report

__all__ = [
    "ANOMALIES",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "TOLERABLE",
    "Action",
    "Anomaly",
    "Event",
    "Isolation",
    "Kind",
    "Poll",
    "Recorder",
    "Report",
    "Send",
    "Token",
    "check",
    "dump_event",
    "load_event",
    "merge",
    "read_history",
    "write_history",
]
