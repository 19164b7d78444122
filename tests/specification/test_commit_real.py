"""What operating-system processes do to one log in a folder is a behaviour of the specification of the commit."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from tests.specification.planting import planted
from verification.specification.events import Event
from verification.specification.planted_code import codes
from verification.specification.real_processes import record
from verification.specification.real_recording import RealRecorder, merged, request_id
from verification.specification.real_run import Plan
from verification.specification.traces import COMMIT, COMMIT_EXACT, behaviours, rejected

pytestmark = pytest.mark.usefixtures("tlc")

AT_ONCE = 24
"""Runs of one program: mostly they wait."""

MOST = 10
"""So many times that many runs are made until all that must occur was seen."""

MUST = {
    *(
        "Begin",
        "Read",
        "Jump",
        "Look",
        "Alone",
        "Lead",
        "Lead with others",
        "Submit",
        "StopWaiting",
        "Settle",
    ),
    *(
        "Withdraw",
        "Create",
        "Heard",
        "Taken",
        "SlotTaken",
        "NoReply",
        "Unheard",
        "Twice",
        "Land",
        "Crash",
        "Retire",
    ),
    *("Lag", "Reported", "Told"),
    *("yes", "refused", "GiveUp", "unknown", "failed"),
}
"""Kinds of steps that occur by chance, some of them once in a few runs."""

CODE = (
    "own-entry-not-recognised",
    "unknown-is-no",
    "taken-slot-is-ours",
    "taken-along-again",
    "lagging-with-what-is-in-doubt",
)
"""Mutants of the commit path, each of which gives traces that are no behaviours."""


def kinds(events):
    found = Counter(event.kind for event in events)
    found["Lead with others"] = sum(event.kind == "Lead" and bool(event.others) for event in events)
    return +found


def wrong(runs):
    """The runs that are no behaviours, as text."""
    found = []
    for form, exact in ((COMMIT, False), (COMMIT_EXACT, True)):
        some = [run for run in runs if run.exact is exact]
        if some:
            found += [
                f"seed {some[one.trace - 1].seed}, {one}"
                for one in rejected([run.events for run in some], form)
            ]
    return found


@pytest.mark.deep
def test_what_processes_do_is_specified():
    seen = Counter()
    for batch in range(MOST):
        runs = record(range(batch * AT_ONCE, (batch + 1) * AT_ONCE), at_once=8)
        assert all(run.has_ended for run in runs)
        assert not (found := wrong(runs)), "\n".join(found)
        seen += kinds([event for run in runs for event in run.events])
        if seen.keys() >= MUST:
            return
    assert seen.keys() >= MUST


@pytest.mark.deep
@pytest.mark.parametrize("name", CODE)
def test_a_planted_bug_gives_traces_that_are_no_behaviours(name):
    file_and_text = planted(name)
    assert [*codes(*file_and_text)]
    in_group = {"taken-along-again", "lagging-with-what-is-in-doubt"}
    fit = (seed for seed in itertools.count() if is_short(Plan.of(seed), lags=name in in_group))
    for _ in range(MOST):
        runs = record([*itertools.islice(fit, 4)], planted=file_and_text)
        # Exact or not: the weaker specification of the two is enough.
        if not all(behaviours([run.events for run in runs], COMMIT)):
            return
    pytest.fail("not seen")


def is_short(plan, *, lags):
    """Whether processes lag, or replies are lost, and no process sleeps for long."""
    is_troubled = plan.lags if lags else plan.is_lossy
    return is_troubled and not plan.forgets and not any(one.stopped_s > 1 for one in plan.strikes)


# -- The recording ------------------------------------------------------------------------------------------


def test_steps_of_processes_are_in_the_order_of_their_records(tmp_path):
    one, two = RealRecorder(tmp_path, 1), RealRecorder(tmp_path, 2)
    one.add(Event("Begin", 1, 0, ((1, 1),)))
    two.add(Event("Begin", 2, 0, ((2, 1),)))
    two.flush()
    one.flush()
    two.add_now(Event("Retire", 0, 1))
    one.events[0].slot = 7  # What became known later has no other place.
    one.add(Event("free", 1, 2))
    one.flush()
    two.add(Event("Look", 2, 2))
    two.flush()
    before = one.events.pop()
    one.events += [Event("Jump", 1, 5), before]  # Put before what has a place.
    before.kind = "refused"
    one.flush()
    assert [(event.kind, event.process, event.slot) for event in merged(tmp_path, {})] == [
        *(
            ("Begin", 2, 0),
            ("Begin", 1, 7),
            ("Retire", 0, 1),
            ("Jump", 1, 5),
            ("refused", 1, 2),
            ("Look", 2, 2),
        ),
    ]


@pytest.mark.parametrize("done", ["no", "yes", "retired since"])
def test_a_create_of_a_process_that_was_killed_before_it_has_recorded_it(tmp_path, done):
    recorder, other = RealRecorder(tmp_path, 1), RealRecorder(tmp_path, 2)
    entry, temporary = tmp_path / "entry", tmp_path / "temporary"
    temporary.touch()
    inode = temporary.stat().st_ino
    with recorder.order:
        recorder._write(
            {"inode": inode, "step": [1, recorder.order.next(), 0.0, 1, "Create", 3, [[1, 1]], [0, 0], []]}
        )
    if done == "no":
        entry.touch()
    else:
        entry.hardlink_to(temporary)
    if done == "retired since":
        other.add_now(Event("Retire", 0, 3), inode)
        entry.unlink()
    found = [event.kind for event in merged(tmp_path, {3: entry})]
    assert found == {"no": [], "yes": ["Create"], "retired since": ["Create", "Retire"]}[done]


def test_requests_say_whose_they_are(tmp_path):
    names = RealRecorder(tmp_path, 1).names
    assert names[request_id(3, 2)] == (3, 2)
    assert request_id(3, 2) in names
    assert bytes(16) not in names
