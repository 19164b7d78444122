"""What the tests of stores share."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from spark_eos.storage import PosixStore, Settings
from spark_eos.testing.cloud_servers import AZURITE, MINIO, azurite, installed, minio
from spark_eos.testing.object_server import ObjectServer, serving


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return PosixStore(tmp_path / "log")


CLOUDS = ["s3", "azure", "gcs"]


@pytest.fixture(scope="session", params=CLOUDS)
def bucket(request, tmp_path_factory):
    """URL and settings of a bucket on a server that runs."""
    if request.param == "s3":
        if not installed(MINIO):
            pytest.skip("MinIO is not here: scripts/servers installs it")
        with minio(tmp_path_factory.mktemp("minio")) as server:
            yield server.url, server.settings
    elif request.param == "azure":
        if not installed(AZURITE):
            pytest.skip("Azurite is not here: scripts/servers installs it")
        with azurite() as server:
            yield server.url, server.settings
    else:
        with serving(ObjectServer({"bucket": {}}, page=3)) as server:
            yield "gs://bucket", Settings({"gcs.service.host": server.address, "gcs.oauth2.token": "a-token"})


@pytest.fixture
def place(bucket):
    url, settings = bucket
    return f"{url}/tests/{uuid.uuid4().hex}", settings
