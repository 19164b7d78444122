"""Tables of a few rows."""

from __future__ import annotations

import pytest

pytest.importorskip("deltalake", reason="the extra 'tables' is not installed")
