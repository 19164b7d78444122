"""Everything is total over what the rules accept: requests of random structure, not only those of our clients.

``SPARK_EOS_RANDOM_LOGS=10000 pytest tests/protocol/test_random_requests.py`` tries more logs.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.errors import EosLogError, InvalidRequestError
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.protocol import actions as a
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.invariants import apply_checked
from spark_eos.protocol.rules import bounds, sealing
from spark_eos.protocol.rules.apply import Accepted, Rejected, apply, apply_entry
from spark_eos.protocol.state import EMPTY
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef, StagedFile, TopicPartition
from verification.requests import RandomRequests

LOGS = int(os.environ.get("SPARK_EOS_RANDOM_LOGS", "40"))
SHARES = 4


@pytest.mark.deep("2", "3")
@pytest.mark.parametrize("share", range(SHARES))
def test_whatever_is_accepted_can_be_sealed_stored_and_read(monkeypatch, share):
    monkeypatch.setattr(sealing, "PAGE_ROWS", 3)
    monkeypatch.setattr(sealing, "FAN_OUT", 2)
    seen = set()
    for seed in range(share, LOGS, SHARES):
        try:
            seen |= one_log(Random(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    if LOGS >= 40:
        assert len(seen) >= 16  # Kinds of actions that were accepted.


def one_log(chance):
    """A log of random requests; the kinds of actions that were accepted."""
    draw = RandomRequests(chance)
    begin = (a.CreateLog("log", chance.randint(1, 5)), a.CreateTopic("t", "t-id", 2))
    state, seen, now = EMPTY, set(), 1000
    for seq in range(60):
        now += chance.choice([0, 1, 1000, 10**6, 10**9])
        wanted = [begin] if seq == 0 else [draw.actions(state) for _ in range(chance.choice([1, 1, 2]))]
        requests = [a.Request(chance.randbytes(16), now, one, "w") for one in wanted]
        entry = a.Entry(seq, tuple(requests), state.lineage)
        try:
            data = encode_entry(entry)
        except InvalidRequestError:
            # More than 64 bits: it is never written; who asks for it is refused.
            _, outcome = apply(state, requests[0])
            assert len(requests) > 1 or isinstance(outcome, Rejected)
            continue_with = a.Request(chance.randbytes(16), now, (), "w")
            entry = a.Entry(seq, (continue_with,), state.lineage)
            data = encode_entry(entry)
        read, before = decode_entry(data, seq, "entry"), state
        state, outcomes = apply_checked(before, read)
        of_writer, told = apply_entry(before, entry)
        assert (of_writer, list(map(type, told))) == (state, list(map(type, outcomes)))
        for request, again, outcome in zip(entry.requests, read.requests, outcomes, strict=True):
            assert again == request or isinstance(outcome, Rejected)
            assert isinstance(outcome, Accepted | Rejected)
            assert "no sense to a rule" not in str(getattr(outcome, "error", "")), outcome
            if isinstance(outcome, Accepted):
                seen |= {type(action).__name__ for action in request.actions}
        stored = encode_snapshot(state)
        assert decode_snapshot(stored, seq, "snapshot") == state
        for name, topic in state.topics.items():
            for number in range(min(topic.partitions, 4)):
                check_plan(state, TopicPartition(name, number))
    return seen


def check_plan(state, at):
    partition = state.partitions[state.topics[at.topic].topic_id, at.partition]
    ended = {(row.producer.producer_id, row.producer.number) for row in partition.index.tail if row.kind == 1}
    for isolation in Isolation:
        end = end_offset(partition, isolation)
        fetches = plan(state, at, partition.start, end, isolation)
        places = [place for one in fetches for place in (one.offset, one.next_offset)]
        assert places == sorted(places)
        assert all(one.records >= 0 for one in fetches)
    if partition.start and not partition.open:
        assert set(partition.aborted) <= ended | set(partition.aborted)


def test_values_of_other_types_are_refused_alike():
    """By the writer before they are written, by the rules, and with an error of ours."""
    chance = Random(7)
    state, _ = apply_entry(
        EMPTY,
        a.Entry(0, (a.Request(bytes(16), 1, (a.CreateLog("log"), a.CreateTopic("t", "t-id", 2))),)),
    )
    draw, refused = RandomRequests(chance, wild=1.0, strange=True), 0
    for _ in range(2000):
        request = a.Request(bytes(16), 1, (draw.action(state),), "w")
        after, outcome = apply(state, request)
        try:
            data = encode_entry(a.Entry(1, (request,), state.lineage))
        except InvalidRequestError:
            assert isinstance(outcome, Rejected)
            assert isinstance(outcome.error, EosLogError)
            refused += 1
            continue
        (again,) = decode_entry(data, 1, "entry").requests
        if isinstance(outcome, Accepted):
            assert again == request
        else:
            assert after is state
            assert isinstance(apply(state, again)[1], Rejected)
    assert refused > 200


def test_the_quick_check_says_yes_to_nothing_that_the_whole_one_refuses():
    """The quick one decides for nearly all requests; the other one names what is wrong."""
    state, _ = apply_entry(
        EMPTY,
        a.Entry(0, (a.Request(bytes(16), 1, (a.CreateLog("log"), a.CreateTopic("t", "t-id", 2))),)),
    )
    told = {True: 0, False: 0}
    for wild, strange in ((0.0, False), (0.05, False), (0.3, False), (0.05, True), (1.0, True)):
        draw = RandomRequests(Random(11), wild=wild, strange=strange)
        for _ in range(2000):
            request = a.Request(bytes(16), 1, (draw.action(state),), "w")
            fits = bounds.fits(request)
            if fits:
                bounds._checks(ranges=True)(request)
            told[fits] += 1
    assert min(told.values()) > 1000, told


@pytest.mark.parametrize("many", [1, 40])
def test_the_quick_check_knows_every_limit(many):
    """Each number of a batch and of its file, at its limits and one beyond."""
    batch, file = BatchRef(0, 1, 0, 1, 7, 1, 1), FileRef("data/0-x.arrow", 10_000, 0)

    def request(batch=batch, file=file):
        batches = (batch,) * many
        action = a.AppendBatches(NO_PRODUCER, (("t", "t-id"),), (StagedFile("t", file, batches),))
        return a.Request(bytes(16), 1, (action,), "w")

    assert bounds.fits(request())
    for name in BatchRef._fields:
        low, high, *_ = bounds._new_bounds(f"BatchRef.{name}")
        for value, right in ((low, True), (low - 1, False), (high, True), (high + 1, False), (1.0, False)):
            assert bounds.fits(request(batch._replace(**{name: value}))) is right, (name, value)
    for value, right in ((2**43, True), (2**43 + 1, False), (True, False)):
        assert bounds.fits(request(file=file._replace(size=value))) is right
    for name, right in (
        ("a/" + "x" * 1022, True),
        ("a/" + "x" * 1023, False),
        ("a\0", False),
        ("../x", False),
    ):
        assert bounds.fits(request(file=file._replace(name=name))) is right
