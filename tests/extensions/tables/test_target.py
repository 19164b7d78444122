"""What stands in the properties of a version, and back."""

from __future__ import annotations

import pytest

from spark_eos.errors import TableDamagedError
from spark_eos.extensions.tables.target import Stamp

STAMP = Stamp("log-1", "nightly", 3, 17, 1_700_000_000_000, "orders", "id-1", {1: (0, 5), 0: (2, 9)}, 60_000)


def test_a_stamp_is_read_back_from_properties():
    assert Stamp.of({"engine": "x", **STAMP.properties()}) == STAMP
    assert STAMP.properties()["eoslog.offsets"] == '{"0":[2,9],"1":[0,5]}'


def test_a_version_of_another_program_has_no_stamp():
    assert Stamp.of({"engine": "x"}) is None


@pytest.mark.parametrize("name", sorted(STAMP.properties()))
def test_a_damaged_stamp_is_not_taken_for_one(name):
    properties = STAMP.properties()
    properties[name] = "[" if "offsets" in name else properties[name]
    if "offsets" not in name:
        del properties[name]
    if name == "eoslog.sequence":
        assert Stamp.of(properties) is None
    else:
        with pytest.raises(TableDamagedError):
            Stamp.of(properties)
