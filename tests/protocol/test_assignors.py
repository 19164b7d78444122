"""Assignments: Kafka's own test vectors, and what must hold for any group."""

import random
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.protocol.assignors import ASSIGNORS, EAGER, Subscriber
from tests.tiers import examples

RANGE, ROUND_ROBIN, STICKY = (ASSIGNORS[name] for name in ("range", "roundrobin", "cooperative-sticky"))
every_assignor = pytest.mark.parametrize("name", ASSIGNORS)


def group(**subscriptions):
    """``c1="a b"`` subscribes c1 to topics a and b."""
    return {member: Subscriber(tuple(topics.split())) for member, topics in subscriptions.items()}


def parts(text):
    """``a0 a2 b1`` -> (("a", 0), ("a", 2), ("b", 1))."""
    return tuple((word[:-1], int(word[-1])) for word in text.split())


def shown(assignment):
    return {
        member: " ".join(f"{topic}{number}" for topic, number in got) for member, got in assignment.items()
    }


def again(subscribers, assignment):
    """The group as it is after an assignment: each member owns what it got."""
    return {member: one._replace(owned=assignment.get(member, ())) for member, one in subscribers.items()}


def test_names_are_kafkas():
    assert set(ASSIGNORS) == {"range", "roundrobin", "cooperative-sticky"}
    assert {"range", "roundrobin"} == EAGER


# -- Kafka's vectors (RangeAssignorTest, RoundRobinAssignorTest, AbstractStickyAssignorTest) --------------


@every_assignor
def test_one_consumer_no_topic(name):
    assert ASSIGNORS[name](group(c=""), {}) == {"c": ()}


@every_assignor
def test_one_consumer_nonexistent_topic(name):
    assert ASSIGNORS[name](group(c="t"), {}) == {"c": ()}
    assert ASSIGNORS[name](group(c="t"), {"t": 0}) == {"c": ()}


@every_assignor
def test_only_partitions_of_subscribed_topics(name):
    assert shown(ASSIGNORS[name](group(c="t"), {"t": 3, "other": 3})) == {"c": "t0 t1 t2"}


@every_assignor
def test_one_consumer_multiple_topics(name):
    assert shown(ASSIGNORS[name](group(c="a b"), {"a": 1, "b": 2})) == {"c": "a0 b0 b1"}


@every_assignor
def test_two_consumers_one_partition(name):
    assert shown(ASSIGNORS[name](group(c1="t", c2="t"), {"t": 1})) == {"c1": "t0", "c2": ""}


@every_assignor
def test_two_consumers_two_partitions(name):
    assert shown(ASSIGNORS[name](group(c1="t", c2="t"), {"t": 2})) == {"c1": "t0", "c2": "t1"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("range", {"c1": "a0", "c2": "a1 b0 b1", "c3": "a2"}),
        ("roundrobin", {"c1": "a0", "c2": "a1 b0 b1", "c3": "a2"}),
        ("cooperative-sticky", {"c1": "a0 a2", "c2": "b0 b1", "c3": "a1"}),
    ],
)
def test_multiple_consumers_mixed_topics(name, expected):
    assert shown(ASSIGNORS[name](group(c1="a", c2="a b", c3="a"), {"a": 3, "b": 2})) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("range", {"c1": "a0 a1 b0 b1", "c2": "a2 b2"}),
        ("roundrobin", {"c1": "a0 a2 b1", "c2": "a1 b0 b2"}),
        ("cooperative-sticky", {"c1": "a0 a2 b1", "c2": "a1 b0 b2"}),
    ],
)
def test_two_consumers_two_topics_six_partitions(name, expected):
    assert shown(ASSIGNORS[name](group(c1="a b", c2="a b"), {"a": 3, "b": 3})) == expected


@pytest.mark.parametrize("second", ["instance2", None])
def test_static_members_come_first_by_instance_id(second):
    members = {
        "consumer-b": Subscriber(("a", "b"), "instance1"),
        "consumer-a": Subscriber(("a", "b"), second),
    }
    sizes = {"a": 3, "b": 3}
    assert shown(RANGE(members, sizes)) == {"consumer-b": "a0 a1 b0 b1", "consumer-a": "a2 b2"}
    assert shown(ROUND_ROBIN(members, sizes)) == {"consumer-b": "a0 a2 b1", "consumer-a": "a1 b0 b2"}


