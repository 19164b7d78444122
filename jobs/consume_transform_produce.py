"""One topic in, a lookup, two topics out, and the offsets with them: all of it in one transaction a batch.

    spark-submit --master 'local[2]' jobs/consume_transform_produce.py --airlines data/airlines.csv

Flights that left go to topic ``departures``, the others to ``cancelled``, with the airline's name. Keys stay,
and nothing is shuffled: with as many partitions as the input the order within a partition stays too. What is
no flight goes to topic ``rejected`` as it came, which is created when it is needed first.
"""

from __future__ import annotations

from collections import Counter

from flights import CORRUPT, FLIGHT
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from settings import Setting, existing, positive, read_settings, require_topic, run, spark_session, write

SETTINGS = (
    Setting("topic", "the topic to read"),
    Setting("departures", "the topic for flights that left"),
    Setting("cancelled", "the topic for flights that did not"),
    Setting("rejected", "the topic for values that are no flight"),
    Setting("airlines", "CSV file with the columns carrier and name", existing),
    Setting("max_offsets", "about how many records a micro-batch takes", positive),
)


def main() -> None:
    """Run the job."""
    settings = read_settings("consume_transform_produce", "Flights to departures and cancelled.", SETTINGS)
    require_topic(settings.log, settings.topic)
    spark = spark_session("consume_transform_produce")
    source = (
        spark.readStream.format("eoslog")
        .option("subscribe", settings.topic)
        # Only a new checkpoint looks at it: it goes on where the log says that this job has been.
        .option("startingOffsets", "committed")
        .option("group.id", settings.transactional_id)
        .option("maxOffsetsPerTrigger", settings.max_offsets)
        .load(settings.log)
    )
    airlines = read_airlines(spark, settings.airlines)
    write(transform(source, airlines, settings.departures, settings.cancelled, settings.rejected), settings)


def transform(
    source: DataFrame, airlines: DataFrame, departures: str, cancelled: str, rejected: str
) -> DataFrame:
    """Rows of a topic of flights to rows with a ``topic``, a ``key`` and a ``value``, one for each."""
    text = F.col("value").cast("string")
    options = {"columnNameOfCorruptRecord": CORRUPT}
    flights = source.select(
        "key", "value", F.from_json(text, f"{FLIGHT}, {CORRUPT} STRING", options).alias("flight")
    )
    # Few rows: a broadcast join shuffles nothing, and so keeps the order of the records.
    joined = flights.join(F.broadcast(airlines), F.col("flight.carrier") == F.col("airlines.carrier"), "left")
    flight = F.col("flight")
    no_flight = flight.isNull() | flight[CORRUPT].isNotNull() | flight["carrier"].isNull()
    topic = F.when(no_flight, rejected).when(flight["dep_time"].isNull(), cancelled).otherwise(departures)
    value = F.when(no_flight, F.col("value")).otherwise(F.to_json(_output()).cast("binary"))
    return joined.select(topic.alias("topic"), "key", value.alias("value"))


def read_airlines(spark: SparkSession, path: str) -> DataFrame:
    """The lookup, as of the start of this run. Ends the program if a carrier has two names."""
    airlines = spark.read.schema("carrier STRING, name STRING").option("header", "true").csv(path)
    airlines = airlines.alias("airlines").cache()
    names = Counter(row["carrier"] for row in airlines.collect())
    double = [str(carrier) for carrier, count in names.items() if count > 1]
    if double:
        raise SystemExit(
            f"error: {path} has more than one name for {', '.join(double)}: flights would be written twice"
        )
    return airlines


def _output() -> Column:
    """What is known of a departure or cancellation; what is null is left out of the JSON."""
    flight = F.col("flight")
    return F.struct(
        flight["time_hour"].alias("scheduled"),
        F.concat(flight["carrier"], flight["flight"].cast("string")).alias("flight"),
        F.col("airlines.name").alias("airline"),
        flight["tailnum"].alias("tailnum"),
        flight["origin"].alias("origin"),
        flight["dest"].alias("dest"),
        flight["dep_delay"].alias("dep_delay"),
        flight["arr_delay"].alias("arr_delay"),
        (flight["dep_delay"] - flight["arr_delay"]).alias("made_up"),
    )


if __name__ == "__main__":
    run(main)
