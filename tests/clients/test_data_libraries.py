"""docs/guide/duckdb-polars.md: its blocks for libraries that are too large to be installed for every test."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/guide/duckdb-polars.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
"""The first one makes the log."""


@pytest.mark.parametrize(("library", "printed"), [("ray", "56"), ("torch", "tensor(56)")])
def test_a_block_of_the_page(library, printed, tmp_path):
    """In a process of its own: these libraries start threads and processes."""
    (block,) = [block for block in BLOCKS if f"import {library}\n" in block]
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed: pip install {library}")
    code = f"{BLOCKS[0]}\n{block}".replace("/tmp/", f"{tmp_path}/")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip().splitlines()[-1].startswith(printed)
