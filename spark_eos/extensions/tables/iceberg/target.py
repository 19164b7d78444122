"""An Iceberg table as a target of publishers, written by pyiceberg.

A version is one snapshot of the branch ``main``. Its summary has the `Stamp`. The catalog takes a commit only if the
branch is still at the snapshot that the commit was made from, so a commit is a compare-and-set. pyiceberg would make a
refused commit again on the new head (``commit.retry.num-retries``), which is switched off here.

A table over the log's own files has ``gc.enabled=false``: then no program expires its snapshots with their files or
looks for orphans, since the files are the log's. What was tried of pyiceberg is in
``tests/extensions/tables/test_iceberg.py``.
"""

from __future__ import annotations

import time
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eos.errors import (
    EosLogError,
    RetriableError,
    StoreUnavailableError,
    TableChangedError,
    TableDamagedError,
)
from spark_eos.extensions.tables.iceberg.catalog import address, check_identifier, open_catalog
from spark_eos.extensions.tables.iceberg.cleanup import MERGED, Cleanup
from spark_eos.extensions.tables.iceberg.columns import (
    MAPPING,
    RENAMED,
    Columns,
    check_schema,
    columns,
    paths_of_mapping,
    small_type,
    with_hidden,
)
from spark_eos.extensions.tables.iceberg.files import FoundFile, arrow_schemas, data_files, write
from spark_eos.extensions.tables.iceberg.rows import merge
from spark_eos.extensions.tables.target import FileChange, Footers, RowChange, Stamp, Target, Version
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store

_RETRIES = "commit.retry.num-retries"
_PROPERTIES = {
    "format-version": "2",
    _RETRIES: "0",
    "commit.manifest-merge.enabled": "true",
    # To exchange one file, pyiceberg writes its whole manifest.
    "commit.manifest.target-size-bytes": f"{1 << 20}",
    "write.metadata.delete-after-commit.enabled": "true",
}
_MIN_HISTORY_MS = 5 * 86_400_000
"""For how long Iceberg keeps snapshots by default."""

_COUNTS = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")


