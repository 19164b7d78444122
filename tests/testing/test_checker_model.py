"""Histories of a correct log are clean; whatever single thing is spoilt in one is flagged."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace

import pytest

from spark_eos.testing.history import READ_COMMITTED, Kind, Poll, Recorder, Send
from spark_eos.testing.history.checker import check
from spark_eos.testing.history.operations import Facts
from spark_eos.testing.history.serial import _Edges

from .log_model import PARTITIONS, World

SEEDS = range(60)


def spoil_event(history, rng, pick, change):
    """Replace one action of one event; None if none can be picked."""
    places = [
        (e, a)
        for e, event in enumerate(history)
        for a, action in enumerate(event.actions)
        if pick(event, action)
    ]
    if not places:
        return None
    e, a = rng.choice(places)
    event = history[e]
    actions = [*event.actions]
    actions[a] = change(actions[a])
    return [*history[:e], replace(event, actions=tuple(actions)), *history[e + 1 :]]


def polled(at_least):
    return lambda event, action: (
        event.kind is Kind.OK
        and event.isolation == READ_COMMITTED
        and isinstance(action, Poll)
        and len(action.records) >= at_least
    )


def acknowledged(event, action):
    return event.kind is Kind.OK and isinstance(action, Send) and action.offset is not None


def drop_inner(poll):
    return replace(poll, records=(poll.records[0], *poll.records[2:]))


def swap(poll):
    return replace(poll, records=(poll.records[1], poll.records[0], *poll.records[2:]))


def repeat(poll):
    return replace(poll, records=(*poll.records, poll.records[-1]))


def other_value(poll):
    return replace(poll, records=((poll.records[0][0], "made up"), *poll.records[1:]))


def shift(poll):
    return replace(poll, records=(*poll.records[:-1], (poll.records[-1][0] + 1, poll.records[-1][1])))


def shift_send(send):
    return replace(send, offset=send.offset + 1)


CORRUPTIONS = {
    "a record is left out of a poll": (polled(3), drop_inner, {"int-poll-skip"}),
    "two records change places": (polled(2), swap, {"int-nonmonotonic-poll"}),
    "a record comes twice": (polled(1), repeat, {"int-nonmonotonic-poll"}),
    "a record has another value": (polled(1), other_value, {"inconsistent-offset"}),
    "a record has another offset": (polled(1), shift, {"duplicate"}),
    "another offset is acknowledged": (acknowledged, shift_send, {"duplicate"}),
}


@pytest.mark.deep(*[f"{seed}-{streams}" for seed in SEEDS[6:] for streams in (False, True)])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_correct_log_is_clean(seed, streams):
    history, fully = World(seed, streams=streams).run(600)
    for order in ("none", "process", "realtime"):
        report = check(history, partitions_read_fully=fully, order=order)
        assert report.ok, str(report)
        # The plain sender's calls are no transactions, and may be mixed with others, too.
        assert streams or {*report.names} <= {"G0", "G1c", "int-send-skip"}


def test_the_model_does_what_is_allowed_and_all_outcomes():
    names, counts = Counter(), Counter()
    for seed in SEEDS[:15]:
        history, fully = World(seed).run(600)
        report = check(history, partitions_read_fully=fully)
        names += report.names
        counts += Counter(report.counts)
    assert {*names} == {"G0", "G1c", "int-send-skip", "torn"}
    assert min(counts.values()) > 100


@pytest.mark.deep(*[f"{seed}-{what}" for seed in SEEDS[5:15] for what in CORRUPTIONS])
@pytest.mark.parametrize("what", CORRUPTIONS)
@pytest.mark.parametrize("seed", SEEDS[:15])
def test_a_spoilt_event_is_flagged(seed, what):
    pick, change, expected = CORRUPTIONS[what]
    history, fully = World(seed).run(600)
    spoilt = spoil_event(history, random.Random(seed), pick, change)
    assert spoilt is not None
    found = {anomaly.name for anomaly in check(spoilt, partitions_read_fully=fully).forbidden}
    assert expected <= found


@pytest.mark.deep(*map(str, SEEDS[5:15]))
@pytest.mark.parametrize("seed", SEEDS[:15])
def test_a_spoilt_final_read_is_flagged(seed):
    history, fully = World(seed).run(600)
    rng = random.Random(seed)
    partition = rng.choice([p for p in fully if len(fully[p]) > 2])
    at = rng.randrange(len(fully[partition]))
    record = fully[partition][at]
    for spoilt in (
        fully[partition][:at] + fully[partition][at + 1 :],
        [*fully[partition], (fully[partition][-1][0] + 1, record[1])],
        [*fully[partition], (fully[partition][-1][0] + 1, "made up")],
    ):
        report = check(history, partitions_read_fully={**fully, partition: spoilt})
        assert "conservation" in {anomaly.name for anomaly in report.forbidden}


@pytest.mark.deep(*map(str, SEEDS[5:15]))
@pytest.mark.parametrize("seed", SEEDS[:15])
def test_a_commit_that_was_none_is_flagged(seed):
    history, fully = World(seed).run(600)
    rng = random.Random(seed)
    commits = [
        e.index
        for e in history
        if e.kind is Kind.OK and e.transaction and any(isinstance(a, Send) for a in e.actions)
    ]
    index = rng.choice(commits)
    failed = replace(history[index], kind=Kind.FAIL)
    spoilt = [*history[:index], failed, *history[index + 1 :]]
    found = {anomaly.name for anomaly in check(spoilt, partitions_read_fully=fully).forbidden}
    assert {"G1a", "conservation"} <= found


@pytest.mark.deep(*map(str, SEEDS[5:15]))
@pytest.mark.parametrize("seed", SEEDS[:15])
def test_a_torn_commit_is_flagged(seed):
    """The log shows a one-shot transaction's partitions one by one: the middle of it can be seen."""

    class TornWorld(World):
        def one_shot(self, sends, name):
            sent = [Send(s.partition, s.value, self.log.append(s.partition, s.value, name)) for s in sends]
            partitions = {s.partition for s in sends}
            if len(partitions) > 1:
                records = self.log.partitions
                hidden = {p: records[p][-1:] for p in partitions if records[p][-1][1] == name}
                first = min(hidden)
                full = records[first]
                records[first] = full[: next(o for o, r in enumerate(full) if r[1] == name)]
                self.log.state[name] = "committed"
                self.peek()
                records[first] = full
                self.log.state[name] = "open"
            self.log.end(name, "committed")
            return sent

        def peek(self):
            polls = []
            for partition in self.log.partitions:
                records, position, end = self.log.read(partition, 0, 10**9, READ_COMMITTED)
                polls.append(Poll(partition, records, True, end, position))
            name = f"peek{self.unique()}"
            self.recorder.ok(self.recorder.invoke(name, "poll"), polls)

    history, fully = TornWorld(seed, streams=False).run(300)
    report = check(history, partitions_read_fully=fully)
    assert {anomaly.name for anomaly in report.forbidden} == {"torn"}


@pytest.mark.deep
def test_ten_thousand_transactions_make_few_edges():
    """As many as there are operations and processes at a time, not as there are pairs."""
    recorder = Recorder(clock=lambda: 0.0)
    open_calls, offsets = {}, [0, 0, 0]
    rng = random.Random(7)
    for number in range(10_000):
        process = f"w{number % 20}"
        if process in open_calls:
            recorder.ok(*open_calls.pop(process))
        plan = [Send(PARTITIONS[i], number) for i in rng.sample(range(3), 2)]
        token = recorder.invoke(process, "txn", plan, transaction=process)
        done = []
        for send in plan:
            i = send.partition.partition
            done.append(replace(send, offset=offsets[i]))
            offsets[i] += 2
        open_calls[process] = (token, done)
    edges = _Edges(Facts(recorder.history, {}, {}))
    made = [*itertools.islice(itertools.chain(edges.writes(), edges.realtime()), 300_000)]
    # Of the 20 calls that are open, the order of the others follows from the last acknowledged ones.
    assert 20_000 < len(made) < 300_000
    report = check(recorder.history)
    assert report.ok
    assert report.counts["transactions"] == 10_000
