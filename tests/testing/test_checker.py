"""Each anomaly is flagged in a history that has it, and none in one that has not."""

from __future__ import annotations

import pytest

from spark_eos.errors import InvalidRequestError
from spark_eos.testing.history import READ_UNCOMMITTED, Event, Kind, Send
from spark_eos.testing.history.checker import check
from spark_eos.testing.history.cycles import Edge, Graph
from spark_eos.testing.history.report import ANOMALIES, TOLERABLE, Anomaly

from .histories import T0, Story, final, poll, sends


def names(story, fully=None, **options):
    """Names of what is found, sorted, with a ``~`` before what is allowed."""
    report = check(story.history, partitions_read_fully=fully, **options)
    assert {*report.names} <= {*ANOMALIES}
    assert report.ok == (not report.forbidden)
    for anomaly in report.anomalies:
        assert anomaly.events
        assert anomaly.name in str(report)
    return sorted(f"{'~' * anomaly.allowed}{anomaly.name}" for anomaly in report.anomalies)


@pytest.fixture
def story():
    return Story()


# -- Clean ----------------------------------------------------------------------------------------------


def test_nothing(story):
    assert names(story) == []
    assert names(story, final(p0="")) == []


def test_writers_and_readers(story):
    story.txn("w1", "0:a@0 0:b@1 1:c@0")
    story.txn("w2", "0:d@3 1:e@2")  # offset 2 and 1: control batches
    story.send("w3", "0:f@5 0:g@6")
    story.read("r1", poll(0, "0:a 1:b"), poll(1, "0:c"))
    story.read("r1", poll(0, "3:d 5:f 6:g", caught_up=True, position=7), poll(1, "2:e", caught_up=True))
    story.read("r1", poll(0, caught_up=True, position=7), poll(1, caught_up=True))
    story.read("r2", poll(0, "0:a 1:b 3:d", caught_up=True), isolation=READ_UNCOMMITTED)
    assert names(story, final(p0="0:a 1:b 3:d 5:f 6:g", p1="0:c 2:e")) == []


def test_aborted_and_failed(story):
    story.txn("w1", "0:a@0")
    story.aborted("w1", "0:b")
    story.aborted("w2", "0:c@2 1:d@0", streamed=True)
    story.fail(story.begin("w3", "0:e", txn=False))
    story.read("r1", poll(0, "0:a 2:c"), poll(1, "0:d"), isolation=READ_UNCOMMITTED)
    story.read("r2", poll(0, "0:a", position=4, caught_up=True), poll(1, position=2, caught_up=True))
    assert names(story, final(p0="0:a", p1="")) == []


def test_unknown_outcomes(story):
    story.unknown("w1", "0:in 1:in")
    story.unknown("w2", "0:out 1:out")
    story.begin("w3", "0:killed 1:killed")
    story.begin("w3", "0:dead 1:dead")  # goes on under the same name
    story.txn("w1", "0:next@2")
    story.unknown("w4", "0:one 0:two", txn=False)
    assert names(story) == []
    fully = final(p0="0:in 2:next 4:killed 6:two", p1="0:in 2:killed")
    assert names(story, fully) == []


def test_a_reader_that_is_moved(story):
    story.send("w", "0:a@0 0:b@1 0:c@2 0:d@3")
    story.read("r", poll(0, "0:a 1:b"))
    story.read("r", poll(0, "3:d", reassigned=True))
    story.read("r", poll(0, "1:b 2:c", reassigned=True))
    assert names(story) == []


def test_a_poll_of_unknown_outcome_leaves_the_position_unknown(story):
    story.send("w", "0:a@0 0:b@1")
    story.send("w", "0:c@2")
    story.read("r", poll(0, "0:a"))
    story.info(story.recorder.invoke("r", "poll", [poll(0)]))
    story.read("r", poll(0, "2:c"))
    assert names(story) == []


def test_a_copier(story):
    story.txn("w", "0:a@0")
    story.txn("w", "0:b@2")
    story.txn("c", [poll(0, "0:a"), *sends("1:A@0")])
    story.fail(story.begin("c"), [poll(0, "2:b"), *sends("1:B")])
    story.txn("c", [poll(0, "2:b", reassigned=True), *sends("1:B2@2")])
    assert names(story, final(p0="0:a 2:b", p1="0:A 2:B2")) == []


