"""Whatever is asked of the log: apply is a function, a rejection changes nothing, the invariants hold."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from immutables import Map

from spark_eos.errors import EosLogError
from spark_eos.protocol import actions as a
from spark_eos.protocol.codec import decode_entry, encode_entry
from spark_eos.protocol.invariants import InvariantError, check_step
from spark_eos.protocol.rules import Accepted, apply, apply_entry
from spark_eos.protocol.rules.microbatch import MicroBatch, propose
from spark_eos.protocol.state import EMPTY, Producer, TransactionState
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef, ProducerStamp, StagedFile

TOPICS = ("t", "u")
small = st.integers(-1, 3)


@st.composite
def requests(draw, state):
    """A request that fits ``state`` for the most part."""
    made = tuple(draw(action(state)) for _ in range(draw(st.integers(1, 4))))
    if draw(st.integers(0, 3)) == 0:
        sources = draw(st.lists(progress(state), min_size=1, max_size=1))
        files = draw(staged())
        batch = MicroBatch(
            "a", "q", draw(st.sampled_from("rs")), draw(st.integers(0, 4)), tuple(sources), ids(state), files
        )
        with suppress(EosLogError):
            made = propose(state, batch, finished=draw(st.booleans()))
    return a.Request(bytes(16), draw(st.integers(0, 99)), made)


def ids(state):
    return tuple((name, state.topics[name].topic_id if name in state.topics else "none") for name in TOPICS)


@st.composite
def offsets(draw, state):
    name = draw(st.sampled_from(TOPICS))
    return a.PartitionOffset(name, dict(ids(state))[name], draw(st.integers(0, 2)), draw(st.integers(-1, 9)))


@st.composite
def progress(draw, state):
    known = [
        a.PartitionOffset(topic, at.topic_id, n, at.offset)
        for (topic, n), at in sorted(state.groups.get("g", Map()).items())
    ]
    ends = tuple(at._replace(offset=at.offset + draw(st.integers(0, 2))) for at in known)
    ends = ends or tuple(draw(st.lists(offsets(state), max_size=2)))
    return a.SourceProgress(repr(known), repr(ends), "g", tuple(known), ends)


@st.composite
def stamps(draw, state):
    taken = [producer.stamp for _, producer in sorted(state.producers.items())]
    known = draw(st.sampled_from([NO_PRODUCER, *taken]))
    by = draw(st.sampled_from([0, 0, 1, 1, 1, 2]))
    back = draw(st.sampled_from([0] * 9 + [1, -1]))
    return known if known == NO_PRODUCER else ProducerStamp(known[0], known[1] - back, known[2] + by)


@st.composite
def staged(draw):
    files = []
    for name in draw(st.lists(st.sampled_from(TOPICS), max_size=2)):
        batches = tuple(
            BatchRef(
                draw(st.integers(0, 2)), draw(st.integers(1, 3)), 0, 1, 1, 1, 1, draw(st.integers(-1, 4))
            )
            for _ in range(draw(st.integers(1, 2)))
        )
        files.append(StagedFile(name, FileRef(f"{draw(st.integers(0, 9))}-x", 9, 0), batches))
    return tuple(files)


def action(state):
    topic = st.sampled_from(TOPICS)
    tids = st.sampled_from([*(i for _, i in ids(state)), str(state.seq)])
    taken = st.sampled_from(
        [
            (state.next_producer_id, 0, "a"),
            (state.next_producer_id, 0, None),
            *((p.producer_id, p.epoch + 1, p.transactional_id) for _, p in sorted(state.producers.items())),
        ]
    )
    begun = st.builds(
        lambda who, run: a.InitProducer(*who, 1000, run), taken, st.sampled_from([None, "r", "s", "z"])
    )
    stamp = stamps(state)
    return st.one_of(
        st.builds(a.CreateTopic, topic, tids, st.integers(1, 3)),
        st.builds(a.AlterTopic, topic, tids, st.none() | small),
        st.builds(a.DeleteTopic, topic, tids),
        begun,
        st.builds(a.AppendBatches, stamp, st.just(ids(state)), staged()),
        st.builds(a.AppendBatches, stamp, st.just(ids(state)), staged()),
        st.builds(
            a.CommitOffsets, st.just("g"), st.lists(offsets(state), max_size=2).map(tuple), st.none() | stamp
        ),
        st.builds(a.EndTransaction, stamp, st.booleans()),
        st.builds(a.EndTransaction, stamp, st.booleans()),
        st.builds(a.AdvanceLogStart, st.lists(offsets(state), max_size=2).map(tuple)),
        st.builds(a.RaiseStagingFloor, st.integers(0, 9)),
    )


@settings(max_examples=80)
@given(st.data())
def test_any_history(data):
    begin = (a.CreateLog("log"), a.CreateTopic("t", "t-id", 3), a.CreateTopic("u", "u-id", 2))
    state, written, states = EMPTY, [], []
    for seq in range(data.draw(st.integers(1, 12))):
        wanted = a.Request(bytes(16), 0, begin) if seq == 0 else data.draw(requests(state))
        again, outcome = apply(state, wanted)
        assert (again == state) or isinstance(outcome, Accepted)
        entry = a.Entry(seq, (wanted, wanted))
        written.append(encode_entry(entry))
        after, outcomes = apply_entry(state, entry)
        assert type(outcomes[0]) is type(outcome)
        check_step(state, after)
        states.append((state, after))
        state = after
    replayed = EMPTY
    for seq, ((before, after), stored) in enumerate(zip(states, written, strict=True)):
        assert replayed == before
        replayed, _ = apply_entry(replayed, decode_entry(stored, seq, "entry"))
        assert replayed == after


def broken(state, key=("t-id", 0), **changes):
    partition = replace(state.partitions[key], **changes)
    return replace(state, partitions=state.partitions.set(key, partition))


BROKEN = {
    "end": (lambda s: broken(s, end=s.partitions["t-id", 0].end - 1), "ends at|went back"),
    "start": (lambda s: broken(s, start=0), "lacks its first rows|went back"),
    "hole": (lambda s: broken(s, index=s.partitions["t-id", 0].index.since(99)), "lacks|ends at"),
    "lso": (lambda s: broken(s, open=Map({0: 5})), "no open transaction"),
    "seq": (lambda s: replace(s, seq=0), "seq went back"),
    "staging floor": (lambda s: replace(s, staging_floor=-1), "staging_floor went back"),
    "log id": (lambda s: replace(s, log_id="other"), "changed its id"),
    "topics": (lambda s: replace(s, topics=s.topics.delete("t")), "not those of the topics"),
    "producer": (lambda s: replace(s, producers=Map()), "producer 0 is gone"),
    "open": (lambda s: replace(s, open_transactions=Map({0: True})), "is it open"),
    "epoch": (lambda s: _producer(s, epoch=-1), "epoch of producer 0 went back"),
    "number": (lambda s: _producer(s, number=-1), "number of producer 0 went back"),
    "decision": (lambda s: _producer(s, transaction=TransactionState.COMPLETE_ABORT), "decided twice"),
    "touched": (lambda s: _producer(s, touched=Map({("t-id", 0): True})), "touched others"),
    "id": (lambda s: replace(s, transactional_ids=Map()), "is not producer 0"),
    "group": (lambda s: replace(s, topics=Map(), partitions=Map()), "an offset is for no partition"),
}


def _producer(state, **changes):
    producer: Producer = replace(state.producers[0], **changes)
    return replace(state, producers=state.producers.set(0, producer))


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found(log, name):
    stamp = log.next(log.init())
    log.append(stamp, (0, 5))
    log.do(a.CommitOffsets("g", (log.at(1),), stamp), a.EndTransaction(stamp, True))
    log.do(a.AdvanceLogStart((log.at(5),)))
    check_step(log.state, log.state)
    change, message = BROKEN[name]
    with pytest.raises(InvariantError, match=message):
        check_step(log.state, change(log.state))
