"""``eoslog history`` and ``eoslog diff``: what they print."""

from __future__ import annotations

import json

import pytest

from spark_eos import Admin, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.clients.records import ConsumerGroupMetadata
from spark_eos.log.log import Log
from spark_eos.log.time_travel import iso
from verification.retiring import RETIRED_AT_ONCE


@pytest.fixture
def log(log_url):
    """Entries 0: the log, 1: the producer, 2: topic t, 3: COMMIT, 4: ABORT, 5: topic u, 6: COMMIT."""
    log = Log.create(log_url, snapshot_interval=5, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    producer = Producer(log_url, {"transactional.id": "app"})
    producer.init_transactions()
    for topic, commit in (("t", True), ("t", False), ("u", True)):
        producer.begin_transaction()
        producer.send(topic, b"x")
        producer.send(topic, b"y")
        if topic == "u":
            producer.send_offsets_to_transaction({TopicPartition("t", 0): 3}, ConsumerGroupMetadata("g"))
        if not commit:
            producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
    log.follow()
    return log


def run(capsys, *arguments):
    assert main(arguments) == 0
    return capsys.readouterr().out


def lines(capsys, *arguments):
    return [json.loads(line) for line in run(capsys, *arguments, "--json").splitlines()]


def entries(capsys, *arguments):
    return [line["entry"] for line in lines(capsys, "history", *arguments)]


def test_history(log, capsys):
    found = lines(capsys, "history", log.url)
    assert [(one["outcome"], one["records"], one["number"], one["transactional_id"]) for one in found] == [
        ("COMMIT", {"t": 2}, 0, "app"),
        ("ABORT", {"t": 2}, 1, "app"),
        ("COMMIT", {"u": 2}, 2, "app"),
    ]
    place = {"topic": "t", "partition": 0, "first": 3, "last": 4, "records": 2}
    assert found[1]["offsets"] == [{**place, "topic_id": log.topic("t").topic_id}]
    assert found[2]["groups"] == {"g": {"t-0": 3}}


def test_history_as_a_table(log, capsys):
    out = run(capsys, "history", log.url).splitlines()
    last = log.state
    assert out[0].split() == [
        *(
            "ENTRY",
            "TIME",
            "WRITER",
            "PRODUCER",
            "EPOCH",
            "NUMBER",
            "TRANSACTIONAL-ID",
            "QUERY",
            "BATCH",
            "OUTCOME",
        ),
        *("RECORDS", "OFFSETS", "GROUPS"),
    ]
    assert out[-1].split() == [
        *(
            f"{last.seq}",
            iso(last.timestamp_ms),
            out[-1].split()[2],
            "0",
            "0",
            "2",
            "app",
            "-",
            "-",
            "COMMIT",
        ),
        *("u:2", "u-0:0-1", "g(t-0:3)"),
    ]
    with Producer(log.url) as producer:
        producer.send("t", b"no transaction")
    assert run(capsys, "history", log.url).splitlines()[-1].split()[3:10] == [*"10----", "COMMIT"]


@pytest.mark.parametrize(("at_once", "heads"), [(1, 3), (2, 2), (3, 1)])
def test_a_table_as_long_as_is_printed_at_once_has_no_empty_one_behind_it(
    log, capsys, monkeypatch, at_once, heads
):
    monkeypatch.setattr("spark_eos.cli.history._SHOWN_AT_ONCE", at_once)
    lines = run(capsys, "history", log.url).splitlines()
    assert [line.split()[0] for line in lines].count("ENTRY") == heads
    assert len(lines) == heads + 3


def test_a_part_of_it(log, capsys):
    first, second, third = entries(capsys, log.url)
    assert entries(capsys, log.url, "--topic", "u") == [third]
    assert entries(capsys, log.url, "--since", str(second)) == [second, third]
    assert entries(capsys, log.url, "--until", str(second)) == [first, second]
    times = [iso(one["timestamp_ms"]) for one in lines(capsys, "history", log.url)]
    assert entries(capsys, log.url, "--since", times[2])[-1] == third
    assert entries(capsys, log.url, "--until", times[0])[0] == first
    assert entries(capsys, log.url, "--since", "1970-01-01") == [first, second, third]


def test_where_the_retired_part_begins(log, capsys):
    log.does_maintenance = True
    run(capsys, "verify", log.url, "--repair")
    for seq in range(1, 6):
        log.store.retire(f"_log/{seq:020d}.avro")
    assert main(("history", log.url)) == 0
    out, err = capsys.readouterr()
    assert err.startswith("eoslog: entries up to 5 (")
    assert len(out.splitlines()) == 2
    assert main(("history", log.url, "--since", "7")) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["dump --from", "history --since", "history --until"])
