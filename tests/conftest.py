"""Fixtures that every test may ask for."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.starting import Nursery
    from verification.cloud_servers import Server

pytest_plugins = [
    "tests.conformance.plugin",
    "tests.profiling",
    "tests.scheduling",
    "tests.sparks",
    "tests.tiers",
    "pytester",
]

# A Spark of the tests lives for seconds: what the JVM does for long lives is a quarter of the processor time it takes.
os.environ["SPARK_SUBMIT_OPTS"] = " ".join(
    [os.environ.get("SPARK_SUBMIT_OPTS", ""), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
).strip()

# A shell starts background jobs with Ctrl-C ignored, and the processes of the tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """The modules and items of all tests stay: some 650,000 objects that no collection is to go through again.

    A search for referrers goes through them, too: each failure of a producer makes one (`Failures.take`).
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _producers_that_are_left() -> Iterator[None]:
    """One test's open transactions would be told on the standard error of another, whenever they are collected."""
    from spark_eos.clients import at_exit
    from spark_eos.clients.producer import base

    base.say = lambda _: None  # To the end of the process.
    yield
    at_exit._watched.clear()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Runs programs of which nothing matters that comes before their first line, at a tenth of what they cost."""
    from tests.starting import Nursery

    one = Nursery()
    yield one
    one.close()


@pytest.fixture
def log_url(tmp_path: Path) -> str:
    """A folder for a log; it does not exist yet."""
    return str(tmp_path / "log")


@pytest.fixture
def timeless_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that cannot tell the time: for logs of another year."""
    from spark_eos.storage import PosixStore

    monkeypatch.setattr(PosixStore, "now_ms", lambda _: None)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of indexes with four rows, two of which make a page of the next level: few records are many pages."""
    from spark_eos.protocol.rules import sealing

    monkeypatch.setattr(sealing, "PAGE_ROWS", 4)
    monkeypatch.setattr(sealing, "FAN_OUT", 2)


@pytest.fixture(scope="session")
def tlc() -> None:
    """The model checker of TLA+."""
    from benchmarks.jars import Missing, fetch
    from verification.specification.tlc import TLC

    if shutil.which("java") is None:
        pytest.skip("TLC needs Java on the PATH")
    try:
        fetch("tlc", TLC, alone=True)
    except Missing as missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(missing))


@pytest.fixture(scope="session")
def minio_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """MinIO, for all tests that ask for it."""
    from verification.cloud_servers import MINIO, installed, minio

    if not installed(MINIO):
        pytest.skip("MinIO is not here: scripts/servers installs it")
    with minio(tmp_path_factory.mktemp("minio") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def azurite_server() -> Iterator[Server]:
    """Azurite, for all tests that ask for it."""
    from verification.cloud_servers import AZURITE, azurite, installed

    if not installed(AZURITE):
        pytest.skip("Azurite is not here: scripts/servers installs it")
    with azurite() as server:
        yield server


@pytest.fixture(scope="session")
def bad_network() -> Iterator[str]:
    """The address of an object store, behind a proxy that spoils one request in ten, each in some way."""
    from verification.fault_proxy import FaultPlan, FaultProxy
    from verification.object_server import ObjectServer, serving

    with serving(ObjectServer({"bucket": {}})) as server:
        address = urlsplit(server.address)
        # No server says that a name is taken that nobody has ever written; whoever is told so of a file of rows aborts.
        plan = replace(FaultPlan.everything(0.008), precondition=0.0)
        with FaultProxy(address.hostname or "", address.port or 0, plan=plan, seed=1, delay_s=0.05) as proxy:
            yield proxy.url


@pytest.fixture
def bucket_url(bad_network: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place for a log in a bucket that is reached through a `bad_network`; there is none yet."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", bad_network)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "some-key")
    return f"s3://bucket/{uuid.uuid4().hex}"


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


@pytest.fixture(autouse=True, scope="session")
def _a_disk_with_space() -> Iterator[None]:
    """How full the disk of this machine is decides no test. Small disks are those that a test has made to be full."""
    real = shutil.disk_usage

    def usage(path: str) -> Any:
        found = real(path)
        return found if found.total < _SMALL_BYTES else found._replace(free=found.total)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "disk_usage", usage)
        yield


_SMALL_BYTES = 1 << 30


@pytest.fixture(autouse=True)
def _active_session(request: pytest.FixtureRequest) -> None:
    """What a test does to the connection of its thread does not reach the tests after it.

    An interrupted call of the JVM gets a new connection, and with it a new Java thread, without an active session.
    """
    if "spark" in request.fixturenames:
        from spark_eos.spark.start import prepare_thread

        prepare_thread(request.getfixturevalue("spark"))
