"""docs/reference/metrics.md is made from the table, and docs/extensions/metrics.md names options that exist."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from scripts import metrics_page
from spark_eos.cli.command import app
from spark_eos.extensions.metrics.table import METRICS
from tests.generate import stale

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/extensions/metrics.md").read_text("utf-8")


def test_the_page_has_the_table():
    assert stale("scripts.metrics_page") == [], "scripts/generate writes it"
    text = metrics_page.PAGE.read_text("utf-8")
    assert all(f"| `{metric.prometheus_name}` | `{metric.name}` |" in text for metric in METRICS.values())


def test_the_commands_exist():
    command = typer.main.get_command(app).commands["metrics"]
    options = {name for param in command.params for name in param.opts}
    found = re.findall(r"^eoslog metrics (.*)", GUIDE, re.MULTILINE)
    assert len(found) == 3
    for line in found:
        assert {word for word in line.split() if word.startswith("--")} <= options
    for option in re.findall(r"`(--[a-z]+)", GUIDE):
        assert option in options