def test_input_from_outside(story):
    story.read("r", poll(0, "0:a 1:b"))
    story.read("r", poll(0, "2:c"))
    assert names(story, final(p0="0:a 1:b 2:c 3:d")) == []


def test_below_the_start_of_a_partition_nothing_is_missed(story):
    story.send("w", "0:a@0 0:b@1 0:c@2")
    story.send("v", "0:d")
    story.read("r", poll(0, "0:a"))
    story.read("r", poll(0, "2:c"))
    options = {"fully": final(p0="2:c"), "log_starts": {T0: 2}}
    assert names(story, **options) == []
    assert names(story, final(p0="2:c")) == [
        *("conservation", "conservation", "conservation", "lost-write", "poll-skip", "unseen", "unseen")
    ]


# -- Values ---------------------------------------------------------------------------------------------


def test_inconsistent_offset(story):
    story.send("w1", "0:a@0")
    story.send("w2", "0:b")
    story.read("r", poll(0, "0:b"))
    assert names(story) == ["inconsistent-offset", "lost-write"]


def test_inconsistent_offset_between_readers(story):
    story.read("r1", poll(0, "0:a"))
    story.read("r2", poll(0, "0:b"))
    assert names(story) == ["inconsistent-offset"]


def test_duplicate(story):
    story.send("w", "0:a@0")
    story.read("r", poll(0, "0:a 1:a"))
    assert names(story) == ["duplicate"]


def test_duplicate_between_acknowledgement_and_reader(story):
    story.send("w", "0:a@1")
    story.read("r", poll(0, "0:a", caught_up=True))
    assert names(story) == ["duplicate"]


@pytest.mark.parametrize(
    ("isolation", "streamed", "txn", "expected"),
    [
        ("read_committed", False, True, ["G1a"]),
        ("read_committed", True, True, ["G1a"]),
        ("read_committed", False, False, ["G1a"]),
        ("read_uncommitted", False, True, ["G1a"]),
        ("read_uncommitted", False, False, ["G1a"]),
        ("read_uncommitted", True, True, []),
    ],
)
def test_aborted_read(story, isolation, streamed, txn, expected):
    story.fail(story.begin("w", "0:a", streamed=streamed, txn=txn))
    story.read("r", poll(0, "0:a"), isolation=isolation)
    assert names(story) == expected


def test_aborted_read_of_what_was_only_planned(story):
    story.fail(story.begin("w", "0:a 0:b", streamed=True), "0:a@0")
    story.read("r", poll(0, "1:b"))
    assert names(story) == ["G1a"]


def test_a_transaction_may_turn_out_to_be_streamed_at_its_end(story):
    story.recorder.fail(story.begin("w", "0:a"), sends("0:a@0"), streamed=True)
    story.read("u", poll(0, "0:a"), isolation=READ_UNCOMMITTED)
    assert names(story) == []


def test_aborted_read_of_a_copier_that_aborts_too(story):
    story.aborted("w", "0:a")
    story.fail(story.begin("c"), [poll(0, "0:a")])
    assert names(story) == ["G1a"]


@pytest.mark.parametrize(
    ("isolation", "streamed", "expected"),
    [
        ("read_committed", False, ["precommitted-read"]),
        ("read_committed", True, ["precommitted-read"]),
        ("read_uncommitted", False, ["precommitted-read"]),
        ("read_uncommitted", True, []),
    ],
)
def test_precommitted_read(story, isolation, streamed, expected):
    actions = [*sends("0:a@0"), poll(0, "0:a")]
    story.ok(story.begin("w", "", streamed=streamed, isolation=isolation), actions)
    assert names(story) == expected


# -- Presence -------------------------------------------------------------------------------------------


def test_lost_write(story):
    story.send("w", "0:a@0")
    story.send("w", "0:b@1")
    story.send("v", "0:c@2")
    story.read("r", poll(0, "0:a"))
    assert names(story) == []
    story.read("r", poll(0, "2:c"))
    assert names(story) == ["lost-write", "poll-skip"]


