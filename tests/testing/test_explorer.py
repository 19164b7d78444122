from __future__ import annotations
import __future__

import inspect
import itertools
import textwrap
from contextlib import suppress

import pytest

from spark_eos.errors import RetriableError
from spark_eos.log.commit import Committer
from spark_eos.protocol.actions import CreateTopic
from spark_eos.protocol.rules import appends, expiry, groups, microbatch, producers
from spark_eos.testing.explorer.__main__ import main
from spark_eos.testing.explorer.actor import Role
from spark_eos.testing.explorer.scenarios import SCENARIOS, Scenario
from spark_eos.testing.explorer.search import explore, replay
from spark_eos.testing.explorer.world import NondeterministicActorError, World


def plant(monkeypatch, function, *changes):
    """Change the source of a function of ours, for one test; whoever imported it runs the changed code."""
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in changes:
        assert source.count(old) == 1, f"{function.__qualname__} no longer has {old!r}"
        source = source.replace(old, new)
    names = {}
    flags = __future__.annotations.compiler_flag
    exec(
        compile(source, inspect.getfile(function), "exec", flags, dont_inherit=True),
        function.__globals__,
        names,
    )
    monkeypatch.setattr(function, "__code__", names[function.__name__].__code__)


BUGS = {
    "a lost reply counts as a failure": (
        "appenders",
        "is refused; it is entry",
        (
            Committer._create,
            ("doubted = {request.request_id for request in draft.requests}", "doubted = set()"),
        ),
    ),
    "an earlier try in doubt is forgotten": (
        "small",
        "is refused; it is entry",
        (
            Committer._create,
            (
                "doubted = {r.request_id for r in draft.requests if self._slots.get(r.request_id) == entry.seq}",
                "doubted = set()",
            ),
        ),
    ),
    "a taken slot counts as success": (
        "appenders",
        "is entry 2; it is at ()",
        (Committer._create, ("self._await_slot(entry.seq, deadline)", "return self._succeed(draft, entry)")),
    ),
    "its own entry is not recognised": (
        "appenders",
        "is in the log at (",
        (Committer._create, ("self._answer_found(draft.tickets)", "pass")),
    ),
    "the next slot while the first is in doubt": (
        "appenders",
        "slot 2 was left empty",
        (
            Committer._create,
            ("failure: EosLogError = error", "failure, name = error, names.entry(entry.seq + 1)"),
        ),
    ),
    "a fenced epoch may go on": (
        "zombies",
        "after epoch 1 fenced it",
        (producers.require_epoch, ("if stamp.epoch < producer.epoch:", "if False:")),
    ),
    "the same decision again is refused": (
        "ends",
        "wanted commit=True and was told refused",
        (
            producers.end_transaction,
            ("if producer.transaction is _completed(commit=action.commit):", "if False:"),
        ),
    ),
    "the opposite decision counts as the same": (
        "ends",
        "was decided both ways",
        (
            producers.end_transaction,
            ("if producer.transaction is _completed(commit=action.commit):", "if True:"),
        ),
    ),
    "a batch sent again is out of order": (
        "repeated",
        "is refused; it is 1 times in the log",
        (producers.find_duplicate, ("(producer.epoch, number, first, last):", "():")),
    ),
    "a batch sent again is appended again": (
        "repeated",
        "is committed; it is 2 times in the log",
        (producers.find_duplicate, ("(producer.epoch, number, first, last):", "():")),
        (producers.check_sequence, ("if first != expected:", "if False:")),
    ),
    "what has ended can still expire": (
        "expiry",
        "E failed: KeyError",
        (expiry.is_open, ("producer.transaction is TransactionState.ONGOING", "True")),
    ),
    "a partition is handed over too early": (
        "group",
        "a partition has two readers",
        (groups._handed_out, ("if key not in kept", "if True")),
    ),
    "a member commits in an old generation": (
        "group",
        "committed offsets, but it is",
        (groups.check_committer, ("if member.generation != known.generation:", "if False:")),
    ),
    "a run that was registered is the current one": (
        "same-batch",
        "is the current one",
        (microbatch.propose, ("producer.run_id == batch.run_id", "batch.run_id in producer.runs")),
        (microbatch.commit, ("producer.run_id != action.run_id", "False")),
    ),
    "other offsets count as the same batch": (
        "other-batch",
        "was told that batch 0 0 7 is in the log",
        (microbatch._same, ("return", "return True or")),
    ),
    "the staging floor is not looked at": (
        "floor",
        "listed and not there",
        (appends._check_floor, ("staged_at(staged.file.name) < state.staging_floor", "False")),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(monkeypatch, bug):
    name, wrong, *changes = BUGS[bug]
    scenario = SMALL if name == "small" else SCENARIOS[name]
    for function, change in changes:
        plant(monkeypatch, function, change)
    report = explore(scenario)
    assert report.violations, f"nothing found: {report}"
    found = report.violations[0]
    assert wrong in found.problems[0]
    assert replay(scenario, found.choices) == found


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_wrong_in_calm_weather(name):
    report = explore(SCENARIOS[name], faults=0)
    assert report.complete
    assert not report.violations, str(report.violations[0])


@pytest.mark.parametrize("name", ["ends", "expiry", "repeated", "group"])
def test_nothing_is_wrong_after_a_misfortune(name):
    report = explore(SCENARIOS[name], faults=1, states=3000)
    assert report.ends > 5
    assert not report.violations, str(report.violations[0])


def appender(value, tries):
    """The smallest actor there is: one request, tried so often."""

    def body(actor):
        log = actor.open()
        request_id = log.clock.unique()
        for _ in range(tries):
            with suppress(RetriableError):
                log.commit(lambda _state: (CreateTopic(value, f"id-of-{value}", 1),), request_id=request_id)
                return

    return body


SMALL = Scenario(
    "small",
    "two who create a topic",
    (Role("A", appender("a", 2)), Role("B", appender("b", 1))),
    faults=2,
)


def all_ends(scenario, faults):
    """The end states of every single execution, by trying every list of choices: nothing is recognised again."""
    start, ends, open_ = scenario.start(), set(), [()]
    executions = 0
    while open_:
        choices = open_.pop()
        world = World(scenario.roles, start)
        left = faults
        for token in choices:
            step = world.step(token)
            left -= step.fault
            world.take(step)
        if world.is_over:
            ends.add(world.key())
        executions += 1
        open_ += [(*choices, step.token) for step in world.steps(faults=left > 0)]
        world.close()
    return ends, executions


@pytest.mark.parametrize("faults", [0, 1])
def test_pruning_loses_no_end(faults):
    ends, executions = all_ends(SMALL, faults)
    report = explore(SMALL, faults=faults)
    assert report.complete
    assert report.ends == len(ends)
    assert report.executions < executions


def test_what_a_step_leads_to_is_known_before_it_is_taken():
    start, kinds = SMALL.start(), set()
    for first in ("A.done", "A.unheard", "A.delayed", "A.doubled", "A.refused"):
        for second in ("B.done", "B.refused", "A.done", "late.0"):
            world = World(SMALL.roles, start)
            world.take(world.step(first))
            with suppress(ValueError):
                step = world.step(second)
                key = world.key_after(step)
                world.take(step)
                if step.who < 0 or world.actors[step.who].call is not None:
                    assert world.key() == key
                    kinds.add(second)
            world.close()
    assert kinds == {"B.done", "B.refused", "A.done", "late.0"}


def test_what_a_dead_actor_left_behind_makes_another_state():
    world = World(SMALL.roles, SMALL.start())
    assert world.key_after(world.step("A.killed")) != world.key_after(world.step("A.killed-after"))
    world.close()


def test_an_actor_who_does_not_do_the_same_every_time_is_found_out():
    times = itertools.count()

    def body(actor):
        actor.store.delete("a")
        actor.store.delete(f"{next(times)}")

    with pytest.raises(NondeterministicActorError, match="A does not do the same every time"):
        explore(Scenario("moody", "", (Role("A", body), Role("B", appender("b", 1)))))


def test_a_delayed_create_takes_effect_later():
    scenario = Scenario("late", "", (Role("A", appender("a", 1)),))
    without = replay(scenario, ["A.delayed-late"])
    with_ = replay(scenario, ["A.delayed-late", "late.0"])
    assert "told unknown" in without.story[-1]
    assert "takes effect" in with_.story[-1]
    assert not without.problems
    assert not with_.problems


def test_who_is_killed_comes_back_while_he_has_lives():
    world = World((Role("A", appender("a", 1), lives=2),), SMALL.start())
    lives = []
    for _ in range(2):
        lives.append(world.actors[0].life)
        world.take(world.step("A.killed"))
    assert lives == [1, 2]
    assert world.is_over


def test_a_choice_that_is_not_possible_is_refused():
    with pytest.raises(ValueError, match=r"'B\.fly' is not possible at this point; possible are A\.done, "):
        replay(SMALL, ["B.fly"])


def test_an_actor_that_fails_is_a_violation():
    def body(actor):
        actor.store.read("nothing")

    report = explore(Scenario("failing", "", (Role("A", body),)))
    assert report.violations[0].problems == ("A failed: ObjectNotFoundError: there is no nothing",)


def test_limits_stop_it_early():
    assert not explore(SMALL, states=5).complete
    assert not explore(SMALL, seconds=0).complete


def test_the_command(capsys, monkeypatch):
    assert main(["ends", "--faults", "0"]) == 0
    assert capsys.readouterr().out.startswith("ends              faults <= 0  executions ")
    plant(monkeypatch, *BUGS["the same decision again is refused"][2])
    assert main(["ends", "--faults", "0"]) == 1
    out = capsys.readouterr().out
    assert "WRONG: B wanted commit=True and was told refused" in out
    choices = out.split("--replay '")[1].split("'")[0]
    assert main(["ends", "--replay", choices]) == 1
    assert "WRONG: B wanted commit=True" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["nonsense"])
