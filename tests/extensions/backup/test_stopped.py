"""Ctrl-C in a command of backups: what it says of them."""

from __future__ import annotations

import pytest

from spark_eos.cli.command import main
from spark_eos.extensions.backup import backing_up, deleting, restoring, verifying


def interrupted(*_arguments, **_options):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("module", "name", "command", "text"),
    [
        (
            backing_up,
            "backup_log",
            ("backup", "LOG", "PLACE"),
            "a backup is whole or not there; run the same command again",
        ),
        (
            restoring,
            "restore_log",
            ("restore", "PLACE", "LOG"),
            "it is not done; the same command goes on with it",
        ),
        (
            deleting,
            "delete_backups",
            ("backups", "delete", "PLACE", "one"),
            "not all that could be freed is; run eoslog backups vacuum",
        ),
        (
            deleting,
            "vacuum_backups",
            ("backups", "vacuum", "PLACE"),
            "not all that could be freed is; run eoslog backups vacuum",
        ),
        (verifying, "verify_backups", ("backups", "verify", "PLACE"), "the rest was not compared"),
    ],
)
def test_what_was_stopped_says_so(tmp_path, capsys, monkeypatch, module, name, command, text):
    monkeypatch.setattr(module, name, interrupted)
    names = {"LOG": str(tmp_path / "log"), "PLACE": str(tmp_path / "place")}
    with pytest.raises(SystemExit) as ended:
        main([names.get(word, word) for word in command])
    assert ended.value.code == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"eoslog: stopped by SIGINT: {text}\n"