def test_lost_write_of_a_transaction_that_others_saw(story):
    story.unknown("w", "0:b@1 1:b")
    story.read("r1", poll(0, "0:a 2:c"))
    assert names(story) == []
    story.read("r2", poll(1, "0:b"))
    assert names(story) == ["int-poll-skip", "lost-write"]


def test_no_write_is_lost_between_stretches_that_were_read(story):
    story.send("w", "0:a@0 0:b@1 0:c@2")
    story.read("r1", poll(0, "0:a"))
    story.read("r2", poll(0, "2:c"))
    assert names(story) == []
    assert "lost-write" in names(story, final(p0="2:c"))


def test_a_write_seen_uncommitted_only_is_lost_too(story):
    story.send("w", "0:a@0 0:b@1 0:c@2")
    story.read("r1", poll(0, "0:a 1:b 2:c"), isolation=READ_UNCOMMITTED)
    story.read("r2", poll(0, "0:a 2:c"))
    assert names(story) == ["int-poll-skip", "lost-write"]


def test_unseen(story):
    story.send("w", "0:a@0")
    story.send("w", "0:b@1")
    story.send("v", "1:c")
    assert names(story, final(p0="0:a")) == ["conservation", "unseen"]
    assert names(story, final(p0="0:a 1:b")) == []
    assert names(story, final(p0="0:a 1:b", p1="")) == ["conservation", "unseen"]


def test_seen_once_and_gone_at_the_end(story):
    story.send("w", "0:a@0 0:b@1")
    story.read("r", poll(0, "0:a 1:b"))
    assert names(story, final(p0="0:a")) == ["conservation"]


def test_the_final_read_doubles(story):
    story.send("w", "0:a@0")
    assert names(story, final(p0="0:a 1:a")) == ["conservation", "duplicate"]
    assert names(story, final(p0="0:a 0:a")) == ["conservation", "int-nonmonotonic-poll"]


def test_the_final_read_doubles_input_from_outside(story):
    assert names(story, final(p0="0:a 1:a")) == ["conservation", "duplicate"]


def test_the_final_read_holds_what_failed(story):
    story.aborted("w", "0:a")
    assert names(story, final(p0="0:a")) == ["G1a", "conservation"]


def test_the_final_read_holds_what_nobody_sent(story):
    story.send("w", "0:a@0")
    assert names(story, final(p0="0:a 1:b")) == ["conservation"]


def test_unknown_at_most_once(story):
    story.unknown("w", "0:a")
    assert names(story, final(p0="")) == []
    assert names(story, final(p0="0:a")) == []
    assert names(story, final(p0="0:a 1:a")) == ["conservation", "duplicate"]


@pytest.mark.parametrize("streamed", [False, True])
def test_unknown_whole_or_not_at_all(story, streamed):
    story.unknown("w", "0:a 1:b", streamed=streamed)
    assert names(story, final(p0="0:a")) == []
    assert names(story, final(p0="0:a", p1="")) == ["conservation", "unseen"]


# -- Order of polls -------------------------------------------------------------------------------------


def test_poll_skip(story):
    story.send("w", "0:a@0 0:b@1 0:c@2")
    story.read("r0", poll(0, "0:a 1:b 2:c"))
    story.read("r", poll(0, "0:a"))
    story.read("r", poll(0, "2:c"))
    assert names(story) == ["poll-skip"]


def test_poll_skip_of_what_only_another_reader_knows(story):
    story.read("r0", poll(0, "0:a 1:b 2:c"))
    story.read("r", poll(0, "0:a"))
    story.read("r", poll(0, "2:c"))
    assert names(story) == ["poll-skip"]


def test_poll_skip_by_the_position(story):
    story.send("w", "0:a@0 0:b@1")
    story.read("r0", poll(0, "0:a 1:b"))
    story.read("r", poll(0, "0:a", position=1))
    assert names(story) == []
    story.read("r", poll(0, position=2))
    assert names(story) == ["poll-skip"]


def test_poll_skip_after_an_empty_poll(story):
    story.send("w", "0:a@0")
    story.read("r", poll(0, position=0))
    story.send("w", "0:b@1")
    story.read("r0", poll(0, "0:a 1:b"))
    story.read("r", poll(0, "1:b"))
    assert names(story) == ["poll-skip"]


