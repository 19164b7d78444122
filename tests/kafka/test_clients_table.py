"""The page that compares the clients with those of the two libraries is what they have."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.generate import stale
from tests.kafka.clients_table import CLASSES, NONE, OTHER, public, rows

MADE_OF = {"confluent-kafka": (2, 16), "kafka-python": (3, 0, 12)}
"""The versions that the page was made of; earlier ones have fewer names."""

of_the_page = pytest.mark.skipif(
    any(tuple(map(int, version(name).split(".")[:3])) < least for name, least in MADE_OF.items()),
    reason=f"the page was made of {MADE_OF}",
)


def test_every_name_has_an_answer():
    assert [(title, name) for title, name, answer in rows() if answer is None] == []
    assert len(rows()) > 200


@of_the_page
def test_the_page_is_as_it_is_made():
    assert stale("tests.kafka.clients_table") == [], "scripts/generate writes it"


def test_other_names_are_there():
    for library, kind, theirs, ours in CLASSES:
        for name, here in OTHER.get((library, kind), {}).items():
            assert name in public(theirs) or theirs.__name__.endswith("AdminClient"), name
            assert callable(getattr(ours, here))


@of_the_page
def test_each_reason_is_on_the_page():
    shown = {(name, answer) for _, name, answer in rows()}
    assert set(NONE.items()) - shown == set()
