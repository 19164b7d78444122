"""``eoslog backup``, ``restore`` and ``backups``: their options, exit codes, and what they say."""

from __future__ import annotations

import pytest

from spark_eos import Log
from spark_eos.cli.command import main
from spark_eos.extensions.backup.listing import list_backups
from spark_eos.extensions.backup.repository import Repository
from spark_eos.protocol.rules.notes import BACKUP, noted_ms
from spark_eos.storage import open_store


def test_the_commands_do_what_they_are_asked_for(tmp_path, capsys):
    log = Log.create(str(tmp_path / "log"))
    repository, back = str(tmp_path / "repository"), str(tmp_path / "back")
    assert main(["backup", log.url, repository, "--name", "monday"]) == 0
    log.ensure_topic("t")
    assert main(["backup", log.url, repository, "--name", "tuesday", "--note"]) == 0
    monday, tuesday = list_backups(repository)
    assert (monday.name, tuesday.name, tuesday.last) == ("monday", "tuesday", 1)
    assert noted_ms(log.follow(), BACKUP) is not None

    with pytest.raises(SystemExit):
        main(["restore", repository, back, "--repository-config", str(tmp_path / "none")])
    assert "Invalid value for '--repository-config'" in capsys.readouterr().err
    assert main(["restore", repository, back, "--to-entry", "0"]) == 0
    assert Log.open(back).state.seq == 0

    store = open_store(repository)
    opened = Repository.open(store)
    store.delete(opened.load(tuesday.id).packs[-1].file.object_name)
    assert main(["backups", "verify", repository, "monday"]) == 0
    assert main(["backups", "verify", repository]) == 1
    assert "whole: 1, damaged: 1" in capsys.readouterr().out

    opened.begin("wednesday", log.clock)
    assert main(["backups", "vacuum", repository]) == 0
    assert "nothing is freed, since backups are under way: 1" in capsys.readouterr().out
    assert main(["backups", "vacuum", repository, "--give-up", "0"]) == 0
    assert "wednesday had died, and is given up" in capsys.readouterr().out
