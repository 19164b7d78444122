"""The page that compares the clients with those of the two libraries is what they have."""

from __future__ import annotations

from tests.clients.clients_table import CLASSES, NONE, OTHER, PAGE, page, public, rows


def test_every_name_has_an_answer():
    assert [(title, name) for title, name, answer in rows() if answer is None] == []
    assert len(rows()) > 200


def test_the_page_is_as_it_is_made():
    assert PAGE.read_text("utf-8") == page(), "python -m tests.clients.clients_table writes it"


def test_other_names_are_there():
    for library, kind, theirs, ours in CLASSES:
        for name, here in OTHER.get((library, kind), {}).items():
            assert name in public(theirs) or theirs.__name__.endswith("AdminClient"), name
            assert callable(getattr(ours, here))


def test_each_reason_is_on_the_page():
    shown = {(name, answer) for _, name, answer in rows()}
    assert set(NONE.items()) - shown == set()