def test_int_poll_skip(story):
    story.read("r0", poll(0, "0:a 1:b 2:c"))
    story.read("r", poll(0, "0:a 2:c"))
    assert names(story) == ["int-poll-skip"]


def test_int_poll_skip_between_two_polls_of_a_transaction(story):
    story.read("r0", poll(0, "0:a 1:b 2:c"))
    story.txn("r", [poll(0, "0:a", turn=0), poll(0, "2:c", turn=1)])
    assert names(story) == ["int-poll-skip"]


def test_no_poll_skip_over_what_is_not_committed(story):
    story.aborted("w1", "0:b@1", streamed=True)
    story.unknown("w2", "0:c@2", streamed=True)
    story.read("u", poll(0, "1:b 2:c"), isolation=READ_UNCOMMITTED)
    story.read("r", poll(0, "0:a 4:d"))
    assert names(story) == []


def test_a_process_may_read_at_both_levels(story):
    story.send("w", "0:a@0 0:b@1")
    story.read("r", poll(0, "0:a 1:b"))
    story.read("r", poll(0, "0:a 1:b"), isolation=READ_UNCOMMITTED)
    assert names(story) == []


@pytest.mark.parametrize("again", ["0:a", "1:b", "0:a 1:b"])
def test_nonmonotonic_poll(story, again):
    story.read("r", poll(0, "0:a 1:b"))
    story.read("r", poll(0, again))
    assert names(story) == ["nonmonotonic-poll"]


def test_nonmonotonic_poll_by_the_position(story):
    story.read("r", poll(0, "0:a 1:b", position=2))
    story.read("r", poll(0, position=1))
    assert names(story) == ["nonmonotonic-poll"]


def test_int_nonmonotonic_poll(story):
    story.read("r", poll(0, "0:a 1:b 0:a"))
    assert names(story) == ["int-nonmonotonic-poll"]


# -- Order of sends -------------------------------------------------------------------------------------


def test_nonmonotonic_send(story):
    story.send("w", "0:a@1")
    story.send("w", "0:b@0")
    assert names(story, order="none") == ["nonmonotonic-send"]
    assert names(story) == ["G0", "nonmonotonic-send"]  # the order of the process contradicts that of writes


def test_nonmonotonic_send_of_offsets_that_readers_know(story):
    story.send("w", "0:a")
    story.send("w", "0:b")
    story.read("r", poll(0, "0:b 1:a"))
    assert names(story, order="none") == ["nonmonotonic-send"]


def test_sends_may_come_late_after_an_unknown_outcome(story):
    story.unknown("w", "0:a")
    story.send("w", "0:b@0")
    story.read("r", poll(0, "0:b 1:a"))
    assert names(story) == []
    assert names(story, order="process") == []


def test_sends_that_were_acknowledged_count_though_their_transaction_failed(story):
    story.aborted("w", "0:a@1", streamed=True)
    story.send("w", "0:b@0")
    assert names(story) == ["nonmonotonic-send"]


def test_int_nonmonotonic_send(story):
    story.txn("w", "0:a@1 0:b@0")
    assert names(story) == ["int-nonmonotonic-send"]


@pytest.mark.parametrize(("streamed", "expected"), [(False, ["int-send-skip"]), (True, ["~int-send-skip"])])
def test_int_send_skip(story, streamed, expected):
    token = story.begin("w", "0:a 0:c", streamed=streamed)
    story.send("v", "0:b@1")
    story.ok(token, "0:a@0 0:c@2")
    assert names(story, order="none") == [*(["~G0"] if streamed else ["G0"]), *expected]


def test_int_send_skip_over_what_was_aborted(story):
    story.aborted("v", "0:b@1", streamed=True)
    story.txn("w", "0:a@0 0:c@2")
    assert names(story) == ["int-send-skip"]


def test_int_send_skip_with_offsets_far_apart(story):
    story.aborted("v", "0:b@1000", streamed=True)
    story.txn("w", "0:a@0 0:c@1000000000000")
    assert names(story) == ["int-send-skip"]


def test_no_send_skip_over_holes(story):
    story.txn("w", "0:a@0 0:c@2")
    assert names(story) == []


