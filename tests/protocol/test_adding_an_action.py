"""What a declaration of an action must say, and that it is all that a new action needs (`adding_an_action.py`)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.declaration import Field, declare
from spark_eos.protocol.encoding.avro import LONG, STRING, array_of
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.rules.apply import apply
from tests.generate import stale
from tests.protocol.adding_an_action import ACTION, ReserveIds, created, request, reserve
from verification.processes import environment


def test_an_action_that_is_declared_in_one_place_is_stored_applied_checked_and_shown():
    tests = Path(__file__).with_name("adding_an_action.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", tests],
        env=environment(PYTEST_ADDOPTS=""), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert re.search(r"^1[0-9] passed", done.stdout, re.MULTILINE), done.stdout


def test_an_action_that_is_not_declared_is_rejected():
    state = created()
    after, outcome = apply(state, request(ACTION))
    assert after is state
    assert "cannot be of type ReserveIds" in str(outcome.error)
    with pytest.raises(InvalidRequestError, match="cannot be written"):
        encode_entry(a.Entry(1, (request(ACTION),)))


# -- What a declaration must say ----------------------------------------------------------------------------


def test_every_action_is_declared_and_listed():
    assert {*a.DECLARED} == {*get_args(a.Action)}
    assert stale("tests.protocol.index") == [], "scripts/generate writes it"
    by_number = sorted(a.DECLARED.values(), key=lambda one: one.number)
    assert [one.number for one in by_number] == list(range(len(by_number))), (
        "no number is free or taken twice"
    )
    assert [one.since for one in by_number] == sorted(one.since for one in by_number), (
        "a new action comes last"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fields": (Field("first", LONG),)}, "declares"),
        ({"number": 0}, "CreateLog has it"),
        (
            {"fields": (Field("first", LONG), Field("count", LONG, since=9), Field("owners", LONG))},
            "count needs a default",
        ),
    ],
)
def test_a_declaration_that_cannot_be(changes, message):
    sound = {
        "number": 23,
        "since": 8,
        "fields": (Field("first", LONG), Field("count", LONG), Field("owners", array_of(STRING))),
        "rule": reserve,
    }
    with pytest.raises(TypeError, match=message):
        declare(ReserveIds, **{**sound, **changes})
    assert ReserveIds not in a.DECLARED
