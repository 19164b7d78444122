"""Transactions that are past their timeout, and open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spark_eos.log.expiration import ExpirationTask


@contextmanager
def no_expiration() -> Iterator[None]:
    """Nothing ends a transaction, here for a timeout of 1 ms: on a slow machine, the commit that opens it would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExpirationTask, "expire_overdue", lambda *_, **__: ())
        yield
