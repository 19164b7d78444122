"""``eoslog maintain``, ``eoslog vacuum`` and ``eoslog delete-records``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos import Admin, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.errors import NotALogError
from spark_eos.log.log import Log
from spark_eos.maintenance.rolling import TAIL_ROWS
from spark_eos.maintenance.steps import STEPS
from spark_eos.protocol.actions import AlterTopic
from verification.retiring import RETIRED_AT_ONCE


def run(capsys, *arguments, code=0):
    assert main(arguments) == code
    return capsys.readouterr()


@pytest.fixture
def log(log_url):
    log = Log.create(log_url, snapshot_interval=5, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    Admin(log).create_topic("t", config={"file.delete.delay.ms": 0})
    with Producer(log) as producer:
        for number in range(10):
            producer.send("t", b"%d" % number)
            producer.flush()
    return log


def left_behind(log):
    """What a writer leaves that dies, and one entry behind it."""
    topic = log.topic("t")
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": [b"x"]}), 0)
        (staged,) = writer.finish()
    log.commit(lambda _: (AlterTopic("t", topic.topic_id),))
    return staged.file


def test_a_pass(log, capsys):
    left_behind(log)
    out = run(capsys, "maintain", log.url, "--min-age", "0").out
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert {*lines} <= {*STEPS}
    assert lines["snapshot"].startswith("stored the state after entry ")
    assert lines["retire"].startswith("retired ")
    assert lines["vacuum"].startswith("deleted 1 data file (")
    again = run(capsys, "maintain", log.url, "--min-age", "0", "--json").out
    told = [json.loads(line) for line in again.splitlines()]
    assert {one["text"] for one in told} == {"nothing to do", "kept"}
    assert not any(one["failed"] for one in told)


def test_chosen_steps(log, capsys):
    out = run(capsys, "maintain", log.url, "--only", "retire,snapshot", "--only", "vacuum").out
    assert [line.split()[0] for line in out.splitlines()] == ["snapshot", "retire", "vacuum"]
    assert "did you mean vacuum?" in run(capsys, "maintain", log.url, "--only", "vacum", code=1).err


def test_a_dry_run(log, capsys):
    file = left_behind(log)
    seq = log.state.seq
    out = run(capsys, "maintain", log.url, "--min-age", "0", "--dry-run").out
    assert "would delete 1 data file" in out
    listed = run(capsys, "vacuum", log.url, "--min-age", "0", "--dry-run").out.splitlines()
    assert listed[0].split() == ["KIND", "NAME", "BYTES"]
    assert listed[1].split() == ["data", file.name, str(file.size)]
    assert listed[2].startswith("1 object, ")
    one = json.loads(run(capsys, "vacuum", log.url, "--min-age", "0", "--dry-run", "--json").out)
    assert one == {"kind": "data", "name": file.name, "bytes": file.size}
    assert log.follow().seq == seq
    assert log.store.size(file.name) == file.size


def test_vacuum(log, capsys):
    file = left_behind(log)
    assert run(capsys, "vacuum", log.url).out == "deleted 0 objects, 0 bytes\n", "writers have a day"
    done = json.loads(run(capsys, "vacuum", log.url, "--min-age", "0", "--json").out)
    assert done == {"objects": {"data": 1}, "bytes": file.size}
    assert run(capsys, "vacuum", log.url, "--min-age", "0", "--dry-run").out.startswith("0 objects")


def test_a_step_that_fails_is_told(log, capsys):
    left_behind(log)
    boundary = log.state.seq // 5 * 5
    (Path(log.url) / "_log" / "snapshots" / f"{boundary:020d}.avro").mkdir(parents=True)
    captured = run(capsys, "maintain", log.url, "--only", "snapshot,vacuum", "--min-age", "0", code=1)
    assert captured.out.splitlines()[0].startswith("snapshot   failed: ")
    assert captured.out.splitlines()[1].startswith("vacuum     deleted 1 ")
    assert captured.err.startswith("eoslog: ")


def test_no_log(log_url, capsys):
    for command in ("maintain", "vacuum"):
        assert "is not a log" in run(capsys, command, log_url, code=1).err


@pytest.mark.parametrize("watch", [False, True])
def test_a_few_new_batches_are_rolled_once_and_not_all_the_time(log, capsys, monkeypatch, watch):
    with Producer(log) as producer:
        for number in range(TAIL_ROWS):
            producer.send("t", b"%d" % number)
            producer.flush()
    ends = NotALogError("a pass is enough")
    monkeypatch.setattr("spark_eos.cli.maintain.sleep", lambda *_: (_ for _ in ()).throw(ends))
    more = ("--watch", "60") if watch else ()
    out = run(capsys, "maintain", log.url, "--only", "roll", *more, code=int(watch)).out
    assert out == f"roll       {'nothing to do' if watch else 'rewrote 1 stretch'}\n"


@pytest.mark.deep("SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_watching_until_it_is_stopped(log, number):
    process = subprocess.Popen(
        [sys.executable, "-m", "spark_eos", "maintain", log.url, "--watch", "0.1", "--only", "snapshot"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(number)
        _, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert lines[0].startswith("snapshot   stored the state")
    assert lines[2] == "snapshot   nothing to do\n"
    assert f"stopped by {number.name}" in err
    assert process.returncode == 128 + number


def test_stopped_between_two_passes(log):
    process = subprocess.Popen(
        [sys.executable, "-m", "spark_eos", "maintain", log.url, "--watch", "3600", "--only", "snapshot"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert "stopped by SIGTERM" in err


@pytest.mark.deep
def test_stopped_while_it_waits_for_readers(log):
    Admin(log).alter_topic("t", config={"file.delete.delay.ms": 600_000})
    file = left_behind(log)
    process = subprocess.Popen(
        [sys.executable, "-m", "spark_eos", "vacuum", log.url, "--min-age", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while log.follow().staging_floor == 0:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert "stopped by SIGTERM" in err
    assert log.store.size(file.name) == file.size


def test_progress(log, capsys, monkeypatch):
    assert run(capsys, "maintain", log.url, "--only", "vacuum").err == "", "short work is not talked about"
    monkeypatch.setattr("spark_eos.cli.progress._LINE_S", 0.0)
    assert "looking for data files without a reference\n" in run(capsys, "vacuum", log.url).err


def test_wrong_seconds(log, capsys):
    for text in ("-1", "inf", "x"):
        with pytest.raises(SystemExit) as stopped:
            main(["maintain", log.url, "--watch", text])
        assert stopped.value.code == 2
    capsys.readouterr()


# -- delete-records --------------------------------------------------------------------------------------


def test_delete_records(log, capsys, tmp_path):
    out = run(capsys, "delete-records", log.url, "--to", "t:0=3").out.splitlines()
    assert [line.split() for line in out] == [["TOPIC", "PARTITION", "START"], ["t", "0", "3"]]
    path = tmp_path / "offsets.json"
    path.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 5}], "version": 1}')
    out = run(capsys, "delete-records", log.url, "--offset-json-file", str(path), "--json").out
    assert json.loads(out) == {"topic": "t", "partition": 0, "start": 5}
    run(capsys, "delete-records", log.url, "--to", "t:0=-1")
    assert Admin(log).describe_topic("t").partitions[0].start == 10
    assert TopicPartition("t", 0)


@pytest.mark.parametrize("text", ["t", "t:0", "t=5", ":0=5", "t:x=5", "t:0=x", "t:0=-2", "t:-1=5"])
def test_delete_records_of_no_place(log, text, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["delete-records", log.url, "--to", text])
    assert stopped.value.code == 2
    assert "TOPIC:PARTITION=OFFSET" in capsys.readouterr().err


def test_delete_records_that_cannot_be(log, capsys, tmp_path):
    assert "10" in run(capsys, "delete-records", log.url, "--to", "t:0=11", code=1).err
    assert "'u'" in run(capsys, "delete-records", log.url, "--to", "u:0=1", code=1).err
    assert "--to" in run(capsys, "delete-records", log.url, code=1).err
    path = tmp_path / "offsets.json"
    place = '{"topic": "t", "partition": 0, "offset": %s}'
    parts = [place % "5.9", place % "true", place % '"5"', '{"topic": "t"}']
    for text in ("{", "{}", "[]", "[" * 100_000, *(f'{{"partitions": [{part}]}}' for part in parts)):
        path.write_text(text)
        assert (
            str(path) in run(capsys, "delete-records", log.url, "--offset-json-file", str(path), code=1).err
        )
    path.write_text(f'{{"partitions": [{place % 4}]}}')
    for arguments in (("t:0=3", "t:0=5"), ("t:0=3", "--offset-json-file", str(path))):
        with pytest.raises(SystemExit):
            main(["delete-records", log.url, "--to", *arguments])
        assert "t-0 is named twice" in capsys.readouterr().err
    assert Admin(log).describe_topic("t").partitions[0].start == 0
