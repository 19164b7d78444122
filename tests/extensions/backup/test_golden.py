"""Repositories of earlier versions are read: each was written by the code of its day."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_eos import read_arrow
from spark_eos.errors import ConfigError
from spark_eos.extensions.backup.backing_up import backup_log
from spark_eos.extensions.backup.deleting import delete_backups
from spark_eos.extensions.backup.listing import list_backups
from spark_eos.extensions.backup.restoring import restore_log
from spark_eos.extensions.backup.verifying import verify_backups
from tests.extensions.backup.make_golden import VALUES

VERSIONS = sorted((Path(__file__).parent / "golden").iterdir())


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def repository(request, tmp_path):
    return str(shutil.copytree(request.param, tmp_path / "repository"))


def values(url):
    return read_arrow(str(url), "orders", columns=["value"]).read_all()["value"].to_pylist()


def test_what_is_there(repository):
    assert [one.name for one in list_backups(repository)] == ["monday", "tuesday"]
    found = []
    done = verify_backups(repository, found.append)
    assert (len(done.whole), done.damaged, found) == (2, (), [])


def test_both_are_restored(repository, tmp_path):
    for name, count in (("monday", 3), ("tuesday", 5)):
        restore_log(repository, str(tmp_path / name), backup=name)
        assert values(tmp_path / name) == VALUES[:count]


def test_the_repository_goes_on(repository, tmp_path):
    """A backup of this version beside the earlier ones, without their files; then one of them is deleted."""
    restore_log(repository, str(tmp_path / "log"))
    with pytest.raises(ConfigError, match="has a backup named 'monday' already"):
        backup_log(str(tmp_path / "log"), repository, name="monday")
    new = backup_log(str(tmp_path / "log"), repository, name="today")
    assert new.new_bytes == 0
    delete_backups(repository, ["monday", "tuesday"])
    restore_log(repository, str(tmp_path / "again"))
    assert values(tmp_path / "again") == VALUES