def test_a_static_member_keeps_its_place_under_another_member_id():
    sizes = {"a": 3, "b": 3}
    before = {f"m{n}": Subscriber(("a", "b"), f"i{n}") for n in (1, 2, 3)}
    after = {f"x{9 - n}": Subscriber(("a", "b"), f"i{n}") for n in (1, 2, 3)}
    for assign in ASSIGNORS.values():
        old, new = assign(before, sizes), assign(after, sizes)
        assert {old[f"m{n}"] for n in (1, 2, 3)} == {new[f"x{9 - n}"] for n in (1, 2, 3)}
        assert all(old[f"m{n}"] == new[f"x{9 - n}"] for n in (1, 2, 3))


def test_round_robin_three_static_members_and_a_dynamic_one():
    members = {f"c{n}": Subscriber(("a", "b"), f"instance{n}") for n in (1, 2, 3)}
    members["c4"] = Subscriber(("a", "b"))
    expected = {"c1": "a0 b1", "c2": "a1 b2", "c3": "a2", "c4": "b0"}
    assert shown(ROUND_ROBIN(members, {"a": 3, "b": 3})) == expected


def test_round_robin_passes_over_those_who_did_not_subscribe():
    members = group(c1="a b c d e", c2="a c e", c3="a c e", c4="a b c d e")
    sizes = {"a": 2, "b": 1, "c": 2, "d": 1, "e": 2}
    expected = {"c1": "a0 c0 e0", "c2": "a1 c1 e1", "c3": "", "c4": "b0 d0"}
    assert shown(ROUND_ROBIN(members, sizes)) == expected


def test_sticky_where_round_robin_does_poorly():
    members = group(c1="a b c d e", c2="a c e", c3="a c e", c4="a b c d e")
    found = STICKY(members, {"a": 2, "b": 1, "c": 2, "d": 1, "e": 2})
    assert [len(got) for got in found.values()] == [2, 2, 2, 2]


def test_sticky_member_with_the_smaller_share_may_get_the_larger():
    members = group(c1="a b", c2="a b")
    members["c1"] = members["c1"]._replace(owned=parts("a0 b1"))
    members["c2"] = members["c2"]._replace(owned=parts("a1 b2"))
    assert shown(STICKY(members, {"a": 2, "b": 3})) == {"c1": "a0 b0 b1", "c2": "a1 b2"}


def test_sticky_more_large_members_than_there_is_room_for():
    members = group(c1="a b", c2="a b", c3="a b")
    members["c1"] = members["c1"]._replace(owned=parts("a0 b0"))
    members["c2"] = members["c2"]._replace(owned=parts("a1 b1"))
    found = STICKY(members, {"a": 2, "b": 2})
    assert sorted(len(got) for got in found.values()) == [1, 1, 2]
    assert len(found["c3"]) == 1
    assert set(found["c1"]) <= set(parts("a0 b0"))
    assert set(found["c2"]) <= set(parts("a1 b1"))


def test_sticky_all_under_their_share():
    members = group(c1="a b", c2="a b", c3="a b")
    members["c1"] = members["c1"]._replace(owned=parts("a0"))
    members["c2"] = members["c2"]._replace(owned=parts("a1"))
    found = STICKY(members, {"a": 2, "b": 3})
    assert ("a", 0) in found["c1"]
    assert ("a", 1) in found["c2"]
    assert sorted(len(got) for got in found.values()) == [1, 2, 2]


def test_sticky_add_and_remove_consumers():
    members = group(c1="a b", c2="a b")
    sizes = {"a": 3, "b": 4}
    first = STICKY(members, sizes)
    assert shown(first) == {"c1": "a0 a2 b1 b3", "c2": "a1 b0 b2"}
    members = again(members, first) | group(c3="a b", c4="a b")
    second = STICKY(members, sizes)
    assert shown(second) == {"c1": "a0 a2", "c2": "a1 b0", "c3": "b1 b3", "c4": "b2"}
    members = again(members, second)
    del members["c1"], members["c2"]
    third = STICKY(members, sizes)
    assert set(second["c3"]) <= set(third["c3"])
    assert set(second["c4"]) <= set(third["c4"])
    assert sorted(len(got) for got in third.values()) == [3, 4]


