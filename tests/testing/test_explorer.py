from __future__ import annotations
import __future__

import inspect
import itertools
import sys
import textwrap
import threading
from contextlib import suppress
from dataclasses import replace

import greenlet
import pytest

from spark_eos.clients.consumer.partition_state import PartitionState
from spark_eos.clients.producer.producer import Producer
from spark_eos.clients.producer.transaction_manager import TransactionManager
from spark_eos.clients.producer.two_phase import TwoPhaseTransactions
from spark_eos.errors import ObjectExistsError, RetriableError
from spark_eos.log.commit.answers import Answers
from spark_eos.log.commit.group import CommitGroup
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.loop import Committer
from spark_eos.log.commit.slots import Slots
from spark_eos.log.commit.tail import Tail
from spark_eos.log.deciding.following import FollowingTask
from spark_eos.log.expiration import ExpirationTask
from spark_eos.log.snapshots.maintenance import BackgroundMaintenance, Retirer
from spark_eos.log.snapshots.snapshots import Snapshots
from spark_eos.maintenance.copying import close_log
from spark_eos.maintenance.rewrite import Rewriter, commit_all
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.protocol.actions import (
    CommitOffsets,
    CreateTopic,
    PartitionOffset,
    appends,
    expiry,
    groups,
    producers,
    segments,
)
from spark_eos.protocol.actions.queries import microbatch, sources
from spark_eos.protocol.rules.apply import apply
from verification.explorer import state_fingerprint
from verification.explorer.__main__ import main
from verification.explorer.actor import COMMITTED, REFUSED, UNKNOWN, FrozenClock, Role
from verification.explorer.actor_programs import GROUP, plain, producer_of
from verification.explorer.scenarios import SCENARIOS, Scenario
from verification.explorer.scheduler import SharedNameError, World
from verification.explorer.search import explore, replay
from verification.explorer.state_fingerprint import NondeterministicActorError


def plant(monkeypatch, function, *changes):
    """Change the source of a function of ours, for one test; modules that imported it run the changed code."""
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


_SAVES = "        self._pages.save(_pages(state))\n"
_STORES = (
    "        with paused(when=len(state.partitions) > MANY):\n"
    "            data = encode_snapshot(state)\n"
    "        self._store_snapshot(paths.snapshot(state.seq), data, check)\n"
)

