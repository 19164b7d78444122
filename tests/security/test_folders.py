"""A log in a folder: what users of other ids can do, by the bits of its folders. Needs to be root, to become others."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.starting import run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

OWNER, WRITER, READER, STRANGER = 64_001, 64_002, 64_003, 65_534
WRITERS, READERS = 64_101, 64_102


def as_user(url: Path, uid: int, *groups: int, steps: list[str], umask: int = 0o022) -> None:
    """Let another user do these steps."""
    run("security/another_user", url, uid, ",".join(map(str, groups)), f"{umask:o}", *steps)


@pytest.fixture
def folder():
    """A folder for a log that is set up as the guide says: of the owner, for the group of the writers."""
    above = Path(tempfile.mkdtemp())
    above.chmod(0o755)
    log = above / "log"
    log.mkdir()
    os.chown(log, OWNER, WRITERS)
    log.chmod(0o2775)
    yield log
    shutil.rmtree(above)


def files(folder: Path) -> dict[Path, bytes]:
    """All files but those of the store itself."""
    return {
        path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.parent.name != "_tmp"
    }


@pytest.mark.deep
def test_readers_and_writers_by_groups(folder):
    """``chmod 2775``, ``umask 002``: the group writes, all others read."""
    as_user(folder, OWNER, WRITERS, steps=["make"], umask=0o002)
    before = files(folder)
    as_user(folder, STRANGER, steps=["read", "is_refused_to_write"])
    assert files(folder) == before
    as_user(folder, WRITER, WRITERS, steps=["write:12"], umask=0o002)
    # And the owner goes on with what another one has made.
    as_user(folder, OWNER, WRITERS, steps=["write:24"], umask=0o002)


@pytest.mark.deep
def test_a_log_that_others_do_not_see(folder):
    """``chmod 2770``, ``umask 007``: nothing for those outside of the group."""
    folder.chmod(0o2770)
    as_user(folder, OWNER, WRITERS, steps=["make"], umask=0o007)
    assert not [path for path in folder.rglob("*") if path.stat().st_mode & 0o007]
    as_user(folder, STRANGER, steps=["is_refused_all"], umask=0o007)
    as_user(folder, WRITER, WRITERS, steps=["write:12"], umask=0o007)


@pytest.mark.deep
def test_the_usual_umask_keeps_the_group_out(folder):
    """``umask 022``: what one user makes, the group reads and does not change."""
    as_user(folder, OWNER, WRITERS, steps=["make"])
    before = files(folder)
    as_user(folder, WRITER, WRITERS, steps=["read", "is_refused_to_write"])
    assert files(folder) == before


@pytest.mark.deep
def test_rows_of_a_topic_that_others_do_not_read(folder):
    """The folder of a topic without rights for others: its rows are unreadable, the chain and other topics are not."""
    as_user(folder, OWNER, WRITERS, steps=["make", "make_an_open_topic"], umask=0o002)
    (hidden,) = (folder / "data").glob("t-*")
    hidden.chmod(0o2770)
    as_user(folder, STRANGER, steps=["is_refused_the_rows_of_one_topic"])
