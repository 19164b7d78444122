"""docs/guide/sizing.md has what scripts/sizing_page.py counts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts/sizing_page.py"


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("sizing_page", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_what_is_counted(maker):
    text = maker.PAGE.read_text("utf-8")
    assert text == maker.page(text), "run: python scripts/sizing_page.py"
    for name in ("requests", "bytes"):
        assert text.count(maker.BEGIN.format(name)) == text.count(maker.END.format(name)) == 1


def test_a_request_more_is_seen(maker):
    """The counts are of the calls alone: what was done before them is not in them."""
    before = maker.counted(maker.flush)

    def twice(world):
        run = maker.flush(world)
        return lambda: (run(), run())

    assert maker.counted(twice) == (2 * before[0], 2 * before[1], {"PUT": 2 * before[2]["PUT"]})
