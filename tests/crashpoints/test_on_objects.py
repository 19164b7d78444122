"""The scenarios of `test_on_posix` in buckets of real servers."""

from __future__ import annotations

import itertools

import pytest

from spark_eos.storage import Settings, open_store
from spark_eos.testing.cloud_servers import AZURITE, MINIO, azurite, installed, minio
from tests.crashpoints.app import every_point, no_threads
from tests.crashpoints.clients import SCENARIOS
from tests.crashpoints.queries import QUERIES


@pytest.fixture(scope="module", params=[MINIO, AZURITE], ids=["minio", "azurite"])
def server(request, tmp_path_factory):
    if not installed(request.param):
        pytest.skip(f"{request.param[0]} is not here: scripts/servers installs it")
    folder = tmp_path_factory.mktemp("server") / "data"
    with minio(folder) if request.param == MINIO else azurite() as running:
        yield running


@pytest.mark.parametrize("name", ["create a log", "init, first", "batch"])
def test_every_crash_point(name, server):
    count = itertools.count()
    scenario = {**SCENARIOS, **QUERIES}[name]
    settings = Settings(server.settings)
    place = f"{server.url}/{name.replace(' ', '-').replace(',', '')}"
    with no_threads():
        assert every_point(scenario, factory=lambda: open_store(f"{place}-{next(count)}", settings))
