"""Floor 5: the Spark source and sink, ``format("eoslog")``."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("pyspark") is None:
    raise ModuleNotFoundError(
        "spark_eos.spark needs PySpark, which is not installed: pip install 'spark-eos[spark]'",
        name="pyspark",
    )
