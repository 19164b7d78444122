"""What all programs of Spark Connect begin with. Arguments: the log, the checkpoint, a bound. Nothing is registered."""

from __future__ import annotations

import faulthandler
import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.streaming.query import StreamingQuery

url, checkpoint, bound = sys.argv[1:]
# What it waits for is said before the test ends it; the bound only ends a test that has failed.
faulthandler.dump_traceback_later(0.9 * float(bound))
spark = SparkSession.builder.remote("local[2]").getOrCreate()
told: dict[str, Any] = {"session": type(spark).__module__}


def wait_for(query: StreamingQuery) -> None:
    """Until it has ended. Raises its error, or one with its state if it does not end."""
    if not query.awaitTermination(int(0.6 * float(bound))):
        raise TimeoutError(f"query {query.id} has not ended: {query.status}, {query.lastProgress}")


def read(topic: str, **options: Any) -> DataFrame:
    """A batch read of a topic."""
    return spark.read.format("eoslog").option("subscribe", topic).options(**options).load(url)


def end() -> None:
    """Say it, and stop."""
    print("TOLD " + json.dumps(told))  # noqa: T201
    spark.stop()
