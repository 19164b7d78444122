"""A Delta table, written by delta-rs (package ``deltalake``).

A version is one commit. It names its entry in its commit info (`Stamp`), and the publication's sequence in a ``txn``
action. delta-rs commits under the number after the version that it has read, and with ``max_commit_retries=0`` under no
other, so a commit is a compare-and-set. What was tried of delta-rs is in tests/extensions/tables/test_delta.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_eos.errors import (
    ConfigError,
    EosLogError,
    StoreUnavailableError,
    TableChangedError,
    TableDamagedError,
)
from spark_eos.errors.loading import Loading
from spark_eos.extensions.tables.columns import check_delta_schema
from spark_eos.extensions.tables.delta.history import history
from spark_eos.extensions.tables.delta.stats import bounded_columns, quoted, statistics, writer_properties
from spark_eos.extensions.tables.target import (
    DataFile,
    FileChange,
    Footers,
    RowChange,
    Stamp,
    Target,
    Version,
    application,
)
from spark_eos.storage import NO_SETTINGS, Settings, Store, is_object_store, open_store
from spark_eos.storage.objects.library_options import library_options

_LOG = "_delta_log/"
_PREPARES = "eoslog.prepares"
"""In the commit info of a commit that prepares the columns before the version that needs them."""

_BOUNDED = "delta.dataSkippingStatsColumns"

_CHECKPOINT_COMMITS = 20
"""Commits between two checkpoints of the table's own log: to open the table reads so many files at most."""

_LOOK = 50
"""So many of the newest commits are looked at first for the one that a publisher has made."""

_MIN_LOG_S = 30 * 86_400
"""For how long Delta keeps its versions at least (its default)."""

_GONE = "_eoslog_gone"
"""A column of what is merged: the key is removed."""

_HARMLESS = frozenset({"VACUUM START", "VACUUM END", "ADD COLUMN", "SET TBLPROPERTIES"})
"""Commits of other programs that leave all rows as they are."""

_OF_STORE = re.compile(r"Error performing |Generic [A-Z]\w* error|lacked the necessary privileges")
"""What the library's error says if a store has refused a request, or has not answered: some reads give no `OSError`."""

_MISSING = re.compile(r"Object at location .* not found", re.DOTALL)


