"""``eoslog``: what it prints, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import ModuleType

import pyarrow as pa
import pytest

from spark_eos import Admin, Producer, cli
from spark_eos.cli.command import main


@pytest.fixture
def url(log_url):
    Admin(log_url).create_topic("typed", 2, {"retention.ms": 5}, pa.schema([("id", pa.int64())]))
    producer = Producer(log_url, {"transactional.id": "app"})
    producer.init_transactions()
    for commit in (True, False):
        producer.begin_transaction()
        producer.send("t", b"x")
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
    return log_url


def run(capsys, *arguments):
    assert main(arguments) == 0
    return capsys.readouterr().out


def lines(capsys, *arguments):
    return [json.loads(line) for line in run(capsys, *arguments, "--json").splitlines()]


def test_topics(url, capsys):
    assert run(capsys, "topics", url).split() == [
        *("TOPIC", "PARTITIONS", "OFFSETS"),
        *("t", "1", "4"),
        *("typed", "2", "0"),
    ]
    assert [line["topic"] for line in lines(capsys, "topics", url)] == ["t", "typed"]


def test_describe(url, capsys):
    text = run(capsys, "describe", url, "typed")
    assert "retention.ms=5" in text
    assert "id: int64" in text
    (described,) = lines(capsys, "describe", url, "t")
    assert described["partitions"] == [{"partition": 0, "start": 0, "end": 4, "lso": 4}]
    assert described["columns"] is None


def test_dump_shows_entries_and_control_batches(url, capsys):
    text = run(capsys, "dump", url)
    assert "t-0 offset 1: COMMIT batch of producer 0 epoch 0 transaction 0" in text
    assert "t-0 offset 3: ABORT batch of producer 0 epoch 0 transaction 1" in text
    assert "CreateLog" in text
    dumped = lines(capsys, "dump", url)
    assert [(line["type"], line["offset"]) for line in dumped if line["kind"] == "control"] == [
        ("COMMIT", 1),
        ("ABORT", 3),
    ]
    appends = [line["fields"] for line in dumped if line.get("action") == "AppendBatches"]
    assert [
        batch["count"] for fields in appends for file in fields["files"] for batch in file["batches"]
    ] == [1, 1]
    assert all(line["error"] is None for line in dumped if line["kind"] == "request")
    last = max(line["seq"] for line in dumped)
    assert {line["seq"] for line in lines(capsys, "dump", url, "--from", str(last))} == {last}


@pytest.mark.parametrize("command", [["topics"], ["dump"], ["describe", "t"]])
def test_errors_are_told_in_one_line(command, tmp_path, capsys):
    name, *rest = command
    assert main([name, str(tmp_path / "none"), *rest]) == 1
    error = capsys.readouterr().err
    assert error.startswith("eoslog: ")
    assert "is not a log" in error
    assert error.count("\n") == 1


def test_an_unknown_topic(url, capsys):
    assert main(["describe", url, "typd"]) == 1
    assert "did you mean 'typed'" in capsys.readouterr().err


def test_wrong_arguments():
    with pytest.raises(SystemExit) as stopped:
        main(["nonsense"])
    assert stopped.value.code == 2


def test_the_module_is_the_command(url):
    done = subprocess.run(
        [sys.executable, "-m", "spark_eos", "topics", url], capture_output=True, text=True, check=True
    )
    assert "typed" in done.stdout


def test_names_that_the_encoding_of_the_output_has_not(url):
    Admin(url).alter_group_offsets("Größe 日本", {("t", 0): 0})
    done = subprocess.run(
        [sys.executable, "-m", "spark_eos", "groups", "list", url],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert "Größe \\u65e5\\u672c".encode("latin-1") in done.stdout


def test_ctrl_c_while_the_commands_are_loaded(monkeypatch):
    class Loading(ModuleType):
        def __getattr__(self, _name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "spark_eos.cli.command", Loading("loading"))
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 130


def test_ctrl_c_before_the_command_begins(capsys, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("spark_eos.cli.command._built", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == ""
