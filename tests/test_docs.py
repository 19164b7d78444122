"""What docs/reference/clients.md says is so: its example runs, and it names all states."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from spark_eos.clients.producer.transaction_manager import ClientState
from spark_eos.config.store import STORE

CLIENTS = (Path(__file__).parent.parent / "docs/reference/clients.md").read_text(encoding="utf-8")


def test_the_states():
    assert all(f"`{state.name}`" in CLIENTS for state in ClientState)


def test_the_example_runs(tmp_path):
    (example,) = re.findall(r"^```python\n(.*?)^```", CLIENTS, re.DOTALL | re.MULTILINE)
    code = example.replace("/tmp/clients-log", str(tmp_path / "log"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "1 copied\n"


def test_the_examples_for_users_of_kafka_python(tmp_path):
    guide = (Path(__file__).parent.parent / "docs/guide/python-clients.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    code = "\n".join(blocks).replace("/tmp/from-kafka-python", str(tmp_path / "log"))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "offset 0\nb'anna' {'apples': 2}\n1 copied\n"


def test_the_settings_of_stores():
    pages = {"s3": "s3", "adls": "azure", "gcs": "gcs"}
    for prefix, page in pages.items():
        text = (Path(__file__).parent.parent / f"docs/guide/stores/{page}.md").read_text("utf-8")
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith(f"| `{prefix}.")]
        named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
        assert named == {name for name in STORE if name.startswith(f"{prefix}.")}


def test_the_links_of_the_documents():
    root = Path(__file__).parent.parent
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    assert len(pages) > 10
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(root)} points at {target}"
