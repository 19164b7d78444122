"""The notebook runs from its first cell to its last, in one namespace, as a notebook does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "tour.py"


def cells():
    first, *rest = NOTEBOOK.read_text(encoding="utf-8").split("\n# COMMAND ----------\n")
    assert first.startswith("# Databricks notebook source\n")
    return [first, *rest]


def test_a_cell_is_either_text_or_code():
    for cell in cells():
        lines = [line for line in cell.strip().splitlines() if line != "# Databricks notebook source"]
        magic = [line.startswith("# MAGIC") for line in lines]
        assert lines, "an empty cell"
        assert all(magic) or not any(magic), cell
        assert not magic[0] or lines[0] == "# MAGIC %md"


@pytest.mark.usefixtures("spark")
def test_every_cell_runs(capsys):
    namespace = {}
    ran = 0
    for number, cell in enumerate(cells()):
        code = cell.strip()
        if not code.splitlines()[-1].startswith("# MAGIC"):
            exec(compile(code, f"{NOTEBOOK.name}, cell {number}", "exec"), namespace)
            ran += 1
    shutil.rmtree(namespace["folder"])
    said = capsys.readouterr().out
    assert ran >= 8
    assert "refuse" in said or "offset" in said
