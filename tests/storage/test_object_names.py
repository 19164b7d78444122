"""Names that are recognized in one step are those that each rule lets pass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.errors import InvalidRequestError
from spark_eos.storage import object_names

PARTS = st.text("aZ09_.-= é\0", max_size=4) | st.sampled_from(
    ["_tmp", "_tmp2", ".", "..", "x" * 100, "x" * 256]
)
NAMES = st.lists(PARTS, max_size=10).map("/".join)


def problem_by_each_rule(name, **reserved):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(object_names, "_IS_PLAIN", lambda _: None)
        return object_names._problem.__wrapped__(name, **reserved)


@given(NAMES, st.booleans())
def test_no_rule_objects_to_a_plain_name(name, reserved):
    if name and object_names._IS_PLAIN(name):
        assert problem_by_each_rule(name, reserved=reserved) is None


@pytest.mark.parametrize(
    "name", ["_log/00000000000000000001.avro", "data/t/0-5f.arrow", "_log/snapshots/7.avro"]
)
def test_the_names_of_a_log_are_plain(name):
    assert object_names._IS_PLAIN(name)


@pytest.mark.parametrize(
    "name",
    ["_tmp", "_tmp/a", "a//b", "a/", "/a", "../a", "a/..", "a\0", "x" * 256, "ä" * 128, "ä/" * 400 + "x", ""],
)
def test_a_name_against_a_rule(name):
    with pytest.raises(InvalidRequestError, match="cannot name an object"):
        object_names.check_name(name)