class DeltaTarget(Target):
    """The Delta table in the folder ``root``: a path or a URL; ``settings`` are those of its object store."""

    def __init__(self, root: str, settings: Settings = NO_SETTINGS) -> None:
        with Loading("a Delta table", "tables", "deltalake"):
            import deltalake
            import deltalake.transaction
        self._library = deltalake
        self._store: Store = open_store(root, settings)
        self.root = self.path = self._store.url
        self.place = f"Delta table {self.root}"
        self._options = library_options(self.root, settings)
        is_path = not is_object_store(self.root)
        self._uri = Path(self.root).absolute().as_uri() if is_path else self.root
        if is_path and "://" in self.root:
            raise ConfigError(
                f"{self.place}: delta-rs reaches folders and buckets alone; publish a copy into one of these"
            )
        # It would take the name for a URL, or for that of another folder.
        if refused := re.search(r"[%#?\\\x00-\x1f\x7f\ud800-\udfff]", self.root):
            raise ConfigError(
                f"{self.place}: delta-rs cannot write into a folder with {refused[0]!r} in its name; use another one, "
                "or publish a copy elsewhere"
            )
        self._last_table: Any = None

    def files_store(self) -> Store:
        return self._store

    # -- Schema -----------------------------------------------------------------------------------------

    def check_schema(self, schema: pa.Schema) -> None:
        check_delta_schema(schema, self.place)

    def schema(self) -> pa.Schema:
        with self._errors():
            return pa.schema(self._table().schema().to_arrow())

    # -- Looking ----------------------------------------------------------------------------------------

    def current(self) -> Version | None:
        self._last_table = None
        try:
            with self._errors():
                self._last_table = self._library.DeltaTable(self._uri, storage_options=self._options)
        except TableDamagedError:
            # Only now: to list a log takes time that grows with it.
            if not any(True for _ in self._store.list(_LOG)):
                return None
            raise
        stamp, reached = None, False
        for limit in (_LOOK, None):
            for commit in self._history(self._last_table, limit):
                stamp, reached = Stamp.of(commit), commit["version"] == 0
                if stamp is not None or commit.get("operation") not in _HARMLESS:
                    break
            else:
                continue  # Nothing but commits that leave all rows as they are: look at all.
            break
        native: int = self._last_table.version()
        if stamp is None and not reached and native and self._is_published():
            raise TableDamagedError(
                f"{self.place}: another program than its publication has changed it, in version {native} or shortly "
                "before"
            )
        return Version(native, stamp)

    def _is_published(self) -> bool:
        """Whether a publication has ever committed to the table."""
        return any(Stamp.of(commit) is not None for commit in self._history(self._last_table, None))

    def files(self) -> tuple[str, ...]:
        with self._errors():
            actions = pa.table(self._table().get_add_actions(flatten=True))
        return tuple(actions.column("path").to_pylist())

    def versions(self) -> Iterator[Version]:
        self.current()
        if self._last_table is None:
            return
        for commit in self._history(self._last_table, None):
            stamp = Stamp.of(commit)
            if stamp is not None:
                yield Version(commit["version"], stamp)

    def _table(self) -> Any:
        if self._last_table is None and self.current() is None:
            raise TableDamagedError(f"{self.place} is not there")
        return self._last_table

    def _history(self, table: Any, limit: int | None) -> list[dict[str, Any]]:
        with self._errors():
            return history(table, limit)

    # -- Committing -------------------------------------------------------------------------------------

    def commit(
        self, expected: Version | None, change: FileChange | RowChange, stamp: Stamp, footers: Footers
    ) -> Version:
        self.check_schema(change.schema)
        with self._errors():
            if expected is None:
                self._create(change, stamp, footers)
            else:
                if self._last_table is None or self._last_table.version() != expected.native:
                    self._last_table = self._library.DeltaTable(
                        self._uri, version=expected.native, storage_options=self._options
                    )
                self._change(change, stamp, footers)
        self._last_table = None
        version = self.current()
        if version is None or version.stamp != stamp:
            raise TableChangedError(
                f"{self.place}: another process has committed after this one; it is at {version}"
            )
        return version

    def _create(self, change: FileChange | RowChange, stamp: Stamp, footers: Footers) -> None:
        options = {"storage_options": self._options, "commit_properties": self._properties(stamp)}
        seconds = max(_MIN_LOG_S, -(-stamp.retention_ms // 1000))
        configuration = {
            _BOUNDED: _bounded(change),
            "delta.checkpointInterval": str(_CHECKPOINT_COMMITS),
            "delta.logRetentionDuration": f"interval {seconds} seconds",
            "delta.deletedFileRetentionDuration": f"interval {max(stamp.retention_ms // 1000, 1)} seconds",
        }
        about = f"Topic {stamp.topic} of the log {stamp.log_id}, publication {stamp.publication}"
        if isinstance(change, RowChange):
            self._library.write_deltalake(
                self._uri,
                change.rows(),
                mode="error",
                configuration=configuration,
                description=about,
                writer_properties=writer_properties(change.schema),
                **options,
            )
            return
        from deltalake.transaction import create_table_with_add_actions

        create_table_with_add_actions(
            self._uri,
            self._library.Schema.from_arrow(nullable(change.schema)),
            [self._add(file, footers, change.schema) for file in change.added],
            mode="error",
            partition_by=[],
            description=about,
            configuration=configuration,
            **options,
        )

    def _change(self, change: FileChange | RowChange, stamp: Stamp, footers: Footers) -> None:
        table = self._last_table
        if change.replaces_all:
            self._bound(table, change, stamp)
        if isinstance(change, RowChange):
            if change.replaces_all:
                self._library.write_deltalake(
                    table,
                    change.rows(),
                    mode="overwrite",
                    schema_mode="overwrite",
                    writer_properties=writer_properties(change.schema),
                    commit_properties=self._properties(stamp),
                )
            else:
                self._grow(table, change.schema, stamp)
                self._merge(table, change, stamp)
            return
        if change.replaces_all:
            self._check_new(change)
            schema, mode = self._library.Schema.from_arrow(nullable(change.schema)), "overwrite"
        else:
            self._grow(table, change.schema, stamp)
            schema, mode = table.schema(), "append"
        from deltalake.transaction import RemoveAction

        now_ms = time.time_ns() // 1_000_000
        removed = [RemoveAction(file.path, True, now_ms, file.size or None, {}) for file in change.removed]
        table.create_write_transaction(
            [*(self._add(file, footers, change.schema) for file in change.added), *removed],
            mode=mode,
            schema=schema,
            partition_by=[],
            commit_properties=self._properties(stamp),
        )

    def _check_new(self, change: FileChange) -> None:
        """Delta knows no commit that removes a file and adds it at once: readers differ in what is left."""
        paths = {*self.files()} & {file.path for file in change.added}
        if paths:
            raise TableDamagedError(
                f"{self.place}: {min(paths)} is to be replaced by itself, which Delta's log cannot say"
            )

    def _grow(self, table: Any, schema: pa.Schema, stamp: Stamp) -> None:
        """Add the columns that the table does not have, in a commit of its own, in which they are null."""
        names = {field.name for field in table.schema().fields}
        new = [field for field in nullable(schema) if field.name not in names]
        if new:
            fields = self._library.Schema.from_arrow(pa.schema(new)).fields
            table.alter.add_columns(fields, commit_properties=self._preparing(stamp))
            table.update_incremental()

    def _bound(self, table: Any, change: FileChange | RowChange, stamp: Stamp) -> None:
        """Name the columns with bounds for other columns, in a commit of its own, which changes no row."""
        bounded = _bounded(change)
        if table.metadata().configuration.get(_BOUNDED) != bounded:
            table.alter.set_table_properties({_BOUNDED: bounded}, commit_properties=self._preparing(stamp))
            table.update_incremental()

    def _merge(self, table: Any, change: RowChange, stamp: Stamp) -> None:
        rows, removed = change.rows(), change.removed()
        removed_rows = removed.select(list(change.keys))
        empty = [
            removed_rows.column(field.name)
            if field.name in change.keys
            else pa.nulls(removed_rows.num_rows, field.type)
            for field in rows.schema
        ]
        removed_rows = pa.Table.from_arrays(empty, schema=nullable(rows.schema))
        source = pa.concat_tables([rows.cast(nullable(rows.schema)), removed_rows]).append_column(
            _GONE, pa.array([False] * rows.num_rows + [True] * removed_rows.num_rows, pa.bool_())
        )
        columns = {quoted(name): f"s.{quoted(name)}" for name in rows.schema.names}
        # One of several columns of a key may be null. Without the brackets delta-rs reads it as something else.
        names = map(quoted, change.keys)
        same = " and ".join(f"(t.{name} is not distinct from s.{name})" for name in names)
        partition, offset = change.place
        old = " or ".join(
            f"(t.`{partition}` = {number} and t.`{offset}` < {start})"
            for number, start in sorted(change.starts.items())
            if start
        )
        merger = (
            table.merge(
                source,
                same,
                source_alias="s",
                target_alias="t",
                writer_properties=writer_properties(change.schema),
                commit_properties=self._properties(stamp),
            )
            .when_matched_delete(f"s.`{_GONE}`")
            .when_matched_update(columns)
            .when_not_matched_insert(columns, f"not s.`{_GONE}`")
        )
        if old:
            merger = merger.when_not_matched_by_source_delete(old)
        before = table.version()
        merger.execute()
        if table.version() == before:
            # delta-rs makes no commit of a merge that changes no row.
            table.create_write_transaction(
                [],
                mode="append",
                schema=table.schema(),
                partition_by=[],
                commit_properties=self._properties(stamp),
            )

    def _add(self, file: DataFile, footers: Footers, schema: pa.Schema) -> Any:
        from deltalake.transaction import AddAction

        return AddAction(
            file.path, file.size, {}, time.time_ns() // 1_000_000, True, statistics(footers(file), schema)
        )

    def _preparing(self, stamp: Stamp) -> Any:
        """Of a commit before that of the version, which stands for no entry."""
        return self._library.CommitProperties(
            max_commit_retries=0, custom_metadata={_PREPARES: str(stamp.sequence)}
        )

    def _properties(self, stamp: Stamp) -> Any:
        transaction = self._library.Transaction(application(stamp.log_id, stamp.publication), stamp.sequence)
        return self._library.CommitProperties(
            custom_metadata=stamp.properties(), max_commit_retries=0, app_transactions=[transaction]
        )

    # -- Removing ---------------------------------------------------------------------------------------

    def drop(self) -> None:
        """Remove the table's own log. The data files stay: the log's for its vacuum, copies for their owner."""
        self._last_table = None
        names = sorted((info.name for info in self._store.list(_LOG)), reverse=True)
        # The hint of the newest checkpoint and the newest commits first: what is left of it is never a whole table.
        for name in names:
            self._store.delete(name)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """The library's errors as ours."""
        exceptions = self._library.exceptions
        try:
            yield
        except EosLogError:
            raise
        except exceptions.CommitFailedError as error:
            raise TableChangedError(
                f"{self.place}: another process has committed first ({_first(error)})"
            ) from error
        except exceptions.TableNotFoundError as error:
            raise TableDamagedError(f"{self.place}: its log is damaged: {_first(error)}") from error
        except exceptions.DeltaError as error:
            if "already exists" in str(error):
                raise TableChangedError(f"{self.place}: another process has created it first") from error
            if _OF_STORE.search(str(error)) and not _MISSING.search(str(error)):
                raise StoreUnavailableError(f"{self.place}: {_first(error)}") from error
            raise TableDamagedError(f"{self.place}: {_first(error)}") from error
        except OSError as error:
            raise StoreUnavailableError(f"{self.place}: {_first(error)}") from error


def _bounded(change: FileChange | RowChange) -> str:
    return bounded_columns(change.schema, by_delta_rs=isinstance(change, RowChange))


def nullable(schema: pa.Schema) -> pa.Schema:
    """The columns of a table: each may be null, since a file of an older schema may not have it."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _first(error: BaseException) -> str:
    """The first line of a message: delta-rs adds its stack."""
    return str(error).partition("\n")[0]
