"""A pytest plugin: the tests on another Spark than the environment has, the first on PYTHONPATH (scripts/test-matrix).

``@pytest.mark.since("4.2")`` leaves a test out on an older Spark: what it shows is not so there.
"""

from __future__ import annotations

from importlib.metadata import version

import pytest

VERSION = version("pyspark")
SPARK = tuple(int(part) for part in VERSION.split(".")[:2])

HIDES = {} if SPARK >= (4, 2) else {"spark.sql.redaction.options.regex": "(?i)url|account-key|proxy-uri"}
"""What it has to be told to show no secret (docs/guide/security.md)."""


def pytest_report_header() -> str:
    """Which Spark it is."""
    return f"Spark {VERSION}"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "since(version): what it shows is so from this Spark on")
    if SPARK < (4, 2):  # It leaves the sockets to its workers open.
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("since"):
        if tuple(int(part) for part in marker.args[0].split(".")) > SPARK:
            pytest.skip(f"since Spark {marker.args[0]}")
