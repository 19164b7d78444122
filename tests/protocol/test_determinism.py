"""Whatever is asked of the log: apply is a function, a rejection changes nothing, the invariants hold."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from spark_eos.errors import EosLogError
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.encoding.packing import BLOCK_ROWS
from spark_eos.protocol.index import Index, Rows
from spark_eos.protocol.invariants import InvariantError, apply_checked, check_later, check_state, check_step
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.apply import Accepted, apply, apply_entry
from spark_eos.protocol.state import EMPTY, Group, Producer, Query, TransactionState
from spark_eos.protocol.types import (
    NO_PRODUCER,
    BatchRef,
    Decider,
    FileRef,
    Follower,
    ProducerStamp,
    StagedFile,
)
from tests.tiers import examples

TOPICS = ("t", "u")
small = st.integers(-1, 3)


@st.composite
def one_kind(draw, *kinds):
    """What one of ``kinds`` gives. Only that one is made: Hypothesis looks at every strategy that there is."""
    return draw(draw(st.sampled_from(kinds))())


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
    return a.Request(bytes(16), draw(st.integers(0, 99) | st.integers(60_000, 60_099)), made)


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
        for (topic, n), at in sorted(state.offsets.get("g", Map()).items())
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


MEMBERS = ("m", "n", "o")


def memberships(state):
    group = state.groups.get("g", Group())
    known = [a.Membership(m.member_id, m.generation, m.instance_id) for _, m in sorted(group.members.items())]
    return st.sampled_from([*known, a.Membership("m", group.generation), a.Membership("x", 1, "i")])


def membership_changes(state):
    generation = state.groups.get("g", Group()).generation
    who = st.sampled_from(MEMBERS)
    return one_kind(
        lambda: st.builds(
            a.JoinGroup,
            st.just("g"),
            who,
            st.lists(st.sampled_from(TOPICS), unique=True).map(tuple),
            st.sampled_from([("range",), ("cooperative-sticky", "range"), ("roundrobin", "range")]),
            st.just(50),
            st.none() | st.sampled_from("ij"),
        ),
        lambda: st.builds(
            a.SyncGroup, st.just("g"), who, st.sampled_from([generation, generation, generation - 1])
        ),
        lambda: st.builds(
            a.LeaveGroup,
            st.just("g"),
            st.lists(who, max_size=2, unique=True).map(tuple),
            st.sampled_from([-1, 49, 50]),
        ),
        lambda: st.builds(a.DeleteOffsets, st.just("g"), st.sampled_from([(), (("t", 0), ("u", 1))])),
    )


def expiries(state, stamp):
    return one_kind(
        lambda: st.builds(a.ExpireTransaction, stamp, st.sampled_from([999, 1000])),
        lambda: st.builds(a.ExpireProducers, st.just(tuple(sorted(state.producers)))),
        lambda: st.builds(a.ExpireTransactionalIds, st.just(("a",))),
        lambda: st.builds(a.ExpireOffsets, st.just("g"), st.sampled_from([(), (("t", 0), ("t", 1))])),
        lambda: st.sampled_from(
            [
                a.AlterLog((("producer.id.expiration.ms", "10"), ("transactional.id.expiration.ms", "20"))),
                a.AlterLog((("offsets.retention.minutes", "1"),)),
                a.AlterLog((("offsets.retention.minutes", "-1"),)),
            ]
        ),
    )


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
        lambda who, run, keep: a.InitProducer(*who, 1000, run, keep),
        taken,
        st.sampled_from([None, "r", "s", "z"]),
        st.booleans(),
    )
    stamp = stamps(state)
    deciders = st.builds(
        Decider, st.sampled_from(["l", "log"]), st.just(""), small, small, small, st.just(b""), small
    )
    followers = st.lists(
        st.builds(Follower, st.sampled_from(["l", "m", "log"]), st.just(""), st.just("x")), max_size=2
    )
    followers = followers.map(tuple)
    return one_kind(
        # As everywhere, no id comes twice: not even in a request that deletes the topic and creates it again.
        lambda: st.builds(a.CreateTopic, topic, st.just(str(state.seq)), st.integers(1, 3)),
        lambda: st.builds(a.AlterTopic, topic, tids, st.none() | small),
        lambda: st.builds(a.DeleteTopic, topic, tids),
        lambda: begun,
        lambda: st.builds(a.AppendBatches, stamp, st.just(ids(state)), staged()),
        lambda: st.builds(a.AppendBatches, stamp, st.just(ids(state)), staged()),
        lambda: st.builds(
            a.CommitOffsets,
            st.just("g"),
            st.lists(offsets(state), max_size=2).map(tuple),
            st.none() | stamp,
            st.none() | memberships(state),
        ),
        lambda: membership_changes(state),
        lambda: membership_changes(state),
        lambda: expiries(state, stamp),
        lambda: st.builds(a.EndTransaction, stamp, st.booleans()),
        lambda: st.builds(a.EndTransaction, stamp, st.booleans()),
        lambda: st.builds(a.PrepareTransaction, stamp, st.none() | deciders),
        lambda: st.builds(a.AddFollowers, stamp, followers),
        lambda: st.builds(a.FollowDecision, stamp, deciders, st.booleans()),
        lambda: st.builds(
            a.NoteFollowers, stamp, st.just(state.lineage), st.just(("l",)) | st.just(("l", "m"))
        ),
        lambda: st.builds(a.AdvanceLogStart, st.lists(offsets(state), max_size=2).map(tuple)),
        lambda: st.builds(a.RaiseStagingFloor, st.integers(0, 9)),
        lambda: st.builds(a.SetAppVersion, st.just("job"), st.integers(0, 3), st.none() | tids),
    )


@pytest.mark.conformance("state/pure")
@examples(150, quick=15)
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
        after, outcomes = apply_checked(state, entry)
        same, told = apply_entry(state, entry)
        assert (after, repr(outcomes)) == (same, repr(told))
        assert type(outcomes[0]) is type(outcome)
        states.append((state, after))
        state = after
    replayed = EMPTY
    for seq, ((before, after), stored) in enumerate(zip(states, written, strict=True)):
        assert replayed == before
        replayed, _ = apply_entry(replayed, decode_entry(stored, seq, "entry"))
        assert replayed == after
    for before, _ in states:
        check_later(before, state)


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
    "producer": (
        lambda s: replace(s, producers=s.producers.delete(0), transactional_ids=Map({"other": 1})),
        "the producer of query 'tx' is gone",
    ),
    "producer id": (
        lambda s: replace(s, producers=s.producers.set(-1, Producer(-1, 0))),
        "given out twice",
    ),
    "open": (lambda s: replace(s, open_transactions=s.open_transactions.set(0, True)), "is it open"),
    "epoch": (lambda s: _producer(s, epoch=-1), "epoch of producer 0 went back"),
    "number": (lambda s: _producer(s, number=-1), "number of producer 0 went back"),
    "decision": (lambda s: _producer(s, transaction=TransactionState.COMPLETE_ABORT), "decided twice"),
    "touched": (lambda s: _producer(s, touched=Map({("t-id", 0): True})), "touched others"),
    "untouched": (
        lambda s: replace(s, producers=s.producers.set(1, replace(s.producers[1], touched=Map()))),
        "touched others",
    ),
    "not open": (lambda s: replace(s, open_transactions=Map()), "no open transaction|is it open"),
    "waits for none": (lambda s: broken(s, ("u-id", 0), open=Map()), "touched others"),
    "id": (lambda s: replace(s, transactional_ids=Map()), "is not producer"),
    "offsets": (
        lambda s: replace(_without_topic(s, "t"), groups=Map()),
        "an offset is for no partition",
    ),
    "two readers": (lambda s: _member(s, "n", held=(("t-id", 0),)), "has two readers"),
    "reader of nothing": (lambda s: _member(s, "n", held=(("x", 0),)), "that is gone"),
    "share": (lambda s: _member(s, "n", held=()), "lacks its share"),
    "ahead": (lambda s: _member(s, "n", generation=9), "is ahead"),
    "instances": (lambda s: _member(_member(s, "n", instance_id="i"), "m", instance_id="i"), "one instance"),
    "assigned twice": (
        lambda s: _group(s, assignment=Map({"m": (("t-id", 0),), "n": (("t-id", 0),)})),
        "assigned twice",
    ),
    "assigned to others": (lambda s: _group(s, assignment=Map()), "for others"),
    "generation": (
        lambda s: _group(s, members=Map(), assignment=Map(), empty_since_ms=1, generation=0),
        "back",
    ),
    "empty": (lambda s: _group(s, empty_since_ms=1), "is it empty"),
    "forgotten": (lambda s: replace(s, groups=Map()), "went with its members"),
    "open producer": (
        lambda s: replace(
            broken(s, ("u-id", 0), open=Map()),
            producers=s.producers.delete(1),
            transactional_ids=s.transactional_ids.delete("other"),
            open_transactions=Map(),
        ),
        "producer 1 went with an open transaction",
    ),
    "rows": (lambda s: broken(s, ("u-id", 0), index=_index_of(s, max_timestamp_ms=0)), "rows of .* changed"),
    "query": (lambda s: replace(s, queries=Map()), "query 'tx' is gone"),
    "batch": (lambda s: replace(s, queries=Map({"tx": Query("q", 3, ())})), "batches of 'tx' went back"),
}
ONE_REQUEST = {"generation", "forgotten", "open producer", "rows", "query", "batch"}
"""What is broken only if one request has done it."""


def _without_topic(state, name):
    topic = state.topics[name].topic_id
    partitions = Map({key: at for key, at in state.partitions.items() if key[0] != topic})
    producers = Map(
        {
            number: replace(one, touched=Map({key: at for key, at in one.touched.items() if key[0] != topic}))
            for number, one in state.producers.items()
        }
    )
    return replace(state, topics=state.topics.delete(name), partitions=partitions, producers=producers)


def _index_of(state, **changes):
    index = state.partitions["u-id", 0].index
    return Index(index.pages, Rows(row._replace(**changes) for row in index.tail))


def _group(state, **changes):
    return replace(state, groups=state.groups.set("g2", replace(state.groups["g2"], **changes)))


def _member(state, name, **changes):
    members = state.groups["g2"].members
    return _group(state, members=members.set(name, replace(members[name], **changes)))


def _producer(state, **changes):
    producer: Producer = replace(state.producers[0], **changes)
    return replace(state, producers=state.producers.set(0, producer))


@pytest.fixture
def busy(log):
    """A state with something of each kind: all that `BROKEN` breaks."""
    stamp = log.next(log.init())
    log.append(stamp, (0, 5))
    log.do(a.CommitOffsets("g", (log.at(1),), stamp), a.EndTransaction(stamp, True))
    log.do(a.AdvanceLogStart((log.at(5),)))
    for member in "mn":
        log.do(a.JoinGroup("g2", member, ("t",), ("range",), 50))
    log.do(a.SyncGroup("g2", "m", 2))
    log.topic("u", 1).append(log.next(log.init("other")), (0, 3), topic="u")
    return replace(log.state, queries=Map({"tx": Query("q", 4, ())}))


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found(busy, name):
    check_step(busy, busy)
    change, message = BROKEN[name]
    with pytest.raises(InvariantError, match=message):
        check_step(busy, change(busy))


@pytest.mark.parametrize("name", BROKEN)
def test_what_may_come_later_is_not_broken(busy, name):
    """After any number of requests, what one alone cannot do may have happened."""
    change, message = BROKEN[name]
    if name in ONE_REQUEST:
        check_later(busy, change(busy))
    else:
        with pytest.raises(InvariantError, match=message):
            check_later(busy, change(busy))


def test_a_step_looks_at_what_it_has_changed(busy, monkeypatch):
    """`eoslog verify` takes such a step for each entry: with all rows, it took the square of their number."""
    partition = busy.partitions["t-id", 0]
    (row,) = [*partition.index.tail][-1:]
    rows, end = partition.index.tail, partition.end
    for _ in range(20 * BLOCK_ROWS):
        rows, end = rows.append(row._replace(base_offset=end, count=1)), end + 1
    before = broken(busy, end=end, index=Index(partition.index.pages, rows))
    check_state(before)
    after = broken(
        before,
        end=end + 1,
        index=Index(partition.index.pages, rows.append(row._replace(base_offset=end, count=1))),
    )
    looked = []
    iterate = Rows.rows

    def counted(rows, start):
        for one in iterate(rows, start):
            looked.append(one)
            yield one

    monkeypatch.setattr(Rows, "rows", counted)
    check_step(before, after)
    assert len(looked) < 4 * BLOCK_ROWS
    others = [*rows]
    others[-1] = others[-1]._replace(max_timestamp_ms=0)
    changed = Index(partition.index.pages, Rows(others))
    with pytest.raises(InvariantError, match=r"rows of .* changed"):
        check_step(before, broken(before, index=changed))


def test_a_committed_row_is_not_aborted_later(log):
    """The rows themselves are the same: what says so lies beside them."""
    stamp = log.next(log.init())
    log.append(stamp, (0, 5))
    log.do(a.EndTransaction(stamp, True))
    check_state(log.state)
    aborted = Map({(stamp.producer_id, stamp.number): True})
    with pytest.raises(InvariantError, match=r"rows of .* changed"):
        check_step(log.state, broken(log.state, aborted=aborted))


END_AND_FORGET = {
    "a producer": a.ExpireTransactionalIds(("tx",)),
}


@pytest.mark.parametrize("what", END_AND_FORGET)
def test_one_entry_may_end_a_transaction_and_forget_what_was_in_it(log, what):
    """Each for itself, these requests are right; only who looks at the entry as a whole sees an open one go."""
    stamp = log.next(log.init())
    log.append(stamp, (0, 5))
    late = log.now + 10 * 24 * 3_600_000
    requests = (
        a.Request(bytes(16), log.now, (a.EndTransaction(stamp, True),)),
        a.Request(bytes(16), late, (END_AND_FORGET[what],), clock_checked=True),
    )
    entry = a.Entry(log.state.seq + 1, requests)
    after, outcomes = apply_checked(log.state, entry)
    assert all(isinstance(one, Accepted) for one in outcomes)
    assert (after, outcomes) == apply_entry(log.state, entry)
    with pytest.raises(InvariantError, match="went with an open transaction"):
        check_step(log.state, after)


@pytest.mark.parametrize("at", [0, 1])
def test_every_request_of_an_entry_is_checked(log, monkeypatch, at):
    """Also the one whose breach the next request covers up."""

    def lower(state, _):
        return replace(state, staging_floor=0), None

    log.do(a.RaiseStagingFloor(1))
    monkeypatch.setitem(a.DECLARED, a.CreateTopic, a.DECLARED[a.CreateTopic]._replace(rule=lower))
    requests = [a.Request(bytes(16), log.now, (a.RaiseStagingFloor(1),))]
    requests.insert(at, a.Request(bytes(16), log.now, (a.CreateTopic("x", "x-id", 1),)))
    with pytest.raises(InvariantError, match="staging_floor went back"):
        apply_checked(log.state, a.Entry(log.state.seq + 1, tuple(requests)))
