"""Lets Spark find ``format("eoslog")``: it imports every top-level module named ``pyspark_*``.

Kept light on purpose: a module of that name that fails or is slow to import harms every Spark program.
"""

from spark_eos.spark.datasource import EosLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
