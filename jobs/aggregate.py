"""A stateful stream: flights and mean delay by origin and scheduled hour, each hour once, when it is over.

    spark-submit --master 'local[2]' jobs/aggregate.py

An hour is over when a departure has been seen that was scheduled ``watermark`` later; departures that come
later still are left out, as Spark does with every watermark. The newest hours stay in the state.
"""

from __future__ import annotations

from flights import DEPARTURE
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from settings import Setting, positive, read_settings, require_topic, run, spark_session, write

SETTINGS = (
    Setting("topic", "the topic of departures to read"),
    Setting("output", "the topic to write to"),
    Setting("watermark", "how late a departure may come, such as '2 days'"),
    Setting("max_offsets", "about how many records a micro-batch takes", positive),
    Setting("state_partitions", "partitions of the state; fixed by the first run", positive),
)


def main() -> None:
    """Run the job."""
    settings = read_settings("aggregate", "Hourly counts and delays by origin, exactly once.", SETTINGS)
    require_topic(settings.log, settings.topic)
    spark = spark_session("aggregate")
    spark.conf.set("spark.sql.shuffle.partitions", str(settings.state_partitions))
    source = (
        spark.readStream.format("eoslog")
        .option("subscribe", settings.topic)
        # Not "committed": a new checkpoint has no state, so it has to see everything. If the log has seen this
        # job before, the log refuses that, and says so.
        .option("startingOffsets", "earliest")
        .option("group.id", settings.transactional_id)
        .option("maxOffsetsPerTrigger", settings.max_offsets)
        .load(settings.log)
    )
    write(aggregate(source, settings.watermark), settings, settings.output)


def aggregate(source: DataFrame, watermark: str) -> DataFrame:
    """Rows of a topic of departures to one row for each origin and hour: ``key`` (origin) and ``value``."""
    departure = F.from_json(F.col("value").cast("string"), DEPARTURE).alias("departure")
    hours = (
        source.select(departure)
        .select("departure.*")
        .withWatermark("scheduled", watermark)
        .groupBy(F.window("scheduled", "1 hour").alias("hour"), "origin")
        .agg(
            F.count(F.lit(1)).alias("flights"),
            F.sum("dep_delay").alias("delay_minutes"),
            F.round(F.avg("dep_delay"), 2).alias("mean_delay"),
        )
    )
    value = F.struct(F.col("hour.start").alias("hour"), "origin", "flights", "delay_minutes", "mean_delay")
    return hours.select(F.col("origin").alias("key"), F.to_json(value).alias("value"))


if __name__ == "__main__":
    run(main)
