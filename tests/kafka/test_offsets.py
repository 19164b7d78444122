"""Offsets of kafka-python's form, whose metadata may be None."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import pytest

from spark_eos import Admin
from spark_eos import OffsetAndMetadata as OurOffset
from spark_eos.kafka import OffsetAndMetadata
from tests.clients.test_given_values import (  # noqa: F401  (fixtures)
    METADATA,
    OFFSET,
    T0,
    is_no_offset,
    log,
    producer,
)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [(OffsetAndMetadata(1, 5), METADATA), (OffsetAndMetadata("1"), OFFSET)],
    ids=repr,
)
def test_an_offset_to_commit(log, producer, wrong, says):
    is_no_offset(log, producer, wrong, says)


def test_offsets_without_metadata(log):
    admin = Admin(log)
    for offset in (OffsetAndMetadata(0, None), OffsetAndMetadata(0, "", None)):
        admin.alter_group_offsets("g", {T0: offset})
        assert admin.list_group_offsets("g") == {T0: OurOffset(0, "")}
