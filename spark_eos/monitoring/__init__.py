"""How a log is doing: what goes on in it, how far its readers are behind, and metrics. Looking never writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_eos import extending
from spark_eos.monitoring.activity import Activity, HeldBack, OpenTransaction, TopicActivity, Watch
from spark_eos.monitoring.checkpoints import Checkpoints
from spark_eos.monitoring.lag import Lag, LagTotal, lags, totals
from spark_eos.monitoring.lag_of_several_logs import QueryAcross, lags_across
from spark_eos.monitoring.measured_store import MeasuredStore

if TYPE_CHECKING:
    from spark_eos.extensions.metrics.registration import Registration, register

__all__ = [
    "Activity",
    "Checkpoints",
    "HeldBack",
    "Lag",
    "LagTotal",
    "MeasuredStore",
    "OpenTransaction",
    "QueryAcross",
    "Registration",
    "TopicActivity",
    "Watch",
    "lags",
    "lags_across",
    "register",
    "totals",
]


def __getattr__(name: str) -> Any:
    return extending.public(__name__, name)