# -- Cycles ---------------------------------------------------------------------------------------------


def overlapping(story, first, second, streamed=False):
    one = story.begin("w1", first, streamed=streamed)
    two = story.begin("w2", second, streamed=streamed)
    story.ok(one, first)
    story.ok(two, second)


def test_g0(story):
    overlapping(story, "0:a@0 1:a@1", "0:b@1 1:b@0")
    assert names(story) == ["G0"]


def test_g0_of_streamed_transactions_is_allowed(story):
    overlapping(story, "0:a@0 1:a@1", "0:b@1 1:b@0", streamed=True)
    assert names(story) == ["~G0"]


def test_g0_with_a_one_shot_between_the_sends_of_a_streamed_one(story):
    streamed = story.begin("w1", "0:a 1:a", streamed=True)
    story.txn("w2", "0:b@1 1:b@0")
    story.ok(streamed, "0:a@0 1:a@1")
    assert names(story) == ["~G0"]


def test_g0_of_three(story):
    tokens = [story.begin(f"w{i}", text) for i, text in enumerate(["0:a 1:a", "1:b 2:b", "2:c 0:c"])]
    for token, text in zip(tokens, ["0:a@0 1:a@1", "1:b@0 2:b@1", "2:c@0 0:c@1"], strict=True):
        story.ok(token, text)
    report = check(story.history)
    (anomaly,) = report.forbidden
    assert (anomaly.name, len(anomaly.events)) == ("G0", 3)


def test_g0_hidden_by_a_streamed_transaction_between(story):
    # In partition 0: w1 before the streamed one before w2. The streamed one says nothing, but w1 and w2 do.
    streamed = story.begin("s", "0:s", streamed=True)
    one, two = story.begin("w1", "0:a 1:a"), story.begin("w2", "0:b 1:b")
    story.ok(streamed, "0:s@1")
    story.ok(one, "0:a@0 1:a@1")
    story.ok(two, "0:b@2 1:b@0")
    assert "G0" in names(story)


def test_writers_that_failed_are_in_no_cycle(story):
    one = story.begin("w1", "0:a 1:a", streamed=True)
    story.txn("w2", "0:b@1 1:b@0")
    story.fail(one, "0:a@0 1:a@1")
    assert names(story) == []


def test_an_unknown_writer_that_was_seen_is_in_a_cycle(story):
    one = story.begin("w1", "0:a 1:a")
    story.txn("w2", "0:b@1 1:b@0")
    story.info(one)
    assert names(story) == []
    story.read("r", poll(0, "0:a 1:b"), poll(1, "0:b 1:a"))
    assert names(story) == ["G0"]


def test_g0_against_real_time(story):
    story.txn("w1", "0:a@1")
    story.txn("w2", "0:b@0")
    assert names(story) == ["G0"]
    assert names(story, order="process") == []
    assert names(story, order="none") == []


def test_no_order_between_calls_that_overlap(story):
    overlapping(story, "0:a@1", "0:b@0")
    assert names(story) == []


def test_real_time_through_the_frontier(story):
    # Long calls beside short ones, and four steps between the two that contradict one another.
    long = story.begin("long", "1:x")
    story.txn("w1", "0:a@4")
    for number in range(1, 4):
        story.txn(f"w{number + 1}", f"0:b{number}@{number + 4}")
    other = story.begin("other", "1:y")
    story.ok(long, "1:x@0")
    story.txn("w9", "0:c@0")
    story.ok(other, "1:y@1")
    assert names(story) == ["G0"]


def test_g1c(story):
    one, two = story.begin("c1", "0:a"), story.begin("c2", "1:b")
    story.ok(one, [poll(1, "0:b"), *sends("0:a@0")])
    story.ok(two, [poll(0, "0:a"), *sends("1:b@0")])
    assert names(story, order="none") == ["G1c"]
    assert names(story) == ["G1c"]


def test_g1c_of_reads_alone_is_forbidden_for_streamed_ones_too(story):
    one, two = story.begin("c1", "0:a", streamed=True), story.begin("c2", "1:b", streamed=True)
    story.ok(one, [poll(1, "0:b"), *sends("0:a@0")])
    story.ok(two, [poll(0, "0:a"), *sends("1:b@0")])
    assert names(story) == ["G1c"]


