"""The contract of a store, held by S3 (MinIO), Azure (Azurite) and Google's requests (a small server)."""

from __future__ import annotations

import uuid

import pytest

from spark_eos.storage import Settings, open_store
from spark_eos.storage.clouds import parse_location
from spark_eos.storage.objects import ObjectStore
from spark_eos.testing.cloud_servers import AZURITE, MINIO, azurite, installed, minio
from spark_eos.testing.object_server import ObjectServer, serving
from spark_eos.testing.store_contract import StoreContract
from spark_eos.testing.upload_contract import UploadContract

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


class TestObjectStore(StoreContract):
    @pytest.fixture
    def store(self, place):
        return open_store(*place)


class TestUploadsInParts(UploadContract):
    """As soon as there is a byte, an upload goes in parts."""

    @pytest.fixture
    def store(self, place):
        url, settings = place
        return ObjectStore(parse_location(url), settings, single_bytes=0)
