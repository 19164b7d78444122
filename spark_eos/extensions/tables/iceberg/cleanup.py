"""What keeps an Iceberg table quick to open: few manifests, and no versions that nothing promises any more.

pyiceberg takes expired snapshots out of the metadata, and leaves their files. Manifests that only such snapshots have
are deleted here, and, in a table of copies, data files. Never one of the log's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

__all__ = ["Cleanup"]

MIN_EXPIRED = 20
"""So many versions are forgotten at once: each time costs a commit."""

MAX_MANIFESTS = 100
"""More than these are merged: each is read to plan a read of the table."""


class Cleanup:
    """Work on a table as it was loaded; ``chain`` has its snapshots, the newest first.

    ``own`` is where all addresses begin of files that may be deleted; None: no data file may.
    """

    def __init__(self, table: Any, chain: list[Any], own: str | None, retention_ms: int) -> None:
        self._table = table
        self._chain = chain
        self._own = own
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
        gone = {one.snapshot_id for one in expired}
        table.maintenance.expire_snapshots().by_ids(sorted(gone)).commit()
        table = table.refresh()
        manifests = {one.manifest_path: one for snapshot in expired for one in snapshot.manifests(table.io)}
        # What a later snapshot of the branch has of an expired one, the oldest one that stays has, too.
        first = next(number for number, one in enumerate(self._chain) if one.snapshot_id in gone)
        later = {one.snapshot_id for one in self._chain[: max(first - 1, 0)]}
        kept = [one for one in table.metadata.snapshots if one.snapshot_id not in gone | later]
        used = {one.manifest_path: one for snapshot in kept for one in snapshot.manifests(table.io)}
        unused = [one for path, one in manifests.items() if path not in used]
        files = [] if self._own is None else self._data_files(unused, list(used.values()))
        for path in (*files, *(one.manifest_path for one in unused), *(one.manifest_list for one in expired)):
            with suppress(OSError):
                table.io.delete(path)

    def _data_files(self, unused: list[Any], used: list[Any]) -> list[str]:
        """The files that manifests which go have had, and no other has."""

        def live(manifests: list[Any]) -> set[str]:
            return {
                entry.data_file.file_path
                for manifest in manifests
                for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)
            }

        return sorted(one for one in live(unused) - live(used) if one.startswith(str(self._own)))
