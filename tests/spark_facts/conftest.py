"""Queries of the plain source and sink, recorded once for all tests of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from spark_eos.spark.start import start_query
from tests.spark_facts.plain import NAME, Plain, Recording
from tests.sparks import SPARK


class Queries:
    """Runs queries and records their calls; what they end with is kept, too."""

    def __init__(self, spark, folder):
        self.spark = spark
        self.recording = Recording(folder)
        self.checkpoint = Path(folder) / "checkpoint"

    def stream(self, who="a", **options):
        """A stream of the plain source; ``put("end-a", 30)`` gives it rows."""
        options = {
            "record": str(self.recording.folder),
            "who": who,
            "checkpoint": str(self.checkpoint),
            **options,
        }
        return self.spark.readStream.format(NAME).options(**options).load()

    def batch(self, **options):
        return self.spark.read.format(NAME).options(record=str(self.recording.folder), **options).load()

    def start(self, frame, mode="append", trigger=None, **options):
        writer = (
            frame.writeStream.format(NAME).outputMode(mode).trigger(**(trigger or {"availableNow": True}))
        )
        writer = writer.options(record=str(self.recording.folder), who="sink", **options)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return start_query(writer.start)  # A busy machine is no fact about Spark.

    def run(self, frame, *args, **kwargs):
        """A query to its end. A call "ended" follows its own calls; "" is the error of a good end."""
        in_slices = "trigger" not in kwargs and SPARK < (4, 2)  # AvailableNow is one batch there.
        if in_slices:
            kwargs["trigger"] = {"processingTime": "0 seconds"}
        query = self.start(frame, *args, **kwargs)
        error = ""
        try:
            if in_slices:
                query.processAllAvailable()
                query.stop()
            query.awaitTermination()
        except PySparkException as raised:
            error = str(raised)
        self.recording.note("ended", error=error, query_id=query.id, run_id=query.runId)

    def write(self, frame, mode="append", **options):
        frame.write.format(NAME).mode(mode).options(record=str(self.recording.folder), **options).save()

    @property
    def runs(self):
        """The calls of each run, without those that follow the last end."""
        runs, calls = [], []
        for call in self.recording.calls():
            calls.append(call)
            if call["call"] == "ended":
                runs.append(calls)
                calls = []
        return runs


@pytest.fixture(scope="module")
def queries(spark, tmp_path_factory):
    """Makes recordings, each in a folder of its own."""
    spark.dataSource.register(Plain)
    return lambda name: Queries(spark, tmp_path_factory.mktemp(name))
