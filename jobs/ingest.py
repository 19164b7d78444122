"""Files into a topic: every CSV file of a folder, once; key = a column, value = the row as JSON.

    spark-submit --master 'local[2]' jobs/ingest.py --input data/flights

Start it again when there are new files: those it has read are not read again, even if it was killed. Put
files there by renaming, whole. They are taken by modification time; with ``max_files = 1`` the rows of a
partition are in the order of the files and of their lines. One exception: if it is killed just when Spark
has noted a batch's file and not yet the batch, the next run takes that file and the one after it as one
batch, the larger first.
"""

from __future__ import annotations

from flights import FLIGHT
from pyspark.sql import functions as F  # noqa: N812
from settings import Setting, existing, positive, read_settings, run, spark_session, write

SETTINGS = (
    Setting("input", "the folder of CSV files with a header line", existing),
    Setting("topic", "the topic to write to"),
    Setting("key", "the column that becomes the key"),
    Setting("null_value", "the text that stands for a missing value"),
    Setting("max_files", "files per micro-batch", positive),
)


def main() -> None:
    """Run the job."""
    settings = read_settings("ingest", "CSV files into a topic, exactly once.", SETTINGS)
    spark = spark_session("ingest")
    rows = (
        spark.readStream.schema(FLIGHT)
        .option("header", "true")
        .option("enforceSchema", "false")  # columns in another order are an error, not other values
        .option("mode", "FAILFAST")  # and so is a line that does not fit
        .option("nullValue", settings.null_value)
        .option("maxFilesPerTrigger", settings.max_files)
        .csv(settings.input)
    )
    records = rows.select(
        F.col(settings.key).cast("string").alias("key"), F.to_json(F.struct("*")).alias("value")
    )
    write(records, settings, settings.topic)


if __name__ == "__main__":
    run(main)
