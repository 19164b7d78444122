"""Ctrl-C in a command that takes long: what it says is not done, and what goes on with it."""

from __future__ import annotations

import signal
from contextlib import suppress

import pytest

import spark_eos.maintenance.copying
from spark_eos import Log
from spark_eos.cli.command import main
from spark_eos.cli.console.interrupts import Interrupted, interruptible
from spark_eos.cli.maintain import stoppable, teller
from spark_eos.cli.progress import Progress
from spark_eos.maintenance.moving.mover import DataMover


def interrupted(*_arguments, **_options):
    raise KeyboardInterrupt


@pytest.mark.parametrize("command", [("copy", "LOG", "PLACE"), ("data", "move", "LOG", "--to", "PLACE")])
def test_what_was_stopped_says_so(log_url, tmp_path, capsys, monkeypatch, command):
    Log.create(log_url)
    monkeypatch.setattr(spark_eos.maintenance.copying, "copy_log", interrupted)
    monkeypatch.setattr(DataMover, "run", interrupted)
    names = {"LOG": log_url, "PLACE": str(tmp_path / "place")}
    with pytest.raises(SystemExit) as ended:
        main([names.get(word, word) for word in command])
    assert ended.value.code == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "eoslog: stopped by SIGINT: it is not done; the same command goes on with it\n"


def test_a_signal_whose_error_went_no_further_ends_the_command_all_the_same():
    """As in a finalizer: Python prints there what was raised, and goes on."""
    with pytest.raises(Interrupted, match="SIGTERM"), interruptible(), suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def signalled(*numbers):
    """A command that gets these signals in the middle of a step, and would go on with the next one."""
    with stoppable() as stop:
        for number in numbers:
            signal.raise_signal(number)
        teller(stop, Progress())("the next step")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_maintenance_ends_between_two_steps(number, capsys):
    with pytest.raises(SystemExit) as ended:
        signalled(number)
    assert ended.value.code == 128 + number
    assert f"stopped by {number.name}" in capsys.readouterr().err


def test_a_second_ctrl_c_ends_maintenance_at_once():
    with pytest.raises(KeyboardInterrupt):
        signalled(signal.SIGINT, signal.SIGINT)
