"""The scenarios of `test_on_posix` in buckets of real servers."""

from __future__ import annotations

import itertools

import pytest

from spark_eos.storage import Settings, open_store
from tests.crashpoints.app import every_point, no_threads
from tests.crashpoints.clients import SCENARIOS
from tests.crashpoints.queries import QUERIES


@pytest.fixture(params=["minio_server", "azurite_server"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.mark.deep("azurite_server-batch", "azurite_server-create a log", "azurite_server-init, first")
@pytest.mark.deep("minio_server-create a log", "minio_server-batch")
@pytest.mark.parametrize("name", ["create a log", "init, first", "batch"])
def test_every_crash_point(name, server):
    count = itertools.count()
    scenario = {**SCENARIOS, **QUERIES}[name]
    settings = Settings(server.settings)
    place = f"{server.url}/crashpoints/{name.replace(' ', '-').replace(',', '')}"
    with no_threads():
        assert every_point(scenario, factory=lambda: open_store(f"{place}-{next(count)}", settings))
