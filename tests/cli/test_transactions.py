"""``eoslog transactions``: Kafka's tool for transactions, its columns, and JSON."""

from __future__ import annotations

import json

import pytest

from spark_eos import Admin, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.errors import ProducerFencedError
from spark_eos.log.log import Log
from spark_eos.protocol.actions import CommitOffsets, PartitionOffset
from spark_eos.protocol.types import ProducerStamp
from tests.cli.console import Listing
from tests.log.fakes import FakeClock
from tests.needing import needs

_SHOWN = Listing("transactions")
run, rows, lines, fails = _SHOWN.run, _SHOWN.rows, _SHOWN.lines, _SHOWN.fails


def begin(url, transactional_id, partition=0):
    producer = Producer(url, {"transactional.id": transactional_id, "transaction.timeout.ms": 60_000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"x", partition=partition, timestamp_ms=1234)
    producer.flush()
    return producer


@pytest.fixture
def log(log_url, timeless_folders):  # noqa: ARG001  (it has to come first)
    """A log of 1970, so that what is open in it is open for long; ``done`` has committed."""
    log = Log.create(log_url, clock=FakeClock())
    Admin(log).create_topic("t", 2)
    begin(log, "done").commit_transaction()
    return log


@pytest.fixture
def url(log):
    return log.url.removeprefix("file://")


@pytest.fixture
def app(log):
    return begin(log, "app", partition=1)


@pytest.fixture
def young(log_url):
    """A log with a transaction that has only begun."""
    Admin(log_url).create_topic("t", 2)
    begin(log_url, "app")
    return log_url


@pytest.mark.usefixtures("app")
def test_listing(url, capsys):
    header = ["TransactionalId", "ProducerId", "TransactionState"]
    app, done = ["app", "1", "Ongoing"], ["done", "0", "CompleteCommit"]
    assert rows(capsys, "list", url) == [header, app, done]
    assert rows(capsys, "list", url, "--state", "Ongoing") == [header, app]
    assert rows(capsys, "list", url, "--state", "Ongoing,CompleteCommit") == [header, app, done]
    assert rows(capsys, "list", url, "--state", "Ongoing", "--state", "CompleteCommit") == [header, app, done]
    assert rows(capsys, "list", "--producer-id", "0", url) == [header, done]
    assert rows(capsys, "list", url, "--transactional-id-pattern", "d.*") == [header, done]
    assert rows(capsys, "list", url, "--duration-filter", "3000000") == [header, app]
    listed, _ = lines(capsys, "list", url)
    assert (listed["transactional_id"], listed["state"]) == ("app", "Ongoing")
    assert (listed["partitions"], listed["duration_ms"] >= 0) == ([{"topic": "t", "partition": 1}], True)


def test_what_has_only_begun_neither_passes_the_filter_nor_hangs(young, capsys):
    assert len(rows(capsys, "list", young)) == 2
    assert len(rows(capsys, "list", young, "--duration-filter", "3000000")) == 1
    assert rows(capsys, "find-hanging", young, "--max-transaction-timeout", "0") == [HANGING]


def test_describing(url, log, app, capsys):
    offset = PartitionOffset("t", log.topic("t").topic_id, 0, 5)
    log.commit(lambda _state: (CommitOffsets("g", (offset,), ProducerStamp(1, 0, 0)),))
    header, row = rows(capsys, "describe", url, "--transactional-id", "app")
    assert header == [
        *("TransactionalId", "ProducerId", "ProducerEpoch", "TransactionNumber", "TransactionState"),
        *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs"),
        *("TopicPartitions", "PendingGroupOffsets"),
    ]
    described = Admin(url).describe_transaction("app")
    assert row[:6] == ["app", "1", "0", "0", "Ongoing", "60000"]
    assert row[6] == str(described.started_ms)
    assert row[7].isdecimal()
    assert row[8:] == ["t-1", "g:t-0"]
    (line,) = lines(capsys, "describe", url, "--transactional-id", "app")
    assert line["pending_offsets"] == {"g": [{"topic": "t", "partition": 0, "offset": 5, "metadata": ""}]}
    assert (line["number"], line["timeout_ms"], line["epoch"]) == (0, 60_000, 0)
    app.commit_transaction()
    _, row = rows(capsys, "describe", url, "--transactional-id", "app")
    assert row[4:] == ["CompleteCommit", "60000", "-", "-", "-", "-"]
    assert "'nobody'" in fails(capsys, "describe", url, "--transactional-id", "nobody")


@pytest.mark.usefixtures("app")
def test_describing_producers(url, capsys):
    assert rows(capsys, "describe-producers", url, "--topic", "t", "--partition", "1") == [
        ["ProducerId", "ProducerEpoch", "LastSequence", "LastTimestamp", "CurrentTransactionStartOffset"],
        ["1", "0", "0", "1234", "0"],
    ]
    (line,) = lines(capsys, "describe-producers", url, "--topic", "t", "--partition", "0")
    assert (line["topic"], line["partition"], line["producer_id"], line["transaction_start"]) == (
        "t",
        0,
        0,
        None,
    )


HANGING = [
    *("Topic", "Partition", "TransactionalId", "ProducerId", "ProducerEpoch"),
    *("StartOffset", "LastTimestamp", "Duration(min)"),
]


@pytest.mark.usefixtures("app")
def test_finding_what_hangs(url, capsys):
    header, row = rows(capsys, "find-hanging", url)
    assert header == HANGING
    assert row[:7] == ["t", "1", "app", "1", "0", "0", "1000000"]
    assert int(row[7]) > 50 * 365 * 24 * 60
    assert [each[:3] for each in rows(capsys, "find-hanging", url, "--topic", "t", "--partition", "1")] == [
        HANGING[:3],
        row[:3],
    ]
    assert rows(capsys, "find-hanging", url, "--topic", "t", "--partition", "0") == [HANGING]
    assert rows(capsys, "find-hanging", url, "--max-transaction-timeout", str(10**9)) == [HANGING]
    (line,) = lines(capsys, "find-hanging", url)
    assert line["start_offsets"] == [{"topic": "t", "partition": 1, "start_offset": 0}]
    assert "--max-transaction-timeout" in fails(
        capsys, "find-hanging", url, "--max-transaction-timeout", "-1"
    )


def test_a_transaction_that_only_groups_wait_for_hangs_as_well(url, log, capsys):
    Producer(log, {"transactional.id": "waits"}).init_transactions()
    offset = PartitionOffset("t", log.topic("t").topic_id, 0, 5)
    log.commit(lambda _state: (CommitOffsets("g", (offset,), ProducerStamp(1, 0, 0)),))
    _, row = rows(capsys, "find-hanging", url)
    assert row[:6] == ["-", "-", "waits", "1", "0", "-"]
    assert [line["start_offsets"] for line in lines(capsys, "find-hanging", url)] == [[]]


AT = ("--topic", "t", "--partition", "1")


@pytest.mark.parametrize(
    "named",
    [
        ("--transactional-id", "app"),
        (*AT, "--start-offset", "0"),
        (*AT, "--producer-id", "1", "--producer-epoch", "0"),
    ],
)
def test_aborting(url, app, capsys, named):
    assert run(capsys, "abort", url, *named) == (
        "transactional.id app (producer 1, now at epoch 1): transaction 0 is CompleteAbort\n"
    )
    with pytest.raises(ProducerFencedError):
        app.commit_transaction()
    assert Admin(url).describe_topic("t").partitions[1].lso == 2


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize(
    ("named", "told"),
    [
        ((), "name the transaction"),
        (("--topic", "t", "--start-offset", "0"), "name the transaction"),
        (("--transactional-id", "app", *AT), "name the transaction"),
        (("--transactional-id", "app", "--start-offset", "0"), "name the transaction"),
        (AT, "by its start_offset"),
        ((*AT, "--start-offset", "7"), "no open transaction at offset 7 in t-1; open there: offset 0"),
        (
            (*AT, "--producer-id", "1", "--producer-epoch", "5"),
            "no open transaction of producer 1 at epoch 5",
        ),
        (("--transactional-id", "done"), "no open transaction"),
    ],
)
def test_an_abort_that_names_no_open_transaction_changes_nothing(url, capsys, named, told):
    before = Log.open(url).state.seq
    assert told in fails(capsys, "abort", url, *named)
    assert Log.open(url).state.seq == before


def test_terminating_by_force(url, app, capsys):
    force = ("force-terminate", url, "--transactional-id")
    assert run(capsys, *force, "app") == (
        "transactional.id app (producer 1, now at epoch 1): fenced; last transaction 0 is CompleteAbort\n"
    )
    (line,) = lines(capsys, *force, "done")
    assert (line["transactional_id"], line["epoch"], line["state"]) == ("done", 1, "CompleteCommit")
    with pytest.raises(ProducerFencedError):
        app.commit_transaction()
    Admin(url).fence_producers(["new"])
    assert run(capsys, *force, "new").endswith("now at epoch 1): fenced; last transaction none\n")


@pytest.mark.usefixtures("app")
def test_json_of_an_abort(url, capsys):
    (line,) = lines(capsys, "abort", url, "--transactional-id", "app")
    assert (line["state"], line["epoch"], line["partitions"], line["duration_ms"]) == (
        "CompleteAbort",
        1,
        [],
        None,
    )
    assert Admin(url).describe_producers("t", 1)[0].transaction_start is None


@pytest.mark.parametrize(
    "arguments", [(), ("nonsense",), ("describe", "x"), ("list", "x", "--producer-id", "one")], ids=str
)
def test_wrong_arguments(arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["transactions", *arguments])
    assert stopped.value.code == 2


def test_commits_of_the_tools_are_by_admin(url, capsys):
    run(capsys, "force-terminate", url, "--transactional-id", "done")
    assert main(["dump", url, "--from", str(Log.open(url).state.seq)]) == 0
    assert "by admin: accepted" in capsys.readouterr().out
    assert TopicPartition("t", 0) not in Admin(url).describe_transaction("done").partitions


def test_a_prepared_transaction(url, capsys):
    settings = {"transactional.id": "till", "transaction.two.phase.commit.enable": True}
    producer = Producer(url, settings)
    producer.init_transactions(keep_prepared_transaction=True)
    producer.begin_transaction()
    producer.send("t", b"x", partition=1)
    token = producer.prepare_transaction()
    listed = rows(capsys, "list", url, "--state", "Prepared")
    assert listed == [["TransactionalId", "ProducerId", "TransactionState"], ["till", "1", "Prepared"]]
    header, row = rows(capsys, "describe", url, "--transactional-id", "till")
    described = dict(zip(header, row, strict=True))
    assert (described["TransactionState"], described["PreparedTxnState"]) == ("Prepared", str(token))
    assert "force-terminate" in fails(capsys, "abort", url, "--transactional-id", "till")
    assert "force-terminate" in fails(capsys, "abort", url, *AT, "--start-offset", "0")
    assert rows(capsys, "find-hanging", url, "--max-transaction-timeout", "0")[1:] == []
    assert run(capsys, "force-terminate", url, "--transactional-id", "till") == (
        "transactional.id till (producer 1, now at epoch 2): fenced; last transaction 0 is CompleteAbort\n"
    )


@needs("several_logs")
def test_a_transaction_that_another_log_decides(url, tmp_path, capsys):
    from spark_eos import MultiLogProducer

    orders = Producer(tmp_path / "orders", {"transactional.id": "shop"})
    payments = Producer(url, {"transactional.id": "shop"})
    group = MultiLogProducer(orders, payments)
    group.init_transactions()
    group.begin_transaction()
    orders.send("orders", b"x")
    payments.send("t", b"x", partition=1)
    group._members[0].commit = list  # It does not come to the decision, nor to the end.
    group._members[1].follow = lambda *_, **__: None
    group.commit_transaction()
    header, row = rows(capsys, "describe", url, "--transactional-id", "shop")
    assert dict(zip(header, row, strict=True))["DecidedBy"].startswith("transaction 0 of producer 0 in log")
    header, row = rows(capsys, "describe", str(tmp_path / "orders"), "--transactional-id", "shop")
    assert dict(zip(header, row, strict=True))["AwaitedLogs"] == Log.open(url).url
    header, row = rows(capsys, "resolve", url)
    assert (header, row[0]) == (["TransactionalId", "WaitingFor"], "shop")
    assert "is open: its end decides" in row[1]
    (tmp_path / "orders").rename(tmp_path / "moved")
    told = run(capsys, "resolve", url, "--json")
    assert "cannot be asked" in json.loads(told)["waiting_for"]
    Admin(tmp_path / "moved").abort_transaction("shop")
    assert rows(capsys, "resolve", url, "--decider", str(tmp_path / "moved")) == [
        ["TransactionalId", "WaitingFor"]
    ]
    assert Admin(url).describe_transaction("shop").state == "CompleteAbort"