def test_sticky_what_two_claim_is_nobodys():
    members = {
        "c1": Subscriber(("t",), None, parts("t0 t2")),
        "c2": Subscriber(("t",), None, parts("t1 t2 t3")),
        "c3": Subscriber(("t",), None, parts("t2 t4 t5")),
        "c4": Subscriber(("u",), None, parts("u0")),
    }
    found = STICKY(members, {"t": 6, "u": 1})
    assert shown(found) == {"c1": "t0 t2", "c2": "t1 t3", "c3": "t4 t5", "c4": "u0"}


def test_sticky_ignores_what_is_not_there_or_not_subscribed():
    members = {"c1": Subscriber(("t",), None, parts("t7 gone0 u0")), "c2": Subscriber(("t", "u"))}
    found = STICKY(members, {"t": 2, "u": 1})
    assert shown(found) == {"c1": "t0 t1", "c2": "u0"}


def test_sticky_unequal_subscriptions_move_only_what_evens_out():
    members = {
        "c1": Subscriber(("a", "b"), None, parts("a0 a1 a2 a3 b0 b1")),
        "c2": Subscriber(("b",), None, ()),
    }
    found = STICKY(members, {"a": 4, "b": 2})
    assert shown(found) == {"c1": "a0 a1 a2 a3", "c2": "b0 b1"}


def test_sticky_a_move_that_only_becomes_possible_by_another():
    members = {
        "m0": Subscriber(("a",), None, parts("a3")),
        "m1": Subscriber(("a", "b", "c"), None, parts("b0 c0 c1")),
        "m2": Subscriber(("b",)),
    }
    # a is shared out while m1 has three; only then b moves to m2, and m1 can take another a.
    found = STICKY(members, {"a": 4, "b": 1, "c": 2})
    assert {member: len(got) for member, got in found.items()} == {"m0": 3, "m1": 3, "m2": 1}


# -- What holds for any group --------------------------------------------------------------------------

TOPICS = "abcde"
sizes_of = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7), max_size=5)
a_member = st.builds(
    Subscriber,
    st.lists(st.sampled_from(TOPICS), unique=True, max_size=5).map(tuple),
    st.none() | st.text("ij", max_size=2),
    st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 8)), unique=True, max_size=12).map(tuple),
)
a_group = st.dictionaries(st.text("mno", min_size=1, max_size=3), a_member, min_size=1, max_size=7)


def valid_owned(members, sizes):
    claims = Counter(at for one in members.values() for at in one.owned)
    return {
        member: {
            at for at in one.owned if claims[at] == 1 and at[0] in one.topics and at[1] < sizes.get(at[0], 0)
        }
        for member, one in members.items()
    }


@every_assignor
@given(members=a_group, sizes=sizes_of)
def test_every_partition_goes_to_exactly_one_subscriber(name, members, sizes):
    found = ASSIGNORS[name](members, sizes)
    assert set(found) == set(members)
    for member, got in found.items():
        assert list(got) == sorted(set(got))
        assert {topic for topic, _ in got} <= set(members[member].topics)
    subscribed = {topic for one in members.values() for topic in one.topics}
    wanted = {(topic, n) for topic in subscribed & set(sizes) for n in range(sizes[topic])}
    assert Counter(at for got in found.values() for at in got) == Counter(dict.fromkeys(wanted, 1))


@every_assignor
@given(members=a_group, sizes=sizes_of, chance=st.randoms())
def test_the_order_of_the_arguments_does_not_matter(name, members, sizes, chance):
    def shuffled(mapping):
        items = list(mapping.items())
        chance.shuffle(items)
        return dict(items)

    mixed = {
        member: one._replace(
            topics=tuple(chance.sample(one.topics, len(one.topics))),
            owned=tuple(chance.sample(one.owned, len(one.owned))),
        )
        for member, one in shuffled(members).items()
    }
    assert ASSIGNORS[name](mixed, shuffled(sizes)) == ASSIGNORS[name](members, sizes)


