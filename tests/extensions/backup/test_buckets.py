"""Backups of a log in a bucket, into a bucket, on a real server."""

from __future__ import annotations

import uuid

from spark_eos.extensions.backup.backing_up import backup_log
from spark_eos.extensions.backup.deleting import delete_backups
from spark_eos.extensions.backup.restoring import restore_log
from spark_eos.extensions.backup.verifying import verify_backups
from spark_eos.log.log import Log
from spark_eos.storage import Settings
from tests.maintenance.world import append, values
from verification.retiring import RETIRED_AT_ONCE


def test_a_log_in_a_bucket_is_backed_up_into_a_bucket_and_restored(minio_server):
    place, settings = f"{minio_server.url}/{uuid.uuid4().hex}", Settings(dict(minio_server.settings))
    log = Log.create(f"{place}/log", settings=settings, snapshot_interval=5, config=RETIRED_AT_ONCE)
    log.ensure_topic("t")
    both = {"settings": settings, "repository_settings": settings}
    append(log, *range(7))
    backup_log(f"{place}/log", f"{place}/backups", name="one", **both)
    append(log, *range(7, 14))
    second = backup_log(f"{place}/log", f"{place}/backups", name="two", **both)
    assert second.new_bytes < second.bytes
    for name, count in (("one", 7), ("two", 14)):
        restore_log(f"{place}/backups", f"{place}/{name}", backup=name, **both)
        assert values(Log.open(f"{place}/{name}", settings=settings)) == [*range(count)]
    # Which files of the first one the second one needs is a matter of when snapshots were stored.
    (deleted,) = delete_backups(f"{place}/backups", ["one"], settings=settings).deleted
    assert deleted.name == "one"
    assert verify_backups(f"{place}/backups", print, settings=settings).whole == ("two",)
    assert delete_backups(f"{place}/backups", ["two"], settings=settings).files > 0
