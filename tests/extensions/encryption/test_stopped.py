"""Ctrl-C while files are written again with another key: it ends between two steps, and says so."""

from __future__ import annotations

import signal

import pytest

from spark_eos import Log
from spark_eos.cli.command import main
from spark_eos.extensions.encryption import rotation
from spark_eos.maintenance.rolling import Rolled


class Interrupted:
    """Three steps, and Ctrl-C in the second."""

    def __init__(self, *_arguments) -> None:
        pass

    def run(self, progress=lambda _step: None):
        for number in range(3):
            if number == 1:
                signal.raise_signal(signal.SIGINT)
            progress(Rolled("t", 0, 0, 1, 1, *[1] * (len(Rolled._fields) - 5)))
        return []


def test_a_rotation_that_was_stopped_says_so(log_url, capsys, monkeypatch):
    Log.create(log_url)
    monkeypatch.setattr(rotation, "KeyRotator", Interrupted)
    with pytest.raises(SystemExit) as ended:
        main(("encryption", "rotate", log_url))
    assert ended.value.code == 130
    assert capsys.readouterr().err == "eoslog: stopped by SIGINT; nothing is left half done\n"
