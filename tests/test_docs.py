"""What docs/reference/clients.md says is so: its example runs, and its tables are the settings there are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from spark_eos.clients.producer.transaction_manager import ClientState
from spark_eos.config.consumer import CONSUMER
from spark_eos.config.producer import PRODUCER
from spark_eos.config.store import STORE
from spark_eos.log.settings import LOG_CONFIGS
from spark_eos.log.topics import TOPIC_CONFIGS

CLIENTS = (Path(__file__).parent.parent / "docs/reference/clients.md").read_text(encoding="utf-8")


def table(title):
    """The rows below a heading, as pairs of cells."""
    section = CLIENTS.split(f"\n### {title}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE)
    return dict(rows)


def written(default):
    """A default as the tables have it."""
    return "–" if default == "" else default if "`" in str(default) else f"`{default}`"


def test_the_settings():
    for title, settings in (("Producer", PRODUCER), ("Consumer", CONSUMER)):
        assert table(title) == {name: written(option.shown_default) for name, option in settings.items()}


def test_the_settings_of_topics_and_logs():
    for title, settings in (("Topic", TOPIC_CONFIGS), ("Log", LOG_CONFIGS)):
        told = {name: cells.split(" | ")[0] for name, cells in table(title).items()}
        assert told == {name: written(default) for name, default in settings.items()}


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
