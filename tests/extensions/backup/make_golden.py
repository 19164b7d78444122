"""Write the golden repository of the current format: ``python -m tests.extensions.backup.make_golden <folder>``.

Run once for each format version, never again for one that has landed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from spark_eos import Admin, Producer
from spark_eos.extensions.backup.backing_up import backup_log

__all__ = ["VALUES", "make"]

VALUES = [b"%d" % number for number in range(5)]
"""Three records are in the first backup, all are in the second one."""


def make(folder: Path) -> None:
    """A log with two backups; of the log itself nothing stays."""
    with tempfile.TemporaryDirectory() as other:
        log = f"{other}/log"
        with Admin(log) as admin, Producer(log) as producer:
            admin.create_topic("orders", 1)
            for value in VALUES[:3]:
                producer.send("orders", value).result(timeout=60)
            backup_log(log, str(folder), name="monday")
            for value in VALUES[3:]:
                producer.send("orders", value).result(timeout=60)
            backup_log(log, str(folder), name="tuesday")
    for empty in ("running", "_tmp", "_probe"):
        shutil.rmtree(folder / empty, ignore_errors=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
