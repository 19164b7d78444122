"""What keeps an Iceberg table quick to open: few manifests, and no versions that nothing promises any more.

pyiceberg takes expired snapshots out of the metadata, and leaves their files. Manifests that only such snapshots have
are deleted here, and, in a table of copies, data files. Never one of the log's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

MIN_EXPIRED = 20
"""So many versions are forgotten at once: each time costs a commit."""

MERGED = "data"
"""The folder of the files that were made by merging rows."""

MAX_MANIFESTS = 100
"""More than these are merged: each is read to plan a read of the table."""


class Cleanup:
    """Work on a table as it was loaded; ``chain`` has its snapshots, the newest first.

    ``prefix`` is how the addresses of all files begin that may be deleted; None: no data file may.
    """

    def __init__(self, table: Any, chain: list[Any], prefix: str | None, retention_ms: int) -> None:
        self._table = table
        self._chain = chain
        self._prefix = prefix
        self._retention_ms = retention_ms

    def run(self, now_ms: int) -> None:
        """Do what is due. Raises pyiceberg's errors if another process commits meanwhile; nothing is lost then."""
        head = self._chain[0]
        if len(head.manifests(self._table.io)) > MAX_MANIFESTS:
            self._merge_manifests()
        protected = {ref.snapshot_id for ref in self._table.metadata.refs.values()}
        expired = [
            old
            for old, newer in zip(self._chain[1:], self._chain, strict=False)
            if newer.timestamp_ms + self._retention_ms <= now_ms and old.snapshot_id not in protected
        ]
        if len(expired) >= MIN_EXPIRED:
            self._expire(expired)

    def _merge_manifests(self) -> None:
        """A snapshot of the same files, whose manifests are merged by the properties of the table."""
        transaction = self._table.transaction()
        transaction.update_snapshot().merge_append().commit()
        self._table = transaction.commit_transaction()

    def _expire(self, expired: list[Any]) -> None:
        table = self._table
        expired_ids = {snapshot.snapshot_id for snapshot in expired}
        table.maintenance.expire_snapshots().by_ids(sorted(expired_ids)).commit()
        table = table.refresh()
        manifests = {
            manifest.manifest_path: manifest
            for snapshot in expired
            for manifest in snapshot.manifests(table.io)
        }
        # A manifest that a later snapshot shares with an expired one is in the oldest remaining snapshot, too.
        first = next(
            number for number, snapshot in enumerate(self._chain) if snapshot.snapshot_id in expired_ids
        )
        # Data files may be in the newest one again: those of settings that were changed, and back.
        later = self._chain[1 : max(first - 1, 1)]
        later_ids = {snapshot.snapshot_id for snapshot in later}
        remaining = [
            snapshot
            for snapshot in table.metadata.snapshots
            if snapshot.snapshot_id not in expired_ids | later_ids
        ]
        live = {
            manifest.manifest_path: manifest
            for snapshot in remaining
            for manifest in snapshot.manifests(table.io)
        }
        dead = [manifest for path, manifest in manifests.items() if path not in live]
        files = [] if self._prefix is None else self._data_files(dead, list(live.values()), later)
        for path in (
            *files,
            *(manifest.manifest_path for manifest in dead),
            *(snapshot.manifest_list for snapshot in expired),
        ):
            with suppress(OSError):
                table.io.delete(path)

    def _data_files(
        self, dead_manifests: list[Any], live_manifests: list[Any], later: list[Any]
    ) -> list[str]:
        """The data files that only dead manifests name, and none of the ``later`` snapshots."""

        def live(manifests: list[Any]) -> set[str]:
            return {
                entry.data_file.file_path
                for manifest in manifests
                for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)
            }

        dead = live(dead_manifests) - live(live_manifests)
        # What was merged has a name of its own. Copies come again in a version of new files alone.
        if any(not path.startswith(f"{self._prefix}{MERGED}/") for path in dead):
            for snapshot in filter(_has_only_new_files, later):
                dead -= live(snapshot.manifests(self._table.io))
        return sorted(path for path in dead if path.startswith(str(self._prefix)))


def _has_only_new_files(snapshot: Any) -> bool:
    counts = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return bool(counts.get("added-data-files") == counts.get("total-data-files"))
