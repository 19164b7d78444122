"""What the tests of `PosixStore` share."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_eos.storage import PosixStore


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return PosixStore(tmp_path / "log")