class IcebergTarget(Target):
    """The Iceberg table ``identifier`` (``namespace.table``) of a catalog.

    ``catalog`` is a pyiceberg catalog, or the name by which pyiceberg's settings know one. Paths of files are relative
    to the folder ``root``, whose store has the ``settings``. ``is_shared``: the files there are the log's, and no file
    of theirs is ever deleted here.
    """

    def __init__(
        self,
        root: str,
        identifier: str,
        catalog: Any,
        settings: Settings = NO_SETTINGS,
        *,
        is_shared: bool = True,
    ) -> None:
        self._store = open_store(root, settings)
        self.root = self._store.url
        self.path = check_identifier(identifier)
        self._address = address(self.root)
        self._settings = settings
        self._catalog = open_catalog(catalog, settings) if isinstance(catalog, str) else catalog
        if self._catalog is not catalog:  # Its connections are closed when this target is gone.
            weakref.finalize(self, self._catalog.close)
        self.place = f"Iceberg table {self._catalog.name}.{identifier}"
        self._is_shared = is_shared
        # Not above the log's files: what is in the folder of a table, programs take for the table's own.
        self._folder = f"_iceberg/{identifier}/" if is_shared else ""
        self._location = f"{self._address}/{self._folder}".rstrip("/")
        self._last_table: Any = None

    def files_store(self) -> Store:
        return self._store

    # -- Schema -----------------------------------------------------------------------------------------

    def check_schema(self, schema: pa.Schema) -> None:
        check_schema(schema, self.place)

    def schema(self) -> pa.Schema:
        """As stored: Iceberg has no whole numbers of 8 and 16 bits, they have 32."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        names = {renamed: name for name, renamed in RENAMED.items()}
        with self._errors():
            schema = schema_to_pyarrow(self._table().schema(), include_field_ids=False)
            return pa.schema(
                [pa.field(names.get(field.name, field.name), small_type(field.type)) for field in schema]
            )

    # -- Looking ----------------------------------------------------------------------------------------

    def current(self) -> Version | None:
        from pyiceberg.exceptions import NoSuchTableError

        self._last_table = None
        with self._errors():
            try:
                self._last_table = self._catalog.load_table(self.path)
            except NoSuchTableError:
                return None
            head = self._last_table.current_snapshot()
            if head is None:
                return Version(0, None)
            for snapshot in self._chain():
                stamp = _stamp(snapshot)
                if stamp is not None:
                    return Version(head.snapshot_id, stamp)
                if not _is_harmless(snapshot):
                    if not _is_known(self._last_table):
                        return Version(head.snapshot_id, None)
                    raise TableDamagedError(
                        f"{self.place}: another program than its publication has changed it, in snapshot "
                        f"{snapshot.snapshot_id}"
                    )
        return Version(head.snapshot_id, None)

    def is_here(self) -> bool:
        return self._last_table is None or self._last_table.location() == self._location

    def files(self) -> tuple[str, ...]:
        with self._errors():
            return tuple(self._relative(path) for path in self._data_files(self._table()))

    def versions(self) -> Iterator[Version]:
        self.current()
        if self._last_table is None:
            return
        for snapshot in self._chain():
            stamp = _stamp(snapshot)
            if stamp is not None:
                yield Version(snapshot.snapshot_id, stamp)

    def _table(self) -> Any:
        if self._last_table is None and self.current() is None:
            raise TableDamagedError(f"{self.place} is not there")
        return self._last_table

    def _chain(self) -> Iterator[Any]:
        """The snapshots of the branch, the newest first."""
        by_id = {snapshot.snapshot_id: snapshot for snapshot in self._last_table.metadata.snapshots}
        at = self._last_table.current_snapshot()
        while at is not None:
            yield at
            at = by_id.get(at.parent_snapshot_id)

    def _data_files(self, table: Any) -> dict[str, Any]:
        """The files of the newest snapshot by their addresses."""
        snapshot = table.current_snapshot()
        manifests = [] if snapshot is None else snapshot.manifests(table.io)
        files = {}
        for manifest in manifests:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                files[entry.data_file.file_path] = entry.data_file
        return files

    def _relative(self, file: str) -> str:
        if not file.startswith(f"{self._address}/"):
            raise TableDamagedError(f"{self.place} has the file {file}, which does not belong to {self.root}")
        return file[len(self._address) + 1 :]

    # -- Committing -------------------------------------------------------------------------------------

    def commit(
        self, expected: Version | None, change: FileChange | RowChange, stamp: Stamp, footers: Footers
    ) -> Version:
        self.check_schema(change.schema)
        with self._errors():
            if expected is None:
                transaction, table_columns = self._create(change.schema, stamp)
                before: dict[str, Any] = {}
            else:
                table = self._at(expected)
                transaction, table_columns = self._evolve(table, change.schema)
                needs_files = isinstance(change, RowChange) or change.replaces_all or change.removed
                before = self._data_files(table) if needs_files else {}
            if isinstance(change, RowChange):
                added, removed = self._merged(change, before, transaction)
            else:
                added, removed = self._exchanged(change, before, footers)
            native = self._commit(
                transaction, table_columns, added, [before[name] for name in removed], stamp
            )
        return Version(native, stamp)

    def _create(self, schema: pa.Schema, stamp: Stamp) -> tuple[Any, Columns]:
        from pyiceberg.table.name_mapping import create_mapping_from_schema

        namespace = self.path.rpartition(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        new = columns(schema, {}, 0, 0)
        properties = {
            **_PROPERTIES,
            "gc.enabled": str(not self._is_shared).lower(),
            "history.expire.max-snapshot-age-ms": str(max(stamp.retention_ms, _MIN_HISTORY_MS)),
            "comment": f"Topic {stamp.topic} of the log {stamp.log_id}, publication {stamp.publication}",
        }
        transaction = self._catalog.create_table_transaction(
            self.path, new.table, location=self._location, properties=properties
        )
        # pyiceberg numbers the columns of a new table itself.
        metadata = transaction.table_metadata
        names = {renamed: name for name, renamed in RENAMED.items()}
        ids = {
            (names.get(path[0], path[0]), *path[1:]): number
            for path, number in paths_of_mapping(create_mapping_from_schema(metadata.schema())).items()
        }
        return transaction, columns(schema, ids, metadata.last_column_id, metadata.current_schema_id)

    def _at(self, expected: Version) -> Any:
        """The table, whose newest snapshot must be the one that is expected."""
        table = self._catalog.load_table(self.path)
        head = table.current_snapshot()
        current_id = 0 if head is None else head.snapshot_id
        if current_id != expected.native:
            raise TableChangedError(
                f"{self.place}: another process has committed first; it is at snapshot {current_id}, and not at "
                f"{expected.native}"
            )
        # Only in this object: even if another program has set it.
        table.metadata.properties[_RETRIES] = "0"
        return table

    def _evolve(self, table: Any, schema: pa.Schema) -> tuple[Any, Columns]:
        """A transaction in which the table has the columns of ``schema``."""
        from pyiceberg.table.update import AddSchemaUpdate, AssertCurrentSchemaId, SetCurrentSchemaUpdate

        metadata = table.metadata
        ids = paths_of_mapping(table.name_mapping())
        last = max([metadata.last_column_id, *ids.values()])
        number = max(old.schema_id for old in metadata.schemas) + 1
        target = columns(schema, ids, last, number)
        transaction = table.transaction()
        schema_id = next(
            (old.schema_id for old in metadata.schemas if old.fields == target.table.fields), None
        )
        if schema_id == metadata.current_schema_id:
            return transaction, target
        updates: list[Any] = [] if schema_id is not None else [AddSchemaUpdate(schema=target.table)]
        updates.append(
            SetCurrentSchemaUpdate.model_validate({"schema-id": number if schema_id is None else schema_id})
        )
        same = AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id})
        transaction._apply(tuple(updates), (same,))  # noqa: SLF001  (`update_schema` gives new ids to old names)
        return transaction, target

    def _exchanged(
        self, change: FileChange, before: dict[str, Any], footers: Footers
    ) -> tuple[list[FoundFile], list[str]]:
        new_files = {f"{self._address}/{file.path}": file for file in change.added}
        if change.replaces_all:
            removed = [name for name in before if name not in new_files]
            new_files = {name: file for name, file in new_files.items() if name not in before}
        else:
            removed = [f"{self._address}/{file.path}" for file in change.removed]
        missing = [name for name in removed if name not in before]
        if missing:
            raise TableDamagedError(
                f"{self.place} does not have the file {missing[0]}, which it is to give up"
            )
        return [FoundFile(name, file.size, footers(file)) for name, file in new_files.items()], removed

    def _merged(
        self, change: RowChange, before: dict[str, Any], transaction: Any
    ) -> tuple[list[FoundFile], list[str]]:
        io = transaction._table.io  # noqa: SLF001  (of a table that is not there yet, too)

        def read(file: str, names: list[str] | None) -> pa.Table:
            with io.new_input(file).open() as stream:
                return pq.read_table(stream, columns=names)

        tables, removed = merge(change, {name: file.record_count for name, file in before.items()}, read)
        folder = f"{transaction.table_metadata.location.rstrip('/')}/{MERGED}"
        return [write(io, f"{folder}/{uuid.uuid4()}.parquet", table) for table in tables], removed

    def _commit(
        self,
        transaction: Any,
        table_columns: Columns,
        added: list[FoundFile],
        removed: list[Any],
        stamp: Stamp,
    ) -> int:
        table_columns = with_hidden(table_columns, arrow_schemas(added))
        mapping = table_columns.mapping()
        metadata = transaction.table_metadata
        if metadata.properties.get(MAPPING) != mapping:
            transaction.set_properties({MAPPING: mapping})
            metadata = transaction.table_metadata
        update = transaction.update_snapshot(snapshot_properties=stamp.properties())
        producer = update.overwrite() if removed else update.merge_append()
        for data_file in removed:
            producer.delete_data_file(data_file)
        for data_file in data_files(added, table_columns, metadata):
            producer.append_data_file(data_file)
        producer.commit()
        transaction.commit_transaction()
        self._last_table = None
        return int(producer.snapshot_id)

    # -- Cleanup and removing ----------------------------------------------------------------------------

    def maintain(self) -> None:
        """Merge manifests, and forget the versions that were replaced longer ago than their retention."""
        # If another process is in the way, the call after the next version does it.
        with suppress(RetriableError):
            self._maintain()

    def _maintain(self) -> None:
        version = self.current()
        if version is not None and version.stamp is not None:
            with self._errors():
                own = None if self._is_shared else f"{self._address}/"
                work = Cleanup(self._last_table, [*self._chain()], own, version.stamp.retention_ms)
                work.run(time.time_ns() // 1_000_000)
            self._last_table = None

    def drop(self) -> None:
        """Take the table out of the catalog, and delete its metadata. Data files stay."""
        from pyiceberg.exceptions import NoSuchTableError

        self._last_table = None
        with self._errors():
            with suppress(NoSuchTableError):
                self._catalog.drop_table(self.path)
            for name in [info.name for info in self._store.list(f"{self._folder}metadata/")]:
                self._store.delete(name)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """The library's errors as ours."""
        from pyiceberg.exceptions import CommitFailedException, RESTError, TableAlreadyExistsError

        try:
            yield
        except EosLogError:
            raise
        except (CommitFailedException, TableAlreadyExistsError) as error:
            raise TableChangedError(
                f"{self.place}: another process has committed first ({self._error_line(error)})"
            ) from error
        except FileNotFoundError as error:
            raise TableDamagedError(
                f"{self.place}: a file of its metadata is gone: {self._error_line(error)}"
            ) from error
        except (OSError, RESTError) as error:
            # Their own texts have the catalog's address, which may be secret: a traceback has ours alone.
            raise StoreUnavailableError(f"{self.place}: {self._error_line(error)}") from None
        except Exception as error:
            if type(error).__module__.startswith("sqlalchemy."):
                raise StoreUnavailableError(f"{self.place}: its catalog: {self._error_line(error)}") from None
            raise TableDamagedError(
                f"{self.place}: {error.__class__.__name__}: {self._error_line(error)}"
            ) from error

    def _error_line(self, error: BaseException) -> str:
        """The first line of a message, without secrets."""
        return self._settings.scrub(str(error).partition("\n")[0])


def _stamp(snapshot: Any) -> Stamp | None:
    return None if snapshot.summary is None else Stamp.of(snapshot.summary.additional_properties)


def _is_known(table: Any) -> bool:
    """Whether a publication has ever committed to the table."""
    return any(_stamp(snapshot) is not None for snapshot in table.metadata.snapshots)


def _is_harmless(snapshot: Any) -> bool:
    """Whether a snapshot of another hand has the files of the one before."""
    summary = snapshot.summary
    if summary is None or snapshot.parent_snapshot_id is None:
        return False
    return all(int(summary.additional_properties.get(name, 0)) == 0 for name in _COUNTS)