BUGS = {
    "a lost reply counts as a failure": (
        "appenders",
        "is in the log at (",
        (
            Slots.fill,
            ("self._in_doubt.record_lost_reply(own)\n            failure = error", "failure = error"),
        ),
    ),
    "an earlier try in doubt is forgotten": (
        "small",
        "is refused; it is entry",
        (
            InDoubtRequests.record_attempt,
            ("doubt.is_unanswered = doubt.is_submitted or doubt.slot == slot", "doubt.is_unanswered = False"),
        ),
    ),
    "a taken slot counts as success": (
        "appenders",
        "is entry 2; it is at ()",
        (
            Slots.fill,
            ("return TAKEN", "return since"),
        ),
    ),
    "its own entry is not recognised": (
        "appenders",
        "is in the log at (",
        (Answers.slot_taken, ("if self._answer_if_logged(ticket):", "if False:")),
    ),
    "the next slot while the first is in doubt": (
        "appenders",
        "holds entry 4, not entry 5",
        (
            Slots.fill,
            (
                "failure = error\n        except StoreUnavailableError as",
                "failure, name = error, paths.entry(seq + 1)\n        except StoreUnavailableError as",
            ),
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
        (producers.next_window, ("if first != expected:", "if False:")),
    ),
    "what has ended can still expire": (
        "expiry",
        "E failed: KeyError",
        (expiry.is_open, ("producer.transaction is TransactionState.ONGOING", "True")),
        # What refuses such a request in the end, and what hides its failure.
        (apply, ("except _MISTAKES as error", "except ZeroDivisionError as error")),
        (ExpirationTask.expire_overdue, ("except Exception as error", "except EosLogError as error")),
    ),
    "a prepared transaction is not kept": (
        "prepared",
        "was ended by epoch",
        (producers.init, ("keeps_prepared = action.keep_prepared and", "keeps_prepared = False and")),
    ),
    "a prepared transaction expires": (
        "prepared",
        "was aborted, though the database has committed it",
        (expiry.is_open, ("producer.transaction is TransactionState.ONGOING", "producer.is_open")),
        (ExpirationTask._watch, (" if producer.has_timeout", "")),
    ),
    "a token of one that is over is refused": (
        "prepared",
        "was told refused",
        (TwoPhaseTransactions._check_decided, (" and not prepared.committed", "")),
    ),
    "a reader takes what is undecided for aborted": (
        "two-logs",
        "the follower is committed=False, and the decision was committed",
        (
            FollowingTask._follow,
            (
                "    if decision.committed is None:\n        self._wait(",
                (
                    "    if decision.committed is None:\n        decision = decision._replace(committed=False)\n"
                    "    if False:\n        self._wait("
                ),
            ),
            ("log.expire_overdue()", "pass"),
        ),
    ),
    "a partition is handed over too early": (
        "group",
        "a partition has two readers",
        (groups._handed_out, ("if key not in held_by_others", "if True")),
    ),
    "a member commits in an old generation": (
        "group",
        "committed offsets, but it is",
        (groups.check_committer, ("if member.generation != current.generation:", "if False:")),
    ),
    "a run that was registered is the current one": (
        "same-batch",
        "is the current one",
        (microbatch._is_current, ("producer.run_id == run_id", "run_id in producer.runs")),
    ),
    "other offsets count as the same batch": (
        "other-batch",
        "was told that batch 0 0 7 is in the log",
        (sources.repeats, ("return", "return True or")),
    ),
    "what expired is committed": (
        "expiry",
        "is refused; it is 1 times in the log",
        (expiry.expire_transaction, ("commit=False", "commit=True")),
    ),
    "a commit in doubt can be aborted": (
        "undecided",
        "listed and not there",
        (
            TransactionManager.check,
            ("if self.state in ALLOWED[call]:", "if self.state in {*ALLOWED[call], _S.COMMITTING}:"),
        ),
    ),
    "files of a commit in doubt are deleted": (
        "undecided",
        "listed and not there",
        (
            TransactionManager._send,
            (
                "CommitOutcomeUnknownError as error:\n        self._unanswered",
                "CommitOutcomeUnknownError as error:\n        self._drop()\n        self._unanswered",
            ),
        ),
    ),
    "who takes over leaves a transaction open": (
        "undecided-streamed",
        "is still open after epoch 1",
        (producers.init, ("if current.is_open and not keeps_prepared:", "if False:")),
    ),
    "a late end of a fenced epoch counts": (
        "undecided-streamed",
        "after epoch 1 fenced it",
        (producers.require_epoch, ("if stamp.epoch < producer.epoch:", "if False:")),
    ),
    "the opposite of a commit in doubt counts as the same": (
        "both-ways",
        "was decided both ways",
        (
            producers.end_transaction,
            ("if producer.transaction is _completed(commit=action.commit):", "if True:"),
        ),
    ),
    "a one-shot commit lands after its abort": (
        "both-ways",
        "was decided twice",
        (producers.require_transaction, ("stamp.number != producer.number + 1", "False")),
        (
            producers.end_transaction,
            ("stamp.number == producer.number and", "False and"),
        ),
    ),
    "offsets are not in the commit": (
        "recovery",
        "is refused; it is 1 times in the log",
        (TransactionManager._build, ("if offsets", "if offsets and not end")),
    ),
    "offsets of what was aborted count": (
        "recovery-streamed",
        "is committed; it is 0 times in the log",
        (producers.complete, ("    if commit:\n", "    if True:\n")),
    ),
    "a member copies in an old generation": (
        "copiers",
        "committed offsets, but it is",
        (groups.check_committer, ("if member.generation != current.generation:", "if False:")),
    ),
    "only the first of a slot's requests is in doubt": (
        "threads",
        "is refused; it is entry",
        (
            InDoubtRequests.record_lost_reply,
            ("for request in requests:", "for request in requests[:1]:"),
        ),
    ),
    "only the first of a slot's requests is looked for": (
        "threads",
        "is refused; it is entry",
        (Answers.settle, ("for ticket in tickets:", "for ticket in tickets[:1]:")),
        (
            Answers.slot_taken,
            (
                "if self._answer_if_logged(ticket):",
                "if ticket is tickets[0] and self._answer_if_logged(ticket):",
            ),
        ),
    ),
    "who waits for the turn is forgotten": (
        "threads",
        "A failed: AssertionError",
        (
            Committer.commit,
            ("= self._waiting, []", "= self._waiting[:1], []"),
            ("tickets.append(ticket)", "pass"),  # It would mend what was forgotten, at the price of an entry.
        ),
    ),
    "an answer rests on a draft": (
        "threads-at-odds",
        "was told that topic x is there",
        (Committer._draft, ("if verdict is not None and not draft.requests:", "if verdict is not None:")),
    ),
    "who closes the log does not look after its create": (
        "closed",
        "was told that the log is closed, and it is not",
        (
            close_log,
            ("        close_after(source, state)\n", "        close_after(source, state)\n        return\n"),
        ),
    ),
    "what was taken along is taken along again": (
        "group-commit",
        "is in the log at (",
        (CommitGroup.collect, ("if request.request_id in logged_ids:", "if False:")),
    ),
    "a leader reports a request in the entry after its own": (
        "lagging",
        "was told",
        (CommitGroup.publish, ("with_entry(earlier, state.seq,", "with_entry(earlier, state.seq + 1,")),
    ),
    "the answer is no while others can find the request": (
        "group-commit-at-odds",
        "is refused; it is entry",
        (
            Committer._may_have_been_taken_along,
            ("if any(map(self._in_doubt.is_submitted, refused)):", "if False:"),
        ),
        (InDoubtRequests.fate, ("if doubt.is_submitted:", "if False:")),
    ),
    "the answer is no while a leader may have found the request": (
        "group-commit-at-odds",
        "is refused; it is entry",
        (
            InDoubtRequests.record_withdrawal,
            ("doubt.is_submitted, doubt.slot = False, _NEXT_FREE", "doubt.is_submitted = False"),
        ),
    ),
    "the staging floor is not looked at": (
        "floor",
        "listed and not there",
        (appends.check_floor, ("staged_at(name) < state.staging_floor", "False")),
    ),
    "a snapshot is stored before its pieces": (
        "snapshots",
        "not stored as the entries say",
        (Snapshots.write, (_SAVES, ""), (_STORES, _STORES + _SAVES)),
    ),
    "entries are retired before their snapshot is stored": (
        "retired",
        "is retired, and no snapshot stands for it",
        (
            BackgroundMaintenance._step,
            (
                "if self._is_snapshot_work_due:",
                (
                    "while self._retirer.step(state, state.seq + 1, self._make_sure):\n        pass\n"
                    "    if self._is_snapshot_work_due:"
                ),
            ),
        ),
    ),
    "the first entry is retired": (
        "retired",
        "entry 0 is retired",
        (Retirer._find, ("low, high = 1, limit + 1", "low, high = 0, limit + 1")),
    ),
    "entries are deleted": (
        "retired",
        "is gone: its slot is free again",
        (Retirer.step, ("self._store.retire(", "self._store.delete(")),
    ),
    "a retired entry counts as an empty one": (
        "retired",
        "was written after another entry",
        (
            Tail.follow,
            (
                "self._load_newest_snapshot()",
                # Without the lineage, which would not fit: that the rules see it as well is another test.
                "self._state = self._state._replace(seq=self._state.seq + 1, lineage=b'')",
            ),
        ),
    ),
    "who slept believes that a retired slot was another's": (
        "retired",
        "is refused; it is entry",
        (Tail._install_snapshot, ("self._in_doubt.record_skip()", "pass")),
    ),
    "another's new segments are replaced": (
        "rollers",
        "by who had not seen what was there",
        (segments.replace_segments, ("checksum(pages[first:end]) != action.replaced", "False")),
    ),
    "who was slower believes that he was faster": (
        "rollers",
        "2 were told that they rolled 0 2",
        (
            commit_all,
            ("rewriter.discard()\n        raise", "rewriter.discard()\n        return log.state"),
        ),
    ),
    "rolled records change places": (
        "rolling",
        "what was committed before it is not the same any more",
        (Rewriter._add, ("self._tables.append(records.table)", "self._tables.insert(0, records.table)")),
    ),
    "files are deleted before the floor is raised": (
        "vacuum",
        "listed and not there",
        (Vacuum._data, ("if raise_floor and any(", "if False and any(")),
    ),
    "who raised the floor does not look again": (
        "vacuum",
        "listed and not there",
        (Vacuum._data, ("state = self._take_out_data(candidates)", "state = self._log.state")),
    ),
    "a reader goes on after what is gone": (
        "outrun",
        "R read [",
        (PartitionState._load, ("self.seek(fetch.offset)", "self.seek(fetch.next_offset)")),
    ),
}


QUICKLY_FOUND = ("a lost reply counts as a failure", "a taken slot counts as success")


@pytest.mark.deep(*[bug for bug in BUGS if bug not in QUICKLY_FOUND])
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(monkeypatch, bug):
    name, wrong, *changes = BUGS[bug]
    scenario = SMALL if name == "small" else SCENARIOS[name]
    for function, *parts in changes:
        plant(monkeypatch, function, *parts)
    report = explore(scenario, faults=1)
    if not report.violations:
        report = explore(scenario)
    assert report.violations, f"nothing found: {report}"
    found = report.violations[0]
    assert wrong in found.problems[0]
    assert replay(scenario, found.choices) == found


@pytest.fixture
def say(capsys):
    """Prints a report, also where the output of tests that pass is not shown."""

    def say(report):
        with capsys.disabled():
            sys.stdout.write(f"\n{report}")

    return say


@pytest.mark.deep("copiers", "group-commit", "group-commit-at-odds", "lagging")
@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_wrong_in_calm_faults(name, say):
    report = explore(SCENARIOS[name], faults=0)
    say(report)
    assert report.complete
    assert report.ends > 1
    assert not report.violations, str(report.violations[0])


BOUNDED = {
    "group-commit": 1500,
    "group-commit-at-odds": 500,
    "copiers": 1000,
    "idempotent": 2000,
    "lagging": 2000,
    "snapshots": 15_000,
    "vacuum": 15_000,
    "forked": 15_000,
}
"""Casts of which only so many states are looked at here; `scripts/explore` looks at all."""


@pytest.mark.deep(
    "both-ways-streamed",
    "copiers",
    "floor",
    "forked",
    "group",
    "group-commit",
    "idempotent",
    "lagging",
    "newcomer",
    "other-batch",
    "outrun",
    "prepared",
    "recovery",
    "recovery-streamed",
    "retired",
    "rolling",
    "same-batch",
    "snapshots",
    "streamed-zombies",
    "threads",
    "undecided",
    "undecided-streamed",
    "vacuum",
    "visitors",
    "zombies",
)
@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_wrong_after_a_misfortune(name, say):
    report = explore(SCENARIOS[name], faults=1, states=BOUNDED.get(name, 1_000_000))
    say(report)
    assert report.complete == (name not in BOUNDED)
    assert report.ends > (1 if name in BOUNDED else 5)
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
    """The end states of every single execution, by trying every list of choices.

    Nothing is left out, recognised again or remembered: every list is run from the beginning.
    """
    start, ends, open_ = scenario.start(), set(), [()]
    executions = 0
    while open_:
        choices = open_.pop()
        world = World(scenario.roles, start)
        moment, left = world.start, faults
        for token in choices:
            step = world.step(moment, token)
            left -= step.fault
            moment = step.moment
        if moment.is_over:
            ends.add(moment.key)
        executions += 1
        open_ += [(*choices, step.token) for step in world.steps(moment, faults=left > 0)]
        world.cast.close()
    return ends, executions


@pytest.mark.deep("1")
@pytest.mark.parametrize("faults", [0, 1])
def test_pruning_loses_no_end(faults):
    ends, executions = all_ends(SMALL, faults)
    report = explore(SMALL, faults=faults)
    assert report.complete
    assert report.ends == len(ends)
    assert report.states <= executions
    assert report.states < executions or not faults


REDUCED = [
    ("both-ways", 1), ("copiers", 0), ("ends", 1), ("expiry", 1), ("floor", 1), ("group", 1), ("idempotent", 0),
    ("newcomer", 0), ("other-batch", 0), ("outrun", 0), ("recovery-streamed", 1), ("repeated", 1), ("retired", 0),
    ("rollers", 1), ("rolling", 0), ("same-batch", 0), ("snapshots", 0), ("streamed-zombies", 0), ("threads", 0),
    ("threads-at-odds", 0), ("undecided-streamed", 1), ("vacuum", 0), ("zombies", 0),
]  # fmt: skip
QUICKLY_REDUCED = [("newcomer", 0), ("snapshots", 0), ("zombies", 0)]


@pytest.mark.deep(*[f"{name}-{faults}" for name, faults in REDUCED if (name, faults) not in QUICKLY_REDUCED])
@pytest.mark.parametrize(("name", "faults"), REDUCED)
def test_orders_that_are_left_out_lose_no_end_and_no_log(name, faults):
    reduced = explore(SCENARIOS[name], faults=faults)
    full = explore(SCENARIOS[name], faults=faults, reduced=False)
    assert full.complete
    assert (reduced.ends, reduced.logs, reduced.positions) == (full.ends, full.logs, full.positions)
    assert reduced.states < full.states


def test_who_looks_at_the_data_files_of_others_is_found_out():
    def body(actor):
        with suppress(RetriableError):
            actor.store.list("data/")

    scenario = Scenario("curious", "", (Role("A", body),))
    with pytest.raises(SharedNameError, match=r"A uses data/ \(list\)"):
        explore(scenario)
    assert explore(replace(scenario, deletes=True)).complete


def test_a_thread_that_is_no_actor_is_found_out(monkeypatch):
    """The thread makes no call of getcurrent: see `test_a_thread_that_is_no_process_is_found_out`."""
    asked, current = set(), greenlet.getcurrent
    monkeypatch.setattr(greenlet, "getcurrent", lambda: (asked.add(threading.current_thread()), current())[1])

    def body(actor):
        producer = Producer(actor.open())
        producer.send("t", "v", partition=0).result()

    report = explore(Scenario("undercover", "", (Role("A", body),)), faults=0)
    assert "eoslog-producer asks for" in report.violations[0].problems[0]
    assert asked == {threading.main_thread()}


def test_what_is_wrong_only_until_somebody_is_told_otherwise_is_found():
    asked = FrozenClock("B/1").unique().hex()

    def body(actor):
        actor.note(asked, REFUSED)
        with suppress(RetriableError):
            actor.store.create("data/a", b"")
        actor.note(asked, UNKNOWN)

    report = explore(Scenario("fickle", "", (Role("A", body), Role("B", appender("b", 1)))), faults=0)
    assert "A was told that request" in report.violations[0].problems[0]


def test_what_waits_for_an_open_transaction_is_there():
    def body(actor):
        producer = producer_of(actor.open())
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", "v", partition=0)
        producer.flush()

    roles = (Role("A", body), Role("B", plain(repeats=False)))
    report = explore(Scenario("left-open", "", roles), faults=0)
    assert report.complete
    assert not report.violations, str(report.violations[0])


def test_an_heir_who_saw_something_else_is_a_violation():
    roles = (Role("B", lambda actor: actor.note("seen -1 5", COMMITTED)),)
    report = explore(replace(SCENARIOS["undecided"], roles=roles))
    assert report.violations[0].problems == ("B took over, and saw (epoch, offset) -1 5; now it is -1 -1",)


def test_an_offset_without_its_value_is_a_violation():
    def before(log):
        place = PartitionOffset("t", log.topic("t").topic_id, 0, 5)
        log.commit(lambda _state: (CommitOffsets(GROUP, (place,)),))

    report = explore(replace(SCENARIOS["copiers"], roles=(Role("A", lambda _actor: None),), before=before))
    assert report.violations[0].problems == ("offsets [5] are in, of values that are not: []",)


def test_only_data_files_are_deleted():
    def body(actor):
        actor.store.create("a", b"")
        actor.store.delete("a")

    with pytest.raises(SharedNameError, match="a is deleted"):
        explore(Scenario("tidy", "", (Role("A", body),)), faults=0)


def test_a_data_file_has_one_user():
    def body(actor):
        with suppress(ObjectExistsError, RetriableError):
            actor.store.create("data/a", b"")

    with pytest.raises(SharedNameError, match=r"B uses data/a \(create\)"):
        explore(Scenario("shared", "", (Role("A", body), Role("B", body))))


def test_threads_of_a_process_share_a_slot():
    scenario = SCENARIOS["threads"]
    # Both have asked for the turn when the first one gets it.
    choices = ["A.done", "A/1.done", "A.done", "A.done", "A.done", "A/1.done"]
    world = scenario.world()
    moment = world.start
    for token in choices:
        moment = world.step(moment, token).moment
    world.cast.close()
    assert moment.positions[0].is_over
    assert sorted(moment.chain.requests.values()) == [(0,), (1,), (2,), (2,)]


def test_threads_that_wait_for_each_other_are_a_violation():
    def body(actor):
        committer = actor.open()._committer
        with committer._turn, committer._queue:
            pass

    def other(actor):
        committer = actor.open()._committer
        with committer._queue, committer._turn:
            pass

    report = explore(Scenario("embrace", "", (Role("A", body, others=(other,)),)))
    assert report.violations[0].problems == (
        "A failed: AssertionError: its threads wait for each other for ever",
    )


def test_death_takes_all_threads():
    world = SCENARIOS["threads"].world()
    moment = world.start
    for token in ("A.done", "A.done", "A.done"):
        moment = world.step(moment, token).moment
    assert {world.cast.killed(moment.positions[0]).position.is_over} == {True}
    world.cast.close()


def test_what_a_dead_actor_left_behind_makes_another_state():
    world = World(SMALL.roles, SMALL.start())
    killed, after = (world.step(world.start, f"A.{how}").moment.key for how in ("killed", "killed-after"))
    assert killed != after
    world.cast.close()


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
    moment, lives = world.start, []
    for _ in range(2):
        lives.append(moment.positions[0].life)
        moment = world.step(moment, "A.killed").moment
    world.cast.close()
    assert lives == [1, 2]
    assert moment.is_over


def test_an_actor_is_run_again_where_it_stands_no_longer(monkeypatch):
    monkeypatch.setattr(state_fingerprint, "_LIVES", 1)
    few = explore(SMALL, faults=1)
    monkeypatch.undo()
    many = explore(SMALL, faults=1)
    assert few.executions > many.executions
    assert (few.states, few.ends, few.positions) == (many.states, many.ends, many.positions)


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
    assert capsys.readouterr().out.startswith("ends               faults <= 0  states ")
    plant(monkeypatch, *BUGS["the same decision again is refused"][2])
    assert main(["ends", "--faults", "0"]) == 1
    out = capsys.readouterr().out
    assert "WRONG: B wanted commit=True and was told refused" in out
    choices = out.split("--replay '")[1].split("'")[0]
    assert main(["ends", "--replay", choices]) == 1
    assert "WRONG: B wanted commit=True" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["nonsense"])
