r"""A topic into a Delta table, each row exactly once, through crashes and restarts.

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 jobs/to_delta.py \
        --topic departures --table data/departures

Delta's own bookkeeping does it: the commit of a micro-batch carries the query's id and the batch's number, and
one that is there already is skipped. That is as good as the checkpoint: with a new one the query has a new id,
and everything is copied again. So keep the checkpoint as long as the table.
"""

from __future__ import annotations

from delta_session import delta_session
from settings import Setting, positive, read_settings, require_topic, run

SETTINGS = (
    Setting("topic", "the topic to copy"),
    Setting("table", "the Delta table: a folder or URL; created if it is missing"),
    Setting("max_offsets", "about how many records a micro-batch takes", positive),
)


def main() -> None:
    """Run the job."""
    settings = read_settings("to_delta", "A topic into a Delta table.", SETTINGS)
    require_topic(settings.log, settings.topic)
    rows = (
        delta_session("to_delta")
        .readStream.format("eoslog")
        .option("subscribe", settings.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.max_offsets)
        .load(settings.log)
    )
    writer = (
        rows.writeStream.format("delta")
        .queryName(settings.transactional_id)
        .option("checkpointLocation", settings.checkpoint)
    )
    if settings.trigger == "available-now":
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=settings.trigger)
    writer.start(settings.table).awaitTermination()


if __name__ == "__main__":
    run(main)
