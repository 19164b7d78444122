"""jobs/maintain.py: `eoslog maintain` with the settings of the jobs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from maintain import main

from spark_eos.log.log import Log
from spark_eos.log.snapshots.snapshots import newest_snapshot
from verification.retiring import RETIRED_AT_ONCE

JOB = Path(__file__).parent.parent.parent / "jobs" / "maintain.py"


@pytest.fixture
def settings(tmp_path, log_url):
    """A settings file, and a log that has something to do."""
    log = Log.create(log_url, snapshot_interval=2, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    for name in "abcdef":
        log.ensure_topic(name)
    path = tmp_path / "jobs.ini"
    path.write_text(f"[DEFAULT]\nlog = {log_url}\ntrigger = available-now\n[maintain]\nonly = snapshot\n")
    return path


def test_a_pass_over_the_log_of_the_settings(settings, log_url, capsys):
    assert main(["--settings", str(settings), "--dry-run"]) == 0
    assert capsys.readouterr().out == "snapshot   would store the state after entry 6\n"
    done = subprocess.run(
        [sys.executable, str(JOB), "--settings", str(settings)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "snapshot   stored the state after entry 6\n")
    assert newest_snapshot(Log.open(log_url).store).seq == 6


def test_the_command_line_goes_before_the_file(settings, capsys, tmp_path):
    assert main(["--settings", str(settings), "--only", "retire"]) == 0
    assert capsys.readouterr().out.startswith("retire ")
    assert main(["--settings", str(settings), "--log", str(tmp_path / "none")]) == 1
    assert "is not a log" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[maintain]\n", "log is missing"),
        ("[maintain]\nlog = x\nevery = 3\n", "unknown setting 'every'"),
        ("log = x\n", "no section headers"),
    ],
)
def test_settings_that_are_wrong(tmp_path, capsys, text, said):
    path = tmp_path / "jobs.ini"
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["--settings", str(path)])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_there(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--settings", str(tmp_path / "none.ini")])
    assert "there is no settings file" in capsys.readouterr().err


def test_the_settings_of_the_project(capsys, tmp_path):
    assert main(["--log", str(tmp_path / "none")]) == 1
    assert "is not a log" in capsys.readouterr().err
