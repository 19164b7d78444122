"""How a log is doing: how far its readers are behind, and metrics for Prometheus and OpenTelemetry.

Looking never writes.
"""

from spark_eos.monitoring.lag import Lag, LagTotal, lags, totals
from spark_eos.monitoring.metrics.measured_store import MeasuredStore
from spark_eos.monitoring.metrics.registration import Registration, register

__all__ = ["Lag", "LagTotal", "MeasuredStore", "Registration", "lags", "register", "totals"]