@given(members=a_group, sizes=sizes_of)
def test_range_is_consecutive_and_even_by_topic(members, sizes):
    found = RANGE(members, sizes)
    for topic in sizes:
        got = [
            [n for at, n in found[member] if at == topic]
            for member in members
            if topic in members[member].topics
        ]
        assert all(
            numbers == list(range(numbers[0], numbers[0] + len(numbers))) for numbers in got if numbers
        )
        assert not got or max(map(len, got)) - min(map(len, got)) <= 1


@given(members=a_group, sizes=sizes_of)
@examples(150)
def test_sticky_with_equal_subscriptions_is_even_and_sticky(members, sizes):
    members = {member: one._replace(topics=tuple(TOPICS)) for member, one in members.items()}
    found = STICKY(members, sizes)
    share, extra = divmod(sum(sizes.values()), len(members))
    counts = Counter(len(got) for got in found.values())
    assert counts[share + 1] == extra
    assert counts[share] == len(members) - extra
    owned = valid_owned(members, sizes)
    kept = {member: len(owned[member] & set(found[member])) for member in members}
    for member in members:
        assert kept[member] >= min(len(owned[member]), share)
    large = sum(1 for member in members if len(owned[member]) > share)
    assert sum(kept.values()) == sum(min(len(had), share) for had in owned.values()) + min(large, extra)


@given(members=a_group, sizes=sizes_of)
@examples(150)
def test_sticky_no_single_move_makes_it_more_even(members, sizes):
    found = STICKY(members, sizes)
    for got in found.values():
        for topic, _ in got:
            for taker in members:
                if topic in members[taker].topics:
                    assert len(got) <= len(found[taker]) + 1


@given(members=a_group, sizes=sizes_of)
@examples(150)
def test_sticky_nothing_moves_without_need(members, sizes):
    found = STICKY(members, sizes)
    assert STICKY(again(members, found), sizes) == found


def test_range_members_hold_the_same_numbers_of_equal_topics():
    members = {f"m{n}": Subscriber(("orders", "payments")) for n in range(3)}
    for got in RANGE(members, {"orders": 8, "payments": 8}).values():
        assert [n for topic, n in got if topic == "orders"] == [n for topic, n in got if topic == "payments"]


def lines_run(call):
    """How many lines of Python a call runs: a measure of work that no other process disturbs."""
    count = 0

    def trace(_frame, event, _arg):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@every_assignor
@pytest.mark.parametrize("topics", [1, 20, None])
def test_work_grows_with_the_group_not_with_its_square(name, topics):
    def work(scale):
        sizes = {f"t{n:04}": 200 * scale // (topics or 200 * scale) for n in range(topics or 200 * scale)}
        members = {f"m{n:04}": Subscriber(tuple(sizes)) for n in range(40 * scale)}
        members = again(members, ASSIGNORS[name](members, sizes))
        del members["m0007"]
        return lines_run(lambda: ASSIGNORS[name](members, sizes))

    assert work(8) < 16 * work(1)


@every_assignor
def test_a_thousand_members_and_ten_thousand_partitions(name):
    sizes = {f"t{n:03}": 100 for n in range(100)}
    members = {f"m{n:04}": Subscriber(tuple(sizes)) for n in range(1000)}
    found = ASSIGNORS[name](members, sizes)
    assert sum(map(len, found.values())) == 10_000


def test_large_groups_with_unequal_subscriptions():
    chance = random.Random(7)
    sizes = {f"t{n:03}": chance.randint(1, 40) for n in range(200)}
    members = {f"m{n:03}": Subscriber(tuple(chance.sample(sorted(sizes), 20))) for n in range(300)}
    found = STICKY(members, sizes)
    left = again(members, found)
    for member in chance.sample(sorted(left), 50):
        del left[member]
    after = STICKY(left, sizes)
    loads = {member: len(got) for member, got in after.items()}
    for member, got in after.items():
        low = min(loads[taker] for topic, _ in got for taker in left if topic in left[taker].topics)
        assert loads[member] <= low + 1
    stayed = sum(len(set(found[member]) & set(after[member])) for member in left)
    assert stayed > 0.9 * sum(len(found[member]) for member in left)
