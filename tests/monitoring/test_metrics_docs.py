"""docs/reference/metrics.md is made from the table, and the examples of docs/guide/metrics.md run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import typer

from spark_eos.cli.command import app
from spark_eos.monitoring.metrics.table import METRICS

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guide/metrics.md").read_text("utf-8")


def page_maker():
    path = ROOT / "scripts/metrics_page.py"
    spec = importlib.util.spec_from_file_location("metrics_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_table():
    maker = page_maker()
    text = maker.PAGE.read_text("utf-8")
    assert text == maker.page(text), "python scripts/metrics_page.py"
    assert all(f"| `{metric.prometheus_name}` | `{metric.name}` |" in text for metric in METRICS.values())


def test_the_examples_run(tmp_path):
    blocks = re.findall(
        r"^```python\n(.*?)^```(?:\n<!-- output -->\n```text\n(.*?)^```)?", GUIDE, re.DOTALL | re.MULTILINE
    )
    without_spark = [(code, output) for code, output in blocks if "spark." not in code]
    assert [bool(output) for _, output in without_spark] == [True, True]
    code = "\n".join(code for code, _ in without_spark).replace("/tmp/", f"{tmp_path}/")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "".join(output for _, output in without_spark).replace("/tmp/", f"{tmp_path}/")


def test_the_commands_exist():
    command = typer.main.get_command(app).commands["metrics"]
    options = {name for param in command.params for name in param.opts}
    found = re.findall(r"^eoslog metrics (.*)", GUIDE, re.MULTILINE)
    assert len(found) == 3
    for line in found:
        assert {word for word in line.split() if word.startswith("--")} <= options
    for option in re.findall(r"`(--[a-z]+)", GUIDE):
        assert option in options
