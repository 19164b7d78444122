"""Backups of logs: several in one repository, incremental, and restored to an entry or a time.

A repository is a folder or a prefix of a bucket with the backups of one log (docs/guide/backup.md).
"""

from __future__ import annotations

from spark_eos.backup.backing_up import backup_log
from spark_eos.backup.deleting import Freed, delete_backups, vacuum_backups
from spark_eos.backup.listing import list_backups
from spark_eos.backup.manifest import Backup
from spark_eos.backup.restoring import Restored, restore_log
from spark_eos.backup.verifying import Verified, verify_backups

__all__ = [
    "Backup",
    "Freed",
    "Restored",
    "Verified",
    "backup_log",
    "delete_backups",
    "list_backups",
    "restore_log",
    "vacuum_backups",
    "verify_backups",
]
