"""Floor 5: the Spark source and sink, ``format("eoslog")``."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("pyspark") is None:
    raise ModuleNotFoundError(
        "spark_eos.spark needs PySpark, which is not installed: pip install 'spark-eos[spark]'",
        name="pyspark",
    )

if find_spec("pyspark.sql.datasource") is None:  # Spark 3, for which nothing of this part can be loaded.
    from spark_eos.spark.version import check_version

    check_version()
