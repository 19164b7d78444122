"""``eoslog lag``: the worst first, filtered, as JSON; and that looking never writes."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.cli.operate.text import age_text, rate_text, size_text
from spark_eos.protocol.actions import CreatePublication, JoinGroup, SyncGroup
from spark_eos.storage import PosixStore
from tests import starting
from tests.cli.console import Listing
from tests.expiration import no_expiration
from tests.monitoring.micro_batches import micro_batch
from tests.needing import needs

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
_SHOWN = Listing("lag")
run, rows, lines = _SHOWN.run, _SHOWN.rows, _SHOWN.lines


def written(url, settings=None):
    """t-0 has ten records of 1970; ``slow`` has read two of them, ``quick`` all, and ``hourly`` publishes none."""
    admin = Admin(url, settings)
    admin.create_topic("t", 2)
    admin.create_topic("u", 1)
    with Producer(url, settings) as producer:
        for number in range(10):
            producer.send("t", b"x", partition=0, timestamp_ms=number * 1000).result()
    admin.alter_group_offsets("quick", {T0: 10})
    admin.alter_group_offsets("slow", {T0: 2, T1: 0})
    return url


@pytest.fixture
def url(log_url):
    return written(log_url)


HEADER = [
    *(
        "KIND",
        "NAME",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "RECORDS",
        "BYTES",
        "BEHIND",
    ),
]


def test_the_worst_comes_first(url, capsys):
    header, *found = rows(capsys, url)
    assert header == HEADER
    assert [row[:8] for row in found] == [
        ["group", "slow", "t", "0", "2", "10", "8", "8"],
        ["group", "quick", "t", "0", "10", "10", "0", "0"],
        ["group", "slow", "t", "1", "0", "0", "0", "0"],
    ]
    assert re.fullmatch(r"\d+ d( \d+ h)?", found[0][9])
    assert found[1][8:] == ["0", "0"]


def test_totals_and_filters(url, capsys):
    log = Log.open(url)
    topics = (("t", log.state.topics["t"].topic_id),)
    log.commit(lambda _: (CreatePublication("hourly", "delta", (), topics),))
    header, *found = rows(capsys, url, "--totals")
    assert header == ["KIND", "NAME", "PARTITIONS", "LAG", "RECORDS", "BYTES", "BEHIND"]
    assert [row[:5] for row in found] == [
        ["publication", "hourly", "2", "10", "10"],
        ["group", "slow", "2", "8", "8"],
        ["group", "quick", "1", "0", "0"],
    ]
    assert [row[1] for row in rows(capsys, url, "--group", "quick", "--group", "hourly")[1:]] == [
        *("hourly", "quick", "hourly"),
    ]
    assert {row[2] for row in rows(capsys, url, "--topic", "t", "--topic", "u")[1:]} == {"t"}
    assert "no group, Spark query or publication reads topic 'u'" in run(capsys, url, "--topic", "u")
    assert main(["lag", url, "--group", "quick", "--topic", "u"]) == 1, "the topic of another group"
    assert "'quick': nothing of topic 'u' is read by that" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["copy", "readers"], ids=["by its id", "by its group"])
def test_a_query_is_found(url, capsys, name):
    micro_batch(Log.open(url), "t", 4, group="readers")
    assert [row[:7] for row in rows(capsys, url, "--group", name)[1:]] == [
        ["query", "copy", "t", "0", "4", "10", "6"]
    ]


def test_what_is_not_known_is_not_0(url, capsys):
    """A group reads t-0 and has committed nothing."""
    log = Log.open(url)
    log.commit(lambda _: (JoinGroup("new", "a", ("t",), ("range",), 45_000, None, "app"),))
    log.commit(lambda _: (SyncGroup("new", "a", 1),))
    header, *found = rows(capsys, url, "--totals", "--group", "new")
    assert header == ["KIND", "NAME", "PARTITIONS", "LAG", "RECORDS", "BYTES", "BEHIND", "UNKNOWN"]
    assert found == [["group", "new", "2", "-", "-", "-", "-", "1"]]
    assert [row[1] for row in rows(capsys, url, "--totals")[1:]] == ["slow", "quick", "new"]


def test_json(url, capsys):
    worst = lines(capsys, url, "--exact")[0]
    assert worst.pop("time_ms") > 10**12
    assert worst.pop("bytes") > 0
    assert worst == {
        "kind": "group",
        "name": "slow",
        "group": "slow",
        "topic": "t",
        "partition": 0,
        "committed": 2,
        "start": 0,
        "last_stable_offset": 10,
        "end": 10,
        "offsets": 8,
        "records": 8,
        "lost": 0,
        "is_exact": True,
        "held_back": 0,
    }
    total = lines(capsys, url, "--totals")[0]
    assert (total["name"], total["partitions"], total["unknown"], total["records"]) == ("slow", 2, 0, 8)


def test_what_is_held_back_and_what_is_lost(url, capsys):
    Admin(url).delete_records({T0: 5})
    producer = Producer(url, {"transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"x", partition=0)
    producer.flush()
    header, *found = rows(capsys, url)
    assert header == [*HEADER, "HELD-BACK", "LOST"]
    assert [row[6:8] + row[10:] for row in found] == [
        ["8", "5", "1", "3"],
        ["0", "0", "1", "0"],
        ["0", "0", "0", "0"],
    ]
    producer.abort_transaction()
    producer.close()


def test_names_that_could_steer_a_terminal(url, capsys):
    Admin(url).alter_group_offsets("a\n\x1b[31mb ü", {T0: 3})
    assert rows(capsys, url)[2][1] == r"a\n\x1b[31mb ü"
    assert lines(capsys, url)[1]["name"] == "a\n\x1b[31mb ü"


def test_unknown_names_and_logs(url, capsys, tmp_path):
    assert main(["lag", url, "--group", "slo"]) == 1
    assert "no group, query or publication 'slo'" in capsys.readouterr().err
    assert main(["lag", url, "--topic", "v"]) == 1
    assert "no topic 'v'" in capsys.readouterr().err
    assert main(["lag", str(tmp_path / "other")]) == 1
    assert "is not a log" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_an_empty_log(log_url, capsys):
    Log.create(log_url)
    assert "nothing reads this log" in run(capsys, log_url)
    assert lines(capsys, log_url) == []


def test_a_log_in_a_bucket(minio_server, capsys, tmp_path):
    url = written(f"{minio_server.url}/tests/lag", minio_server.settings)
    config = tmp_path / "store.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in minio_server.settings.items()))
    found = lines(capsys, url, "--exact", "--command-config", str(config))
    assert [(one["name"], one["partition"], one["records"]) for one in found] == [
        ("slow", 0, 8),
        ("quick", 0, 0),
        ("slow", 1, 0),
    ]


# -- Looking never writes ---------------------------------------------------------------------------

LOOKS = [
    ["lag"], ["lag", "--totals", "--exact", "--json"],
    pytest.param(["top", "--json", "--count", "2", "--interval", "0.1"], marks=needs("ui")),
    ["groups", "describe", "--all-groups"], ["groups", "list", "--state", "empty"],
    ["groups", "reset-offsets", "--group", "slow", "--all-topics", "--to-latest", "--dry-run"],
]  # fmt: skip


def files(folder):
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(Path(folder).rglob("*"))
    }


@pytest.fixture
def overdue_url(url):
    """With a transaction that is past its timeout: a reader that waits for it would abort it."""
    producer = Producer(url, {"transactional.id": "x", "transaction.timeout.ms": 1})
    producer.init_transactions()
    producer.begin_transaction()
    with no_expiration():
        producer.send("t", b"x", partition=0)
        producer.flush()
    yield url
    producer.close()


@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
def test_looking_changes_nothing(look, overdue_url, capsys, monkeypatch):
    before = files(overdue_url)
    for name in ("create", "upload", "delete", "overwrite", "retire"):
        monkeypatch.setattr(PosixStore, name, lambda _, what, *_more: pytest.fail(f"{what} was written"))
    command, *rest = look
    nouns = [rest.pop(0)] if command == "groups" else []
    assert main([command, *nouns, overdue_url, *rest]) == 0
    assert capsys.readouterr().out
    assert files(overdue_url) == before


@pytest.mark.deep
@pytest.mark.parametrize("look", LOOKS[1:3], ids=" ".join)
def test_looking_at_a_folder_that_is_read_only(look, overdue_url):
    with tempfile.TemporaryDirectory() as parent:  # Unlike tmp_path, it is where other users can reach it.
        folder = Path(parent, "log")
        shutil.copytree(overdue_url, folder)
        Path(parent).chmod(0o755)
        folders = [path for path in [folder, *folder.rglob("*")] if path.is_dir()]
        for path in folders:
            path.chmod(0o555)
        before = files(folder)
        try:
            done = starting.run("cli/looks_without_rights", look[0], folder, *look[1:])
            assert files(folder) == before
        finally:
            for path in folders:
                path.chmod(0o755)
    assert done.stderr == ""
    _, shown = done.stdout.split("=== read-only ===")
    assert "slow" in shown


# -- How figures are shown --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [(None, "-"), (0, "0"), (1, "1 ms"), (999, "999 ms"), (1000, "1.0 s"), (59_999, "59.9 s"), (60_000, "1 min"),
     (303_000, "5 min 3 s"), (3_600_000, "1 h"), (7_500_000, "2 h 5 min"), (86_400_000, "1 d"),
     (273_600_000, "3 d 4 h")],
)  # fmt: skip
def test_times(time_ms, text):
    assert age_text(time_ms) == text


@pytest.mark.parametrize(
    ("per_s", "text"),
    [(0, "0"), (0.04, "0"), (0.3, "0.3"), (9.94, "9.9"), (9.96, "10"), (999.4, "999"), (999.6, "1.0 k"),
     (12_345, "12.3 k"), (123_456, "123 k"), (5e6, "5.0 M"), (2e12, "2.0 T")],
)  # fmt: skip
def test_rates(per_s, text):
    assert rate_text(per_s) == text


def test_sizes():
    assert [size_text(size) for size in (None, 0, 312, 3_400_000)] == ["-", "0", "312 bytes", "3.4 MB"]
