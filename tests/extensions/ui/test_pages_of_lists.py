"""A list that the page asks for page by page: its order is that of the whole list."""

from __future__ import annotations

import pytest

from spark_eos.extensions.ui.question import Question, page

ROWS = [{"name": name, "lag": lag} for name, lag in (("b", 9), ("", 3), ("a", None), ("c", 10), ("d", 2))]


@pytest.mark.parametrize(
    ("by", "names"),
    [("lag", ["c", "b", "", "d", "a"]), ("name", ["a", "b", "c", "d", ""]), ("", ["b", "", "a", "c", "d"])],
)
def test_the_order(by, names):
    """As in the browser: what is not known comes last."""

    def asked(**fields):
        answer = page(Question({"sort": by, "count": 2, **fields}), ROWS, dict, ("name", "lag"))
        return [row["name"] for row in answer["rows"]]

    assert asked() + asked(first=2) + asked(first=4) == names
    assert asked(first=9, count=5) == names, "the last page there is"
    assert asked(reverse=True) == names[:-3:-1]
