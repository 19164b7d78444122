"""How a log is doing: how far its readers are behind. Looking never writes."""

from spark_eos.monitoring.lag import Lag, LagTotal, lags, totals

__all__ = ["Lag", "LagTotal", "lags", "totals"]
