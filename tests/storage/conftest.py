"""What the tests of stores share."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from spark_eos.storage import PosixStore, Settings
from verification.object_server import ObjectServer, serving


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return PosixStore(tmp_path / "log")


CLOUDS = ["s3", "azure", "gcs"]


@pytest.fixture(scope="session", params=CLOUDS)
def bucket(request):
    """URL and settings of a bucket on a server that runs."""
    if request.param == "gcs":
        with serving(ObjectServer({"bucket": {}}, page=3)) as server:
            yield "gs://bucket", Settings({"gcs.service.host": server.address, "gcs.oauth2.token": "a-token"})
    else:
        server = request.getfixturevalue("minio_server" if request.param == "s3" else "azurite_server")
        yield server.url, server.settings


@pytest.fixture
def place(bucket):
    url, settings = bucket
    return f"{url}/tests/{uuid.uuid4().hex}", settings
