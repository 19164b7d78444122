"""The contract of a store, held by S3 (MinIO), Azure (Azurite) and Google's requests (a small server)."""

from __future__ import annotations

import pytest

from spark_eos.storage import open_store
from spark_eos.testing.store_contract import StoreContract


class TestObjectStore(StoreContract):
    @pytest.fixture
    def store(self, place):
        return open_store(*place)
