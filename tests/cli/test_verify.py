"""``eoslog verify``: what it prints, and how it ends."""

from __future__ import annotations

import json

import pytest

from spark_eos import Producer
from spark_eos.cli.command import main
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.maintenance.verify import verify as module
from spark_eos.maintenance.verify.report import Finding, FindingCollector, Verdict
from spark_eos.monitoring.status import status_of
from spark_eos.protocol.rules.notes import VERIFY, is_damaged, noted_ms
from verification.retiring import RETIRED_AT_ONCE


@pytest.fixture
def log(log_url):
    producer = Producer(log_url, {"transactional.id": "app"})
    producer.init_transactions()
    for _ in range(3):
        producer.begin_transaction()
        producer.send("t", b"x")
        producer.commit_transaction()
    return Log.shared(log_url)


def files(log):
    return sorted(info.name for info in log.store.list(paths.DATA))


def test_a_sound_log(log, capsys):
    assert main(("verify", log.url)) == 0
    out, err = capsys.readouterr()
    last = log.follow().seq
    assert out.splitlines() == [
        f"entries: {last + 1} read, 0 retired, up to entry {last}; 0 refused requests in them",
        "snapshots: 0; index pages: 0",
        f"data: 6 batches of 1 partition, 3 records in 3 files of {sum(map(log.store.size, files(log))):,} bytes, read",
        "not referred to: 0 data files of 0 bytes, 0 index pages",
        "wrong: 0, unread: 0, repaired: 0, note: 0",
    ]
    assert err == ""


def test_an_interrupted_check_says_that_it_is_not_whole(log, monkeypatch, capsys):
    """Without a word it looked like one that found nothing."""

    def interrupted(_url, show, **_options):
        show(Finding(Verdict.NOTE, "one", "is there"))
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "verify", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(("verify", log.url, "--note"))
    assert ended.value.code == 130
    out, err = capsys.readouterr()
    assert out == "note: one: is there\n"
    assert err == "eoslog: stopped by SIGINT: the rest of the log was not looked at\n"
    assert noted_ms(log.follow(), VERIFY) is None


def test_findings_and_the_exit_status(log, capsys):
    lost, *_ = files(log)
    log.store.delete(lost)
    assert main(("verify", log.url, "--quick")) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == (
        f"wrong: {lost}: is missing (t-0, offset 0); put the file back from a copy; readers of these offsets fail "
        "until then"
    )
    assert "bytes, present\n" in out
    page = "https://github.com/spark-eos/spark-eos/blob/main/docs/runbooks/damaged-file.md"
    assert err == (
        f"eoslog: {log.url}: 1 thing is wrong, see above; how files are put back: {page} [CORRUPT_RECORD]\n"
    )


def test_a_copy_says_what_to_do_about_what_is_wrong_in_it(log, tmp_path, capsys):
    damaged, *_ = files(log)
    body = bytearray(log.store.read(damaged))
    body[len(body) // 2] ^= 1
    log.store.overwrite(damaged, bytes(body))
    assert main(("copy", log.url, str(tmp_path / "copy"))) == 1
    err = capsys.readouterr().err
    (line,) = [one for one in err.splitlines() if one.startswith(f"wrong: {damaged}: ")]
    assert "; put the file back from a copy" in line


def test_as_json(log, capsys):
    log.store.delete(files(log)[0])
    assert main(("verify", log.url, "--json")) == 1
    finding, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert (finding["verdict"], finding["name"][:5], finding["text"]) == (
        "wrong",
        "data/",
        "is missing (t-0, offset 0)",
    )
    assert (summary["files"], summary["found"]["wrong"], summary["quick"]) == (2, 1, False)


def test_a_repair(log_url, capsys):
    log = Log.create(log_url, snapshot_interval=2, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    log.ensure_topic("t")
    log.ensure_topic("u")
    assert main(("verify", log.url, "--repair")) == 0
    assert capsys.readouterr().out.startswith(f"repaired: {paths.snapshot(2)}: was not there yet\n")
    assert log.store.size(paths.snapshot(2))


def test_a_note_of_what_was_found(log, capsys):
    """Without --note nothing is written, as before."""
    last = log.follow().seq
    assert main(("verify", log.url)) == 0
    assert log.follow().seq == last
    assert noted_ms(log.state, VERIFY) is None
    assert main(("verify", log.url, "--note")) == 0
    assert (noted_ms(log.follow(), VERIFY), is_damaged(log.state)) == (log.state.timestamp_ms, False)
    lost, *_ = files(log)
    data = log.store.read(lost)
    log.store.delete(lost)
    for _ in range(2):
        assert main(("verify", log.url, "--note")) == 1
        assert is_damaged(log.follow())
    assert capsys.readouterr().err.count("[CORRUPT_RECORD]") == 2
    (one,) = [one for one in status_of(log.url).troubles if one.name == "damage"]
    assert one.level == "critical"
    log.store.create(lost, data)
    assert main(("verify", log.url)) == 0
    assert is_damaged(log.follow())  # Nobody has noted it.
    assert main(("verify", log.url, "--note")) == 0
    assert not is_damaged(log.follow())
    assert [one for one in status_of(log.url).troubles if one.name == "damage"] == []


def test_what_was_not_read_is_not_noted_as_verified(log, capsys):
    last = log.follow().seq
    with pytest.raises(SystemExit) as caught:
        main(("verify", log.url, "--note", "--quick"))
    assert caught.value.code == 2
    assert "leave out --quick" in capsys.readouterr().err
    assert log.follow().seq == last


def test_what_could_not_be_read_is_neither_noted_nor_damaged(log, monkeypatch, capsys):
    def check(_url, show, **_options):
        notes = FindingCollector(show)
        notes.unread("data/t/1.arrow", "there is no encryption key 'a'")
        return notes.summary

    monkeypatch.setattr(module, "verify", check)
    last = log.follow().seq
    assert main(("verify", log.url, "--note")) == 1
    out, err = capsys.readouterr()
    assert "unread: data/t/1.arrow: there is no encryption key 'a'; run eoslog verify again" in out
    assert "the result was not noted [STORE_PERMISSION]" in err
    assert log.follow().seq == last


def test_damage_that_leaves_no_way_to_note_it_is_the_error_all_the_same(log, capsys):
    log.store.overwrite(paths.entry(1), b"x")
    assert main(("verify", log.url, "--note")) == 1
    err = capsys.readouterr().err
    assert "not noted in the log: " in err
    assert "how files are put back" in err.splitlines()[-1]


def test_no_log(log_url, capsys):
    assert main(("verify", log_url)) == 1
    assert "is not a log" in capsys.readouterr().err