def test_an_entry_that_is_not_there_yet_is_an_error(log, capsys, command):
    """Not an empty list: the log may be another one than it was taken for."""
    newest = log.state.seq
    *words, option = command.split()
    assert main((*words, log.url, option, str(newest))) == 0
    capsys.readouterr()
    assert main((*words, log.url, option, str(newest + 1))) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{log.url} has no entry {newest + 1}: its entries are 0 to {newest}" in err


def test_entries_that_are_retired_are_said_to_be(log, capsys):
    log.does_maintenance = True
    run(capsys, "verify", log.url, "--repair")
    for seq in range(1, 6):
        log.store.retire(f"_log/{seq:020d}.avro")
    assert main(("dump", log.url, "--from", "3")) == 0
    assert capsys.readouterr().err.startswith("eoslog: entries up to 5 (")
    assert main(("dump", log.url, "--from", "7")) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("since", "until"), [("3", "2"), ("2026-01-02", "2026-01-01")])
def test_a_range_that_ends_before_it_begins(log, capsys, since, until):
    with pytest.raises(SystemExit) as stopped:
        main(("history", log.url, "--since", since, "--until", until))
    assert stopped.value.code == 2
    assert f"{since} comes after {until}" in capsys.readouterr().err


def test_no_transaction_since_a_time_is_no_error(log, capsys):
    assert entries(capsys, log.url, "--since", iso(log.state.timestamp_ms + 1)) == []


def test_diff(log, capsys):
    assert run(capsys, "diff", log.url, "1", str(log.state.seq)).splitlines() == [
        f"from entry 1 to entry {log.state.seq}",
        "topic t: created",
        "topic u: created",
        "TOPIC  PARTITION  START   END     LSO     COMMITTED  ABORTED",
        "t      0          - -> 0  - -> 6  - -> 6  2          2",
        "u      0          - -> 0  - -> 3  - -> 3  2          0",
        "GROUP  TOPIC  PARTITION  OFFSET",
        "g      t      0          - -> 3",
        "PRODUCER  TRANSACTIONAL-ID  EPOCH  NUMBER   STATE",
        "0         app               0      -1 -> 2  Empty -> CompleteCommit",
    ]


def test_diff_of_a_topic_as_json(log, capsys):
    found = lines(capsys, "diff", log.url, "3", str(log.state.seq), "--topic", "t")
    assert found == [
        {
            "kind": "partition",
            "topic": "t",
            "partition": 0,
            "before": [0, 3, 3],
            "after": [0, 6, 6],
            "committed": 0,
            "aborted": 2,
        },
        {"kind": "offset", "group": "g", "topic": "t", "partition": 0, "before": None, "after": 3},
    ]
    assert [one["kind"] for one in lines(capsys, "diff", log.url, "1", "3")] == [
        "topic",
        "partition",
        "producer",
    ]


def test_places_that_are_none(log, capsys):
    with pytest.raises(SystemExit):
        main(("diff", log.url, "yesterday", "3"))
    assert "'yesterday' is neither an entry nor a time" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(("history", log.url, "--since", "9" * 5000))
    assert "is neither an entry nor a time" in capsys.readouterr().err
    assert main(("diff", log.url, "3", "1000")) == 1
    assert "has no entry 1000" in capsys.readouterr().err
    assert main(("diff", log.url, "3", "4", "--topic", "nope")) == 1
    assert "no topic 'nope'" in capsys.readouterr().err


def test_a_topic_that_is_deleted_has_its_past(log, capsys):
    Admin(log).delete_topic("u")
    end = log.follow().seq
    assert len(entries(capsys, log.url, "--topic", "u")) == 1
    assert lines(capsys, "diff", log.url, str(end - 1), str(end), "--topic", "u")
    Admin(log).alter_topic("t", 2)
    changed = run(capsys, "diff", log.url, str(end - 1), str(end + 1)).splitlines()
    assert {"topic t: altered", "topic u: deleted"} <= {*changed}
