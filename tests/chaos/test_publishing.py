"""A short slice of the campaign of publishers; `scripts/publish-chaos` does the same for as long as one likes."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.extensions.tables.world import World
from verification.processes import running
from verification.publishing.checks import Checks


@pytest.mark.deep
def test_a_slice(tmp_path):
    """Publishers, writers and maintenance are killed four times; every version is compared with the log."""
    command = [sys.executable, "-m", "verification.publishing", "--kills", "4"]
    with running(command, tmp_path / "publishing.out", TMPDIR=str(tmp_path)) as campaign:
        said = campaign.succeed(timeout=1200)
    print(said)  # noqa: T201  (the seed)
    assert re.match(r"seed \d+\n", said)
    assert said.endswith("every version is what the log was\n")
    (count,) = re.findall(r"^ *([\d,]+) versions of events compared$", said, re.MULTILINE)
    assert int(count.replace(",", "")) > 0


# -- A file of a version is missing ------------------------------------------------------------------


@pytest.fixture
def world(tmp_path):
    """Two versions of a table; the first has the rows that the second has not."""
    world = World(tmp_path / "log")
    world.tables.create("p", ["events"])
    world.write(topics=["events"])
    world.tables.publish("p")
    world.write(topics=["events"])
    world.tables.publish("p")
    return world


def missing(world, version, retention_s, *, vacuumed=False):
    """What the checks say if the files of a version are deleted after VACUUM has been looked at."""
    (table,) = world.tables.list_tables()
    event = threading.Event()
    checks = Checks(world.log, {"p": ("events",)}, retention_s, event)
    for file in DeltaTable(table.location, version=version).file_uris():
        Path(file.removeprefix("file://")).unlink(missing_ok=True)
    if vacuumed:
        event.set()
    checks.look()
    return checks


def test_a_version_within_its_retention_must_be_there(world):
    assert "version 0 of events" in "".join(missing(world, 0, 3600).problems)


def test_an_earlier_version_past_its_retention_may_be_gone(world):
    checks = missing(world, 0, 0)
    assert checks.counts["versions past the retention"] == 1


def test_an_earlier_version_may_be_gone_after_a_vacuum_of_delta(world):
    checks = missing(world, 0, 3600, vacuumed=True)
    assert checks.counts["versions that Delta's VACUUM was faster to"] == 1


@pytest.mark.parametrize(("retention_s", "vacuumed"), [(0, False), (3600, True)])
def test_the_newest_version_must_be_there(world, retention_s, vacuumed):
    assert "version 1 of events" in "".join(missing(world, 1, retention_s, vacuumed=vacuumed).problems)
