"""How a log is doing: what goes on in it, and how far its readers are behind. Looking never writes."""

from spark_eos.monitoring.activity import Activity, HeldBack, OpenTransaction, TopicActivity, Watch
from spark_eos.monitoring.lag import Lag, LagTotal, lags, totals

__all__ = [
    "Activity",
    "HeldBack",
    "Lag",
    "LagTotal",
    "OpenTransaction",
    "TopicActivity",
    "Watch",
    "lags",
    "totals",
]