def test_g1c_of_reads_alone_beside_streamed_ones_is_told_once(story):
    one, two = story.begin("c1", "2:a", streamed=True), story.begin("c2", "3:b", streamed=True)
    story.ok(one, [poll(3, "0:b"), *sends("2:a@0")])
    story.ok(two, [poll(2, "0:a"), *sends("3:b@0")])
    overlapping(story, "0:a@0 1:a@1", "0:b@1 1:b@0", streamed=True)
    assert names(story) == ["G1c", "~G0"]


def test_g1c_through_the_second_writer_that_was_read(story):
    story.txn("w", "2:x@0")
    one, two = story.begin("c1", "0:a"), story.begin("c2", "1:b")
    story.ok(one, [poll(2, "0:x"), poll(1, "0:b"), *sends("0:a@0")])
    story.ok(two, [poll(2, "0:x"), poll(0, "0:a"), *sends("1:b@0")])
    assert names(story, order="none") == ["G1c"]


def test_the_shortest_cycle_is_shown():
    edges = [Edge(source, target, "ww") for source, target in [(0, 1), (1, 2), (2, 0), (1, 0), (2, 3)]]
    graph = Graph(edges)
    assert graph.components() == [{0, 1, 2}]
    cycle = graph.shortest_cycle({0, 1, 2}, through=lambda _: True)
    assert sorted((edge.source, edge.target) for edge in cycle) == [(0, 1), (1, 0)]


@pytest.mark.parametrize(("streamed", "expected"), [(False, "G1c"), (True, "~G1c")])
def test_g1c_through_writes(story, streamed, expected):
    # w writes before c, and reads what c wrote.
    one, two = story.begin("w", "0:a", streamed=streamed), story.begin("c", "0:b 1:b")
    story.ok(two, "0:b@1 1:b@0")
    story.ok(one, [*sends("0:a@0"), poll(1, "0:b")])
    assert names(story) == [expected]


def test_g1c_through_real_time(story):
    # The reader is done before the writer begins, who lies before what it read.
    one = story.begin("w1", "0:a")
    story.read("r", poll(0, "1:a"))
    story.txn("w2", "0:b@0")
    story.ok(one, "0:a@1")
    assert names(story, order="none") == []
    assert names(story) == ["G1c"]


def test_g1c_through_the_order_of_a_process(story):
    one = story.begin("w1", "0:a")
    story.read("c", poll(0, "1:a"))
    story.txn("c", "0:b@0")
    story.ok(one, "0:a@1")
    assert names(story, order="none") == []
    assert names(story, order="process") == ["G1c"]


def test_uncommitted_reads_of_a_streamed_transaction_make_no_order(story):
    streamed = story.begin("s", "0:a", streamed=True)
    story.ok(story.begin("c", "1:b", isolation=READ_UNCOMMITTED), [poll(0, "0:a"), *sends("1:b@0")])
    story.ok(streamed, [*sends("0:a@0"), poll(1, "0:b")])
    assert names(story) == []


def test_a_plain_call_with_several_sends_is_no_transaction(story):
    one = story.begin("w1", "0:a 1:a", txn=False)
    story.txn("w2", "0:b@1 1:b@0")
    story.ok(one, "0:a@0 1:a@1")
    assert names(story) == ["~G0"]


def test_a_reader_between_two_sends_of_a_plain_call(story):
    one = story.begin("p", "0:a 1:a", txn=False)
    story.read("r", poll(0, "0:a"))
    story.txn("w", "1:b@0")
    story.ok(one, "0:a@0 1:a@1")
    assert names(story) == ["~G1c"]


def test_forbidden_and_allowed_cycles_side_by_side(story):
    overlapping(story, "0:a@0 1:a@1", "0:b@1 1:b@0", streamed=True)
    overlapping(story, "2:a@0 3:a@1", "2:b@1 3:b@0")
    assert names(story) == ["G0", "~G0"]


