"""The peers, started when the first workload asks: one Spark for all, with their jars, and one Kafka broker."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import jars, limits
from benchmarks.jars import Missing
from benchmarks.kafka import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Peers"]

_ROOT = Path(__file__).parent.parent


class Peers:
    """What is there to be measured. ``left_out`` says why a peer is not."""

    def __init__(self, folder: Path, *, alone: bool = False) -> None:
        self.folder = folder
        self.left_out: dict[str, str] = {}
        self._alone = alone
        self._jars = {
            "Kafka": self._fetch("Kafka", "connectors", jars.CONNECTORS),
            "Delta": self._fetch("Delta", "delta", jars.DELTA),
        }

    def _fetch(self, peer: str, name: str, artifacts: tuple[str, ...]) -> list[Path]:
        if self._alone:
            self._leave_out(peer, "asked not to")
            return []
        try:
            return jars.fetch(name, artifacts, alone=True)
        except Missing as reason:
            self._leave_out(peer, str(reason))
            return []

    def _leave_out(self, peer: str, reason: str) -> None:
        self.left_out[peer] = reason
        print(f"{peer} is left out: {reason}", file=sys.stderr)

    @cached_property
    def spark(self) -> SparkSession:
        """One Spark for all contenders: they share its virtual machine, its warm code and its settings."""
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        # Python workers import the data sources of this package.
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        )
        from pyspark.sql import SparkSession

        builder = (
            SparkSession.builder.master("local[2]")
            .appName("spark_eos benchmarks")
            .config("spark.driver.memory", "4g")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.jars", ",".join(str(path) for paths in self._jars.values() for path in paths))
            .config("spark.local.dir", str(self.folder / "spark"))
            .config("spark.sql.warehouse.dir", str(self.folder / "warehouse"))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.files.maxPartitionBytes", str(4 << 30))
            .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
            .config("spark.databricks.delta.snapshotPartitions", "1")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
        )
        if self._jars["Delta"]:
            builder = builder.config(
                "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"
            ).config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        session = builder.getOrCreate()
        # A query that is stopped amid a micro-batch logs pages of errors; what fails is raised as well.
        session.sparkContext.setLogLevel("OFF")
        limits.register(session)
        return session

    @cached_property
    def broker(self) -> Broker | None:
        """The Kafka broker, or None if it is left out."""
        if not self._jars["Kafka"]:
            return None
        try:
            return Broker(self.folder / "kafka")
        except Missing as reason:
            self._leave_out("Kafka", str(reason))
            return None

    @property
    def delta(self) -> bool:
        """Whether Spark knows Delta."""
        return bool(self._jars["Delta"])

    def stop(self) -> None:
        """Stop what was started."""
        if "spark" in self.__dict__:
            self.spark.stop()
        broker = self.__dict__.get("broker")
        if broker is not None:
            broker.stop()
