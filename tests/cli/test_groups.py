"""``eoslog groups``: Kafka's tool for consumer groups, its columns, and JSON."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.log.log import Log
from spark_eos.protocol.actions import JoinGroup, SyncGroup
from tests.cli.console import Listing

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DAY_MS = 86_400_000
_SHOWN = Listing("groups")
run, rows, lines, fails = _SHOWN.run, _SHOWN.rows, _SHOWN.lines, _SHOWN.fails


@pytest.fixture
def url(log_url):
    """t-0 has ten records, one for each of the first ten days of 1970; group ``g`` has read six of them."""
    admin = Admin(log_url)
    admin.create_topic("t", 2)
    with Producer(log_url) as producer:
        for day in range(10):
            producer.send("t", b"x", partition=0, timestamp_ms=day * DAY_MS)
    admin.alter_group_offsets("g", {T0: 6})
    return log_url


@pytest.fixture
def members(url):
    """``a`` reads t-0, and ``b``, a static member, is about to take over t-1."""
    log = Log.open(url)
    log.commit(lambda _state: (JoinGroup("g", "a", ("t",), ("range",), 45_000, None, "app"),))
    log.commit(lambda _state: (JoinGroup("g", "b", ("t",), ("range",), 45_000, "static"),))


OFFSETS = [
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "CLIENT-ID"),
]


def test_listing(url, capsys):
    Admin(url).alter_group_offsets("f", {T1: 0})
    assert rows(capsys, "list", url) == [
        ["GROUP", "STATE", "#MEMBERS"],
        ["f", "Empty", "0"],
        ["g", "Empty", "0"],
    ]
    assert lines(capsys, "list", url)[1] == {"group": "g", "state": "Empty", "members": 0}


def test_describing_without_members(url, capsys):
    row = ["g", "t", "0", "6", "10", "4", "-", "-"]
    assert rows(capsys, "describe", url, "--group", "g") == [OFFSETS, row]
    assert rows(capsys, "describe", url, "--group", "g", "--offsets") == [OFFSETS, row]
    assert "knows no group 'h'" in fails(capsys, "describe", url, "--group", "h")


@pytest.mark.usefixtures("members")
def test_describing_with_members(url, capsys):
    assert rows(capsys, "describe", url, "--group", "g") == [
        OFFSETS,
        ["g", "t", "0", "6", "10", "4", "a", "app"],
        ["g", "t", "1", "-", "0", "-", "a", "app"],
    ]
    header = [
        *("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "CLIENT-ID", "GENERATION"),
        *("#PARTITIONS", "ASSIGNMENT"),
    ]
    assert rows(capsys, "describe", url, "--group", "g", "--members") == [
        header,
        ["g", "a", "-", "app", "1", "2", "t(0,1)"],
        ["g", "b", "static", "-", "2", "0", "-"],
    ]
    header = ["GROUP", "ASSIGNMENT-STRATEGY", "STATE", "GENERATION", "#MEMBERS"]
    assert rows(capsys, "describe", url, "--group", "g", "--state") == [
        header,
        ["g", "range", "PreparingRebalance", "2", "2"],
    ]
    (line,) = lines(capsys, "describe", url, "--group", "g")
    assert (line["state"], line["generation"]) == ("PreparingRebalance", 2)
    assert line["members"][0]["partitions"] == [{"topic": "t", "partition": n} for n in (0, 1)]
    assert line["partitions"][0]["committed"] == {"offset": 6, "metadata": ""}
    assert line["partitions"][1]["committed"] is None
    log = Log.open(url)
    log.commit(lambda _state: (SyncGroup("g", "a", 2),))
    assert rows(capsys, "describe", url, "--group", "g", "--state")[1][2] == "Stable"


def test_listing_by_state(url, capsys):
    assert rows(capsys, "list", url, "--state", "empty,Stable")[1:] == [["g", "Empty", "0"]]
    assert lines(capsys, "list", url, "--state", "stable", "--state", "PREPARINGREBALANCE") == []
    with pytest.raises(SystemExit):
        main(["groups", "list", url, "--state", "dead"])
    assert "'dead' is no state of a group" in capsys.readouterr().err


@pytest.mark.usefixtures("members")
def test_describing_several_groups(url, capsys):
    Admin(url).alter_group_offsets("f", {T1: 0})
    Admin(url).alter_group_offsets("h", {T0: 10})
    shown = rows(capsys, "describe", url, "--all-groups")
    assert [row[:4] for row in shown[1:]] == [
        ["f", "t", "1", "0"],
        ["g", "t", "0", "6"],
        ["g", "t", "1", "-"],
        ["h", "t", "0", "10"],
    ]
    assert rows(capsys, "describe", url, "--all-groups", "--offsets") == shown
    few = ("--group", "h", "--group", "f", "--group", "h")
    assert [row[0] for row in rows(capsys, "describe", url, *few)] == ["GROUP", "h", "f"]
    assert [row[:2] for row in rows(capsys, "describe", url, "--all-groups", "--members")[1:]] == [
        ["g", "a"],
        ["g", "b"],
    ]
    states = rows(capsys, "describe", url, "--all-groups", "--state")
    assert [row[2] for row in states[1:]] == ["Empty", "PreparingRebalance", "Empty"]
    assert [line["group"] for line in lines(capsys, "describe", url, "--all-groups")] == ["f", "g", "h"]


@pytest.mark.parametrize("arguments", [(), ("--group", "g", "--all-groups")], ids=" ".join)
def test_describing_needs_groups_or_all_of_them(url, capsys, arguments):
    with pytest.raises(SystemExit):
        main(["groups", "describe", url, *arguments])
    assert "--all-groups" in capsys.readouterr().err


def test_describing_all_groups_of_a_log_without_any(log_url, capsys):
    Log.create(log_url)
    assert rows(capsys, "describe", log_url, "--all-groups") == [OFFSETS]
    assert lines(capsys, "describe", log_url, "--all-groups") == []


WAYS = {
    ("--to-earliest",): 0,
    ("--to-latest",): 10,
    ("--to-current",): 6,
    ("--to-offset", "3"): 3,
    ("--to-offset", "99"): 10,
    ("--shift-by", "-2"): 4,
    ("--shift-by", "2"): 8,
    ("--to-datetime", "1970-01-05T00:00:00.000"): 4,
    ("--to-datetime", "1970-01-05T00:00:00.001Z"): 5,
    ("--to-datetime", "1970-01-05T01:00:00.000+01:00"): 4,
    ("--by-duration", "PT0S"): 10,
}


@pytest.mark.parametrize(("way", "offset"), WAYS.items(), ids=str)
def test_resetting_shows_and_with_execute_commits(url, capsys, way, offset):
    reset = ("reset-offsets", url, "--group", "g", *way)
    shown = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], ["g", "t", "0", str(offset)]]
    *table, told = rows(capsys, *reset, "--topic", "t:0")
    assert (table, told[0].split(":")[0]) == (shown, "nothing was changed")
    assert Admin(url).list_group_offsets("g")[T0].offset == 6
    assert rows(capsys, *reset, "--all-topics", "--dry-run")[:-1] == shown
    assert Admin(url).list_group_offsets("g")[T0].offset == 6
    assert rows(capsys, *reset, "--all-topics", "--execute") == shown
    assert Admin(url).list_group_offsets("g")[T0].offset == offset


def test_resetting_topics_and_partitions(url, capsys):
    Admin(url).create_topic("u")
    reset = ("reset-offsets", url, "--group", "new", "--topic", "t:0,1", "--topic", "u", "--to-latest")
    assert lines(capsys, *reset, "--execute") == [
        {"group": "new", "topic": topic, "partition": number, "new_offset": offset, "executed": True}
        for topic, number, offset in (("t", 0, 10), ("t", 1, 0), ("u", 0, 0))
    ]
    assert "has no topic 'v'" in fails(
        capsys, "reset-offsets", url, "--group", "g", "--topic", "v", "--to-latest"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("--topic", "t"),
        ("--to-latest",),
        ("--topic", "t", "--all-topics", "--to-latest"),
        ("--topic", "t", "--to-latest", "--to-earliest"),
        ("--topic", "t:x", "--to-latest"),
        ("--topic", "t", "--to-datetime", "yesterday"),
        ("--topic", "t", "--to-latest", "--execute", "--dry-run"),
    ],
    ids=str,
)
def test_wrong_ways_to_reset(url, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["groups", "reset-offsets", url, "--group", "g", *arguments])
    assert stopped.value.code == 2


@pytest.mark.usefixtures("members")
def test_a_group_with_members_is_neither_reset_nor_deleted(url, capsys):
    assert "while it has members (2): stop them, or remove those" in fails(
        capsys, "reset-offsets", url, "--group", "g", "--topic", "t", "--to-latest"
    )
    assert "2 members" in fails(capsys, "delete", url, "--group", "g")
    assert "subscribe to topic 't'" in fails(capsys, "delete-offsets", url, "--group", "g", "--topic", "t")


@pytest.mark.usefixtures("members")
def test_removing_members(url, capsys):
    remove = ("remove-members", url, "--group", "g")
    assert run(capsys, *remove, "--member", "static") == "removed from group g: b\n"
    assert "has no member 'b'" in fails(capsys, *remove, "--member", "a", "--member", "b")
    assert lines(capsys, *remove) == [{"group": "g", "removed": ["a"]}]
    assert run(capsys, *remove) == "removed from group g: none: it had no members\n"


def test_deleting(url, capsys):
    Admin(url).alter_group_offsets("g", {T1: 0})
    forget = ("delete-offsets", url, "--group", "g", "--topic")
    assert run(capsys, *forget, "t:1") == "group g forgot its offsets of t-1\n"
    assert (
        run(capsys, *forget, "t:1")
        == "group g forgot its offsets of nothing: it had committed nothing there\n"
    )
    assert run(capsys, "delete", url, "--group", "g") == "group g was deleted\n"
    assert "knows no group 'g'" in fails(capsys, "delete", url, "--group", "g")
    Admin(url).alter_group_offsets("g", {T0: 0})
    assert lines(capsys, *forget, "t") == [{"group": "g", "deleted": [{"topic": "t", "partition": 0}]}]
    Admin(url).alter_group_offsets("g", {T0: 0})
    assert lines(capsys, "delete", url, "--group", "g") == [{"group": "g", "deleted": True}]
