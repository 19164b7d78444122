"""Tables of a few rows."""

from __future__ import annotations

import pytest

pytest.importorskip("deltalake", reason="the extra 'tables' is not installed")


@pytest.fixture(autouse=True)
def _catalogs_are_closed(monkeypatch):
    """Those of Iceberg that a test opens: Python 3.13 warns of connections that are left to the garbage collector."""
    try:
        from pyiceberg.catalog.sql import SqlCatalog
    except ImportError:  # A test says so itself.
        yield
        return
    opened, begin = [], SqlCatalog.__init__

    def begun(self, *arguments, **named):
        opened.append(self)
        begin(self, *arguments, **named)

    monkeypatch.setattr(SqlCatalog, "__init__", begun)
    yield
    for one in opened:
        one.close()
