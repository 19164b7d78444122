"""``eoslog topics`` and ``describe``, ``configs`` of topics, ``get-offsets``, ``--version``."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pyarrow as pa
import pytest

import spark_eos
from spark_eos import Admin, Producer, TopicPartition
from spark_eos.cli.command import main


@pytest.fixture
def run(capsys):
    def run(*arguments, code=0):
        assert main([*arguments]) == code
        shown = capsys.readouterr()
        return shown.err if code else shown.out

    return run


def test_create(log_url, run):
    columns = ("id bigint NOT NULL", "tags array<string>", "`a``.b` decimal(10,2)", "s struct<x: int>")
    options = [part for column in columns for part in ("--column", column)]
    shown = run("topics", "create", log_url, "t", "--partitions", "3", "--config", "retention.ms=5", *options)
    assert "  id: int64 not null\n  tags: list<element: string>\n  a`.b: decimal128(10, 2)\n" in shown
    topic = Admin(log_url).describe_topic("t")
    assert (len(topic.partitions), topic.config) == (3, {"retention.ms": "5"})
    assert (
        run("topics", "create", log_url, "t", code=1) == "eoslog: topic 't' is there already [TOPIC_EXISTS]\n"
    )
    assert (
        json.loads(run("topics", "create", log_url, "t", "--if-not-exists", "--json"))["topic_id"]
        == topic.topic_id
    )


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["bad/name"], 1, "bad/name"),
        (["t", "--partitions", "0"], 2, "--partitions"),
        (["t", "--config", "retention.mss=5"], 1, "did you mean retention.ms"),
        (["t", "--column", "id"], 2, "is not NAME TYPE"),
        (["t", "--column", "a.b int"], 2, "in backticks"),
        (["t", "--column", "id nothing"], 1, "'nothing' is no type of a column"),
        (["t", "--column", "_offset int"], 1, "_offset"),
    ],
)
def test_create_refuses(log_url, capsys, arguments, code, told):
    if code == 2:
        with pytest.raises(SystemExit):
            main(["topics", "create", log_url, *arguments])
    else:
        assert main(["topics", "create", log_url, *arguments]) == code
    assert told in capsys.readouterr().err
    assert not Path(log_url).exists() or Admin(log_url).list_topics() == []


def test_delete(log_url, run):
    for name in ("a", "b", "c"):
        Admin(log_url).create_topic(name)
    assert "no topic 'x'" in run("topics", "delete", log_url, "a", "x", code=1)
    assert Admin(log_url).list_topics() == ["a", "b", "c"]
    assert run("topics", "delete", log_url, "a", "x", "a", "--if-exists") == "topic a was deleted\n"
    assert json.loads(run("topics", "delete", log_url, "b", "--json")) == {"topic": "b", "deleted": True}
    producer = Producer(log_url, {"transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("c", b"x")
    producer.flush()
    run("topics", "delete", log_url, "c")
    producer.abort_transaction()
    assert Admin(log_url).list_topics() == []
    assert run("topics", "delete", f"{log_url}-none", "c", "--if-exists") == ""


@pytest.fixture
def three(log_url):
    admin = Admin(log_url)
    admin.create_topic("orders", 2, {"retention.ms": 5})
    admin.create_topic("orders.dead", 1)
    admin.create_topic("bills", 1, schema=pa.schema([("id", pa.int64())]))
    return log_url


def described(run, *arguments):
    return [json.loads(line)["topic"] for line in run(*arguments, "--json").splitlines()]


def test_the_list_has_the_same_numbers_as_a_table_and_as_json(three, run):
    with Producer(three) as producer:
        for _ in range(3):
            producer.send("orders", b"x")
    rows = [line.split() for line in run("topics", "list", three).splitlines()[1:]]
    parts = [json.loads(line) for line in run("topics", "list", three, "--json").splitlines()]
    assert rows == [[one["topic"], str(one["partitions"]), str(one["offsets"])] for one in parts]
    assert ["orders", "2", "3"] in rows


def test_list_and_describe_with_kafkas_filters(three, run):
    assert described(run, "topics", "list", three, "--topic", "orders.*") == ["orders", "orders.dead"]
    assert described(run, "describe", three) == ["bills", "orders", "orders.dead"]
    assert described(run, "topics", "describe", three, "orders.dead", "b.*") == ["bills", "orders.dead"]
    assert described(run, "describe", three, "--topics-with-overrides") == ["orders"]
    number = Admin(three).describe_topic("bills").topic_id
    assert described(run, "describe", three, "--topic-id", number) == ["bills"]
    assert "no topic has the id 7" in run("describe", three, "--topic-id", "7", code=1)
    assert "did you mean 'orders'" in run("describe", three, "order", code=1)
    assert described(run, "describe", three, "order", "bills", "--if-exists") == ["bills"]
    Admin(three).create_topic("orders-dead")
    assert described(run, "describe", three, "orders.dead") == ["orders.dead"]


def test_configs_of_topics(three, run):
    lines = run(
        "configs", three, "--entity-type", "topics", "--entity-name", "orders", "--describe"
    ).splitlines()
    assert ["retention.ms", "5", "604800000"] in [line.split() for line in lines]
    kafkas = ("--alter", "--entity-type", "topics", "--entity-name", "orders")
    added = "retention.bytes=7,cleanup.policy=[compact,delete]"
    run("configs", three, *kafkas, "--add-config", added, "--delete-config", "retention.ms")
    assert Admin(three).describe_topic("orders").config == {
        "cleanup.policy": "compact,delete",
        "retention.bytes": "7",
    }
    run("configs", three, "--topic", "orders", "--alter", "retention.bytes=", "cleanup.policy=")
    assert json.loads(run("configs", three, "--topic", "orders", "--json")) == {
        "topic": "orders",
        "config": {},
    }
    shown = run("configs", three, "--entity-type", "topics")
    assert [line for line in shown.splitlines() if line.startswith("topic ")] == [
        "topic bills",
        "topic orders",
        "topic orders.dead",
    ]


def test_configs_from_a_file_and_of_the_log(three, run, tmp_path):
    file = tmp_path / "settings"
    file.write_text("# keep\nretention.ms=9\n")
    run("configs", three, "--topic", "bills", "--add-config-file", str(file))
    assert Admin(three).describe_topic("bills").config == {"retention.ms": "9"}
    run(
        "configs", three, "--topic", "bills", "--add-config-file", str(file), "--add-config", "retention.ms=8"
    )
    assert Admin(three).describe_topic("bills").config == {"retention.ms": "8"}, "as in Kafka, not the file's"
    run(
        "configs", three, "--entity-type", "brokers", "--alter", "--add-config", "offsets.retention.minutes=3"
    )
    assert Admin(three).describe_log().config["offsets.retention.minutes"] == "3"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--entity-name", "orders"], "'--entity-name': it needs --entity-type topics"),
        (["--entity-type", "topics", "--alter", "a=b"], "name the topic whose settings change"),
        (["--entity-type", "users"], "'users' is not one of"),
        (["--topic", "t", "--add-config", "a=1", "--delete-config", "a"], "setting a is named twice"),
        (["--topic", "t", "--alter", "a=1", "a=2"], "setting a is named twice"),
        (["--describe", "--alter", "a=1"], "it cannot be used with --describe"),
    ],
)
def test_wrong_usage_of_configs(three, capsys, arguments, told):
    with pytest.raises(SystemExit) as stopped:
        main(["configs", three, *arguments])
    assert stopped.value.code == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_get_offsets(three, run):
    with Producer(three) as producer:
        for at in (1000, 3000, 2000, 3000):
            producer.send("orders", b"x", partition=0, timestamp_ms=at)
        producer.flush()
        producer.send("orders", b"x", partition=0, timestamp_ms=500)
    assert run("get-offsets", three) == "bills:0:0\norders:0:5\norders:1:0\norders.dead:0:0\n"

    def offsets(time, *more):
        return run("get-offsets", three, "--topic", "orders", "--partitions", "0", "--time", time, *more)

    assert offsets("earliest") == offsets("-2") == offsets("-4") == "orders:0:0\n"
    assert offsets("-1") == offsets("latest") == "orders:0:5\n"
    assert offsets("-3") == offsets("max-timestamp") == "orders:0:1\n"
    assert offsets("1500") == offsets("1970-01-01T00:00:01.500") == "orders:0:1\n"
    assert offsets("3001") == offsets("-5") == offsets("latest-tiered") == "orders:0:\n"
    assert json.loads(offsets("3001", "--json")) == {"topic": "orders", "partition": 0, "offset": None}
    some = run("get-offsets", three, "--topic-partitions", "orders:1-,bil.*:0,orders.dead:-1")
    assert some == "bills:0:0\norders:1:0\norders.dead:0:0\n"
    assert run("get-offsets", three, "--topic-partitions", ":-1,orders:0-1").count(":0:") == 3
    assert "no partition matches; its topics are bills, " in run("get-offsets", three, "--topic", "x", code=1)
    for number in range(20):
        Admin(three).create_topic(f"t{number:02}")
    assert ", t16, … (23 in all)" in run("get-offsets", three, "--topic", "x", code=1)


def test_the_newest_record_with_control_batches(log_url, run):
    """Control batches have times, too, and later ones."""
    producer = Producer(log_url, {"transactional.id": "x"})
    producer.init_transactions()
    Admin(log_url).create_topic("t")
    for at in (5_000, 9_000, 7_000):
        producer.begin_transaction()
        producer.send("t", b"x", timestamp_ms=at)
        producer.commit_transaction()
    assert run("get-offsets", log_url, "--time", "-3") == "t:0:2\n"
    producer.begin_transaction()
    for topic in ("t", "u"):
        producer.send(topic, b"open", timestamp_ms=20_000)
    producer.flush()
    for time in ("-3", "15000"):
        assert run("get-offsets", log_url, "--time", time) == "t:0:6\nu:0:0\n", (
            "as Kafka, that of an open transaction, too"
        )
    producer.abort_transaction()


def test_the_newest_record_that_is_left(log_url, run):
    """The index has the largest timestamp of a whole batch, also where the batch has lost its beginning."""
    Admin(log_url).create_topic("t")
    with Producer(log_url) as producer:
        for at in (9_000, 1_000, 5_000, 7_000, 7_000, 2_000):
            producer.send("t", b"x", timestamp_ms=at)
    assert run("get-offsets", log_url, "--time", "-3") == "t:0:0\n"
    for start, newest in ((1, "3"), (4, "4"), (5, "5"), (6, "")):
        Admin(log_url).delete_records({TopicPartition("t", 0): start})
        assert run("get-offsets", log_url, "--time", "-3") == f"t:0:{newest}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--time", "soon"],
        ["--time", "-7"],
        ["--partitions", "x"],
        ["--topic-partitions", "t:x"],
        ["--topic", "("],
    ],
)
def test_wrong_usage_of_get_offsets(log_url, capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["get-offsets", log_url, *arguments])
    assert stopped.value.code == 2
    assert f"Invalid value for '{arguments[0]}'" in capsys.readouterr().err  # fmt: skip


def test_version(run):
    first, second, third = run("--version").splitlines()
    assert first == f"eoslog {spark_eos.__version__}"
    assert second.startswith(f"Python {platform.python_version()}, pyarrow {pa.__version__}, fastavro ")
    assert (
        third == "formats written: entries 1, snapshots 1, index pages 1, rules 1; all earlier ones are read"
    )