def test_a_strict_cycle_in_a_tangle_of_streamed_ones_is_forbidden(story):
    tokens = [
        story.begin("s", "0:s 0:t", streamed=True),
        story.begin("w1", "0:a 1:a"),
        story.begin("w2", "0:b 1:b"),
    ]
    for token, text in zip(tokens, ["0:s@0 0:t@3", "0:a@1 1:a@1", "0:b@2 1:b@0"], strict=True):
        story.ok(token, text)
    assert names(story) == ["G0", "~G0", "~int-send-skip"]


# -- Torn -----------------------------------------------------------------------------------------------


def torn(story, *reads, streamed=False, isolation="read_committed"):
    story.txn("w0", "0:x@0 1:x@0")
    story.txn("w", "0:a@2 1:b@2", streamed=streamed)
    for polls in reads:
        story.read("r", *polls, isolation=isolation)
    return names(story)


def test_torn_in_one_poll(story):
    found = torn(story, [poll(0, "0:x 2:a", caught_up=True), poll(1, "0:x", caught_up=True)])
    assert found == ["torn"]


def test_torn_in_one_poll_whatever_the_order(story):
    found = torn(story, [poll(1, "0:x", caught_up=True), poll(0, "0:x 2:a", caught_up=True)])
    assert found == ["torn"]


def test_torn_by_an_empty_poll_at_a_position(story):
    found = torn(story, [poll(0, "0:x 2:a"), poll(1, position=2, caught_up=True)])
    assert found == ["torn"]


def test_torn_over_several_polls(story):
    found = torn(story, [poll(0, "0:x 2:a")], [poll(1, "0:x")], [poll(1, caught_up=True)])
    assert found == ["torn"]


def test_torn_is_told_once(story):
    found = torn(story, [poll(0, "0:x 2:a")], *([poll(1, position=1, caught_up=True)] for _ in range(3)))
    assert found == ["torn"]


def test_torn_without_read_committed(story):
    polls = [poll(0, "0:x 2:a"), poll(1, "0:x", caught_up=True)]
    assert torn(story, polls, isolation=READ_UNCOMMITTED) == ["torn"]


def test_torn_where_the_transaction_was_streamed(story):
    polls = [poll(0, "0:x 2:a"), poll(1, "0:x", caught_up=True)]
    assert torn(story, polls, streamed=True) == ["~torn"]


def test_an_open_streamed_transaction_seen_uncommitted_is_not_torn(story):
    polls = [poll(0, "0:x 2:a"), poll(1, "0:x", caught_up=True)]
    assert torn(story, polls, streamed=True, isolation=READ_UNCOMMITTED) == []


@pytest.mark.parametrize("offset", ["@1", ""])
@pytest.mark.parametrize("how", ["fail", "info", "ok"])
def test_torn_where_a_streamed_transaction_holds_back_the_end(story, offset, how):
    open_one = story.begin("s", "1:s", streamed=True)
    torn(story, [poll(0, "0:x 2:a"), poll(1, "0:x", caught_up=True)])
    getattr(story, how)(open_one, f"1:s{offset}")
    assert names(story) == ["~torn"]


def test_torn_where_a_streamed_transaction_was_over_before(story):
    story.txn("s", "1:s@0", streamed=True)
    story.txn("w", "0:a@0 1:b@2")
    story.read("r", poll(0, "0:a"), poll(1, position=0, caught_up=True))
    assert names(story) == ["torn"]


def test_torn_where_a_streamed_transaction_is_open_elsewhere(story):
    story.unknown("s", "0:s@1 1:s@3", streamed=True)
    assert torn(story, [poll(0, "0:x 2:a"), poll(1, "0:x", caught_up=True)]) == ["torn"]


def test_held_back_first_and_torn_at_last(story):
    held = story.begin("s", "1:s", streamed=True)
    story.txn("w", "0:a@2 1:b@2")
    story.read("r", poll(0, "2:a"), poll(1, position=0, caught_up=True))
    story.read("r", poll(1, position=0, caught_up=True))
    story.ok(held, "1:s@0")
    assert names(story) == ["~torn"]  # told once
    story.read("r", poll(1, "0:s", caught_up=True))
    assert names(story) == ["torn", "~torn"]


