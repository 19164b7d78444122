"""What the documents say of the code: states, settings of stores, links. Their blocks: `tests.pages`."""

from __future__ import annotations

import re
from pathlib import Path

from spark_eos.clients.producer.transaction_states import ClientState
from spark_eos.config.store import STORE

CLIENTS = (Path(__file__).parent.parent / "docs/reference/clients.md").read_text(encoding="utf-8")


def test_the_states():
    assert all(f"`{state.name}`" in CLIENTS for state in ClientState)


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
