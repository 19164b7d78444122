"""An action that is declared in one place is stored, applied, checked, shown and looked for; nothing else knows it.

`ReserveIds` is such an action. It stands here as it would stand in a module of `spark_eos.protocol.actions`.

`test_adding_an_action.py` runs these tests in a process of its own. A thread of another test that reads an entry
meanwhile would keep what is derived from all actions, though the action has gone.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from spark_eos.cli.dump import dump
from spark_eos.errors import InvalidRequestError, UnsupportedVersionError
from spark_eos.log.log import Log
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.declaration import INT32, Declaration, Effects, Fate, Field, declare
from spark_eos.protocol.encoding import entries, schema
from spark_eos.protocol.encoding.avro import LONG, STRING, array_of, fingerprint
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules import bounds
from spark_eos.protocol.rules.apply import apply, apply_entry
from spark_eos.protocol.rules.fate import fate_of, is_repeatable
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock
from tests.needing import needs

RELEASED = max(schema.written())
"""The newest version without the action."""


# -- The action: what a new module in spark_eos/protocol/actions has ----------------------------------------


class ReserveIds(NamedTuple):
    """Producer ids are set aside, from ``first`` on. ``owners`` came one version after the action."""

    first: int
    count: int
    owners: tuple[str, ...] = ("none",)


def reserve(state: State, action: ReserveIds) -> tuple[State, int]:
    """The ids must be the next ones; the result is the first id that is left."""
    if action.first != state.next_producer_id:
        raise InvalidRequestError(f"the next producer id is {state.next_producer_id}, not {action.first}")
    end = action.first + action.count
    return replace(state, next_producer_id=end), end


def _check(action: ReserveIds) -> None:
    if len(set(action.owners)) < len(action.owners):
        raise InvalidRequestError("an owner is named twice")


def declare_it() -> Declaration:
    return declare(
        ReserveIds,
        number=99,
        since=RELEASED + 1,
        fields=(
            Field("first", LONG),
            Field("count", LONG, bounds=INT32),
            Field("owners", array_of(STRING), since=RELEASED + 2),
        ),
        rule=reserve,
        fate=lambda state, action: (
            Fate.NOT_APPLIED if state.next_producer_id <= action.first else Fate.UNKNOWN
        ),
        is_repeatable=lambda _: False,
        effects=lambda _: Effects(groups=frozenset({"reserved"})),
        check=_check,
    )


# -- What follows from it -----------------------------------------------------------------------------------

DERIVED = (
    *(schema.written, schema.known_schemas, schema.newest, entries._readers),
    *(bounds._checks, bounds._quick, bounds._declared_bounds),
)


def forget_what_is_derived():
    for one in DERIVED:
        one.cache_clear()


@pytest.fixture
def declared():
    declaration = declare_it()
    forget_what_is_derived()
    yield declaration
    del a.DECLARED[ReserveIds]
    forget_what_is_derived()


ACTION = ReserveIds(0, 5, ("x", "y"))


def request(*actions):
    return a.Request(bytes(16), 1000, actions, "w")


def created() -> State:
    return apply_entry(EMPTY, a.Entry(0, (request(a.CreateLog("log")),)))[0]


@pytest.fixture
def state():
    return created()


@pytest.mark.usefixtures("declared")
def test_it_is_stored_and_read():
    entry = a.Entry(1, (request(ACTION, a.DeleteTopic("t", "t-id")),))
    data = encode_entry(entry)
    assert decode_entry(data, 1, "entry 1") == entry
    assert data[8:16] == fingerprint(schema.written()[RELEASED + 2])


@pytest.mark.usefixtures("declared")
def test_it_makes_new_versions_and_leaves_the_released_ones_as_they_are():
    with_it = [fingerprint(one) for one in schema.written().values()]
    assert len(with_it) == RELEASED + 2
    del a.DECLARED[ReserveIds]
    forget_what_is_derived()
    assert [fingerprint(one) for one in schema.written().values()] == with_it[:RELEASED]
    declare_it()


@pytest.mark.usefixtures("declared")
def test_a_field_that_came_later_has_its_default_in_older_entries(monkeypatch):
    next_version = list(schema.known_schemas().items())[RELEASED]
    with monkeypatch.context() as patch:
        patch.setattr(entries, "newest", lambda: next_version)
        data = encode_entry(a.Entry(1, (request(ACTION),)))
    (read,) = decode_entry(data, 1, "entry 1").requests[0].actions
    assert read == ReserveIds(0, 5, ("none",))


def test_a_version_without_it_refuses_the_entry(declared):
    data = encode_entry(a.Entry(1, (request(ACTION),)))
    del a.DECLARED[ReserveIds]
    forget_what_is_derived()
    with pytest.raises(UnsupportedVersionError, match="upgrade"):
        decode_entry(data, 1, "entry 1")
    a.DECLARED[ReserveIds] = declared


@pytest.mark.usefixtures("declared")
def test_entries_keep_the_rules_of_the_schema_that_they_were_written_with(monkeypatch):
    monkeypatch.setattr(schema, "_RULES_SINCE", (1, RELEASED + 1))
    entry = a.Entry(1, (request(a.DeleteTopic("t", "t-id")),))
    written = []
    for version in schema.known_schemas().items():
        with monkeypatch.context() as patch:
            patch.setattr(entries, "newest", lambda found=version: found)
            written.append(decode_entry(encode_entry(entry), 1, "entry 1").rules)
    assert written == [1] * RELEASED + [2, 2]


@pytest.mark.usefixtures("declared")
def test_it_is_applied(state):
    after, outcome = apply(state, request(ACTION))
    assert outcome.results == (5,)
    assert after.next_producer_id == 5
    again, rejected = apply(after, request(ACTION))
    assert again is after
    assert "the next producer id is 5, not 0" in str(rejected.error)


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("action", "message"),
    [
        (ACTION._replace(count=2**31), "ReserveIds.count is 2147483648"),
        (ACTION._replace(first=1.5), "ReserveIds.first cannot be of type float"),
        (ACTION._replace(owners=["x"]), "ReserveIds.owners cannot be of type list"),
        (ACTION._replace(owners=("x", "x")), "named twice"),
    ],
)
def test_what_no_state_allows_is_rejected(state, action, message):
    after, outcome = apply(state, request(action))
    assert after is state
    assert message in str(outcome.error)


@pytest.mark.usefixtures("declared")
def test_its_fate_is_known_after_a_lost_reply(state):
    assert fate_of(state, (ACTION,)) is Fate.NOT_APPLIED
    assert fate_of(apply(state, request(ACTION))[0], (ACTION,)) is Fate.UNKNOWN
    assert not is_repeatable((ACTION,))


@pytest.mark.usefixtures("declared")
def test_a_dump_shows_it():
    log = Log.create(MemoryStore(), clock=FakeClock())
    log.commit(lambda _state: (ACTION,))
    (line,) = [line for line in dump(log, 1) if line["kind"] == "action"]
    assert line["action"] == "ReserveIds"
    assert line["fields"] == {"first": 0, "count": 5, "owners": ["x", "y"]}
    assert Log.open(log.store, clock=FakeClock()).state == log.state


@needs("machines")
@pytest.mark.usefixtures("declared")
def test_the_reference_model_fails_on_it_by_name(state):
    """A model that does not know an action would otherwise agree with whatever the rule does."""
    from verification.simulator.reference_model import ReferenceModel

    after, outcome = apply(state, request(ACTION))
    model = ReferenceModel(pytest.fail)
    with pytest.raises(NotImplementedError, match="does not know ReserveIds"):
        model.enter(state, request(ACTION), outcome.results, after, 0.0)
