"""A log in a folder: what users of other ids can do, by the bits of its folders. Needs to be root, to become others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

OWNER, WRITER, READER, STRANGER = 64_001, 64_002, 64_003, 65_534
WRITERS, READERS = 64_101, 64_102

PROLOGUE = """
import os, sys
from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.clients.arrow_reader import read_arrow
from spark_eos.errors import StorePermissionError
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.storage import MemoryStore, PosixStore
from tests.security.roles import EARLIEST, maintain, transact, values
from verification.retiring import RETIRED_AT_ONCE

# What is imported late is imported now: other users cannot read this one's Python.
warm = Log.create(MemoryStore())
Admin(warm).create_topic("t", 2, config={"file.delete.delay.ms": 0, "segment.format": "parquet"})
for number in range(4):
    with Producer(warm) as producer:
        producer.send("t", b"1", partition=0)
list(Maintainer(warm, min_age_s=0, tail_rows=2).run())
values(warm, {})
read_arrow(warm, "t").read_all()

url, uid, gid, groups, umask = sys.argv[1], *(int(one) for one in sys.argv[2:4]), sys.argv[4], int(sys.argv[5], 8)
os.setgroups([int(one) for one in groups.split(",") if one])
os.setgid(gid)
os.setuid(uid)
os.umask(umask)

def refused(what, *names):
    try:
        what()
    except Exception as error:
        assert "StorePermissionError" in repr(error) or isinstance(error, StorePermissionError), repr(error)
        assert url in str(error), error
        assert "Give this process's user" in str(error), error
    else:
        raise AssertionError("it was not refused")

def produce():
    with Producer(url) as producer:
        producer.send("t", b"no", partition=0).result()
"""


def run(program: str, url: Path, uid: int, *groups: int, umask: int = 0o022) -> None:
    """Run ``program`` as another user."""
    done = subprocess.run(
        [
            *(sys.executable, "-c", textwrap.dedent(PROLOGUE) + textwrap.dedent(program)),
            *(str(url), str(uid), str(uid), ",".join(map(str, groups)), f"{umask:o}"),
        ],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


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


MAKE = """
    log = Log.create(url, snapshot_interval=5, config=RETIRED_AT_ONCE)
    Admin(url).create_topic("t", 2, config={"file.delete.delay.ms": 0, "segment.format": "parquet"})
    transact(url, {}, 12)
    log.follow()
    log.maintenance.snapshot()
    log.maintenance.retire(log.state, 3)
"""

READ = """
    assert len(values(url, {})) == 12
    assert read_arrow(Log.open(url), "t").read_all().num_rows == 12
    assert Admin(url).list_topics() == ["t"]
"""

REFUSED = """
    refused(produce)
    refused(lambda: Admin(url).create_topic("u", 1))
    refused(lambda: Admin(url).delete_records({TopicPartition("t", 0): 1}))
    refused(lambda: Log.open(url).store.delete("_log/00000000000000000001.avro"))
    for step in ("roll", "vacuum"):
        (done,) = maintain(url, {}, step)
        assert isinstance(done.error, StorePermissionError), done
"""

WRITE = """
    own = {"auto.maintenance.enable": False}  # All of it is left to `maintain`.
    transact(url, own, 12, first=12)
    with Consumer(url, {**own, **EARLIEST, "group.id": f"g{uid}"}) as consumer:
        consumer.subscribe(["t"])
        found = 0
        while found < 24:
            found += len(consumer.poll(timeout_ms=1000))
        consumer.commit()
    done = list(maintain(url, {}))
    assert not [one for one in done if one.error], done
    assert "rewrote" in str(done) and "retired" in str(done) and "deleted" in str(done), done
    assert len(values(url, {})) == 24
"""


def files(folder: Path) -> dict[Path, bytes]:
    """All files but those of the store itself."""
    return {
        path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.parent.name != "_tmp"
    }


@pytest.mark.deep
def test_readers_and_writers_by_groups(folder):
    """``chmod 2775``, ``umask 002``: the group writes, all others read."""
    run(MAKE, folder, OWNER, WRITERS, umask=0o002)
    before = files(folder)
    run(READ + REFUSED, folder, STRANGER)
    assert files(folder) == before
    run(WRITE, folder, WRITER, WRITERS, umask=0o002)
    # And the owner goes on with what another one has made.
    run(
        WRITE.replace("12, first=12", "12, first=24").replace("24", "36"), folder, OWNER, WRITERS, umask=0o002
    )


@pytest.mark.deep
def test_a_log_that_others_do_not_see(folder):
    """``chmod 2770``, ``umask 007``: nothing for those outside of the group."""
    folder.chmod(0o2770)
    run(MAKE, folder, OWNER, WRITERS, umask=0o007)
    assert not [path for path in folder.rglob("*") if path.stat().st_mode & 0o007]
    run("refused(lambda: Log.open(url))\nrefused(produce)", folder, STRANGER, umask=0o007)
    run(WRITE, folder, WRITER, WRITERS, umask=0o007)


@pytest.mark.deep
def test_the_usual_umask_keeps_the_group_out(folder):
    """``umask 022``: what one user makes, the group reads and does not change."""
    run(MAKE, folder, OWNER, WRITERS)
    before = files(folder)
    run(READ + REFUSED, folder, WRITER, WRITERS)
    assert files(folder) == before


@pytest.mark.deep
def test_rows_of_a_topic_that_others_do_not_read(folder):
    """The folder of a topic without rights for others: its rows are unreadable, the chain and other topics are not."""
    run(MAKE + '    Admin(url).create_topic("open", 1)\n    with Producer(url) as producer:\n'
        '        producer.send("open", b"1")\n', folder, OWNER, WRITERS, umask=0o002)  # fmt: skip
    (hidden,) = (folder / "data").glob("t-*")
    hidden.chmod(0o2770)
    run(
        """
        assert values(url, {}, "open", 1) == [b"1"]
        assert Admin(url).describe_topic("t").partitions[0].end > 0
        refused(lambda: values(url, {}))
        """,
        folder,
        STRANGER,
    )
