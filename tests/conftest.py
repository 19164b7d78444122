"""Fixtures that every test may ask for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["tests.conformance.plugin", "pytester"]

# No test depends on the speed of the machine; CI also tries the same examples every time.
_AT_ANY_SPEED: Any = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("local", **_AT_ANY_SPEED)
hypothesis.settings.register_profile("ci", **_AT_ANY_SPEED, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def log_url(tmp_path: Path) -> str:
    """A folder for a log; it does not exist yet."""
    return str(tmp_path / "log")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local Spark for all tests that ask for it, started by the first of them."""
    # Without these, workers run another Python and the driver looks up the name of the machine.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("spark_eos tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