def test_not_torn(story):
    found = torn(
        story,
        [poll(0, "0:x"), poll(1, "0:x", caught_up=True)],  # the other one is not read to its end
        [poll(1, "2:b"), poll(0)],
        [poll(0, "2:a", caught_up=True), poll(1, caught_up=True)],
    )
    assert found == []


def test_not_torn_between_two_turns(story):
    # Turn 0 was answered before the commit, turn 1 after it.
    polls = [poll(1, "0:x", caught_up=True), poll(0, "0:x 2:a", caught_up=True, turn=1)]
    story.txn("w", "0:a@2 1:b@2")
    story.ok(story.begin("r"), polls)
    assert names(story) == []


def test_not_torn_by_the_position_of_the_other_level(story):
    story.txn("w0", "0:x@0 1:x@0")
    story.read("r", poll(1, "0:x"), isolation=READ_UNCOMMITTED)
    story.txn("w", "0:a@2 1:b@2")
    story.read("r", poll(0, "2:a"), poll(1, caught_up=True))  # where it stands in 1 was not recorded
    assert names(story) == []


def test_not_torn_after_a_seek_behind_it(story):
    found = torn(story, [poll(0, "0:x 2:a")], [poll(1, position=9, caught_up=True, reassigned=True)])
    assert found == []


def test_plain_sends_are_not_torn(story):
    story.send("w", "0:a@2 1:b@2")
    story.read("r", poll(0, "2:a"), poll(1, position=2, caught_up=True))
    assert names(story) == []


# -- The report and malformed histories -----------------------------------------------------------------


def test_the_report_counts(story):
    story.txn("w1", "0:a@0 1:b@0")
    story.aborted("w2", "0:c", streamed=True)
    story.begin("w3", "0:d")
    story.read("r", poll(0, "0:a"))
    report = check(story.history)
    assert report.counts == {
        "events": 7,
        "operations": 4,
        "ok": 2,
        "fail": 1,
        "info": 1,
        "transactions": 3,
        "streamed": 1,
        "values sent": 4,
        "values read": 1,
        "records polled": 1,
    }
    assert str(report).startswith("0 forbidden and 0 allowed anomalies in 7 events, 4 operations")


def test_the_report_shows_the_fate(story):
    story.aborted("w", "0:a")
    story.read("r", poll(0, "0:a"))
    report = check(story.history)
    (anomaly,) = report.anomalies
    assert (anomaly.name, anomaly.where) == ("G1a", "t-0@0")
    assert [event.kind for event in anomaly.events] == [Kind.FAIL, Kind.OK]
    assert "w fail commit w: send t-0 'a'" in str(report)
    assert "poll t-0 [0:'a']" in str(report)


def test_what_is_never_allowed():
    assert {"G0", "G1c", "int-send-skip", "torn"} == TOLERABLE
    with pytest.raises(AssertionError):
        Anomaly("G1a", "t-0@0", (), "", allowed=True)
    with pytest.raises(AssertionError):
        Anomaly("odd", "t-0@0", (), "")


def test_a_value_sent_twice_is_refused(story):
    story.aborted("w", "0:a")
    story.txn("w", "0:a")
    with pytest.raises(InvalidRequestError, match="'a' is sent to t-0 twice"):
        check(story.history)


@pytest.mark.parametrize(
    "events",
    [
        [(0, Kind.OK, "x")],
        [(0, Kind.INVOKE, "x"), (1, Kind.OK, "y")],
        [(0, Kind.INVOKE, "x"), (1, Kind.OK, "x"), (2, Kind.INFO, "x")],
    ],
)
def test_a_completion_without_its_invocation_is_refused(events):
    history = [Event(index, 0.0, "p", kind, call) for index, kind, call in events]
    with pytest.raises(InvalidRequestError, match="was not invoked"):
        check(history)


def test_events_out_of_order_are_refused():
    history = [Event(1, 0.0, "p", Kind.INVOKE, "x"), Event(1, 0.0, "q", Kind.INVOKE, "x")]
    with pytest.raises(InvalidRequestError, match="merge"):
        check(history)


def test_a_completion_without_actions_stands_for_its_invocation(story):
    token = story.recorder.invoke("w", "send", [Send(T0, "a", 0)])
    story.recorder.ok(token, [])
    assert names(story, final(p0="")) == ["conservation", "unseen"]
