"""docs/guide/sizing.md has what scripts/sizing_page.py counts."""

from __future__ import annotations

from scripts import sizing_page as maker
from tests.generate import stale


def test_the_page_has_what_is_counted():
    assert stale("scripts.sizing_page") == [], "scripts/generate writes it"
    text = maker.PAGE.read_text("utf-8")
    for name in ("requests", "bytes"):
        assert text.count(maker.BEGIN.format(name)) == text.count(maker.END.format(name)) == 1


def test_a_request_more_is_seen():
    """The counts are of the calls alone: what was done before them is not in them."""
    before = maker.counted(maker.flush)

    def twice(world):
        run = maker.flush(world)
        return lambda: (run(), run())

    assert maker.counted(twice) == (2 * before[0], 2 * before[1], {"PUT": 2 * before[2]["PUT"]})
