"""How a log is doing: what goes on in it, how far its readers are behind, and metrics. Looking never writes."""

from spark_eos.monitoring.across import QueryAcross, lags_across
from spark_eos.monitoring.activity import Activity, HeldBack, OpenTransaction, TopicActivity, Watch
from spark_eos.monitoring.checkpoints import Checkpoints
from spark_eos.monitoring.lag import Lag, LagTotal, lags, totals
from spark_eos.monitoring.metrics.measured_store import MeasuredStore
from spark_eos.monitoring.metrics.registration import Registration, register

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
