r"""A Delta table's rows into a topic, each exactly once, through crashes and restarts.

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 jobs/from_delta.py \
        --table data/departures --topic departures_again

Rows and the position in the table go into the log as one entry. The transactional id is the same in every run, so
the log notices a checkpoint that does not continue where it left off: with a lost or an older one the job is
refused instead of copying rows twice. The table has to be one that is only appended to; Delta refuses others.
"""

from __future__ import annotations

from delta_session import delta_session
from settings import Setting, existing, positive, read_settings, run, write

SETTINGS = (
    Setting("table", "the Delta table: a folder or URL", existing),
    Setting("topic", "the topic to write; created if it is missing"),
    Setting("max_files", "how many of the table's files a micro-batch takes", positive),
)


def main() -> None:
    """Run the job."""
    settings = read_settings("from_delta", "A Delta table into a topic.", SETTINGS)
    rows = (
        delta_session("from_delta")
        .readStream.format("delta")
        .option("maxFilesPerTrigger", settings.max_files)
        .load(settings.table)
    )
    write(rows, settings, settings.topic)


if __name__ == "__main__":
    run(main)
