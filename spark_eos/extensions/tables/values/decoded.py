"""Topics with Avro or JSON values as tables with copies: the columns of the values in place of their bytes.

A copy of a file of the log has the columns of ``value.schema``, as Spark's source gives them, and ``_key``,
``_headers``, ``_partition``, ``_offset`` and ``_timestamp``. All columns of a tombstone are null, and those of a value
that cannot be decoded, as in Spark's mode PERMISSIVE; the log has its bytes. Tables that share the log's files have key
and value as bytes.

The name of a copy ends with a mark of the topic's settings about values. So with another schema all files of the table
are replaced.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eos.errors import ObjectExistsError, ObjectNotFoundError, SchemaMismatchError
from spark_eos.extensions.tables.columns import table_schema
from spark_eos.extensions.tables.copies import copy_name, is_copy
from spark_eos.extensions.tables.planner import SealedFile, difference
from spark_eos.extensions.tables.settings import is_copied, is_merged
from spark_eos.extensions.tables.target import DataFile, FileChange, Target
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.parquet.columns import bounded_leaves, check_columns, stored_schema
from spark_eos.log.topics import codec_of
from spark_eos.log.values.codec import ValueCodec
from spark_eos.protocol.publication import Publication
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import FileRef
from spark_eos.storage import Store

_BESIDE = {
    "key": "_key",
    "headers": "_headers",
    "partition": "_partition",
    "offset": "_offset",
    "timestamp": "_timestamp",
}
"""The columns that a copy has of the log's file, and what they are called there."""


def columns_of(publication: Publication, topic: Topic) -> pa.Schema:
    """The columns of a topic's table as its settings are now. Raises `SchemaMismatchError` as `decoded_copies`."""
    decoded = decoded_copies(publication, topic)
    return table_schema(topic, len(topic.schemas)) if decoded is None else decoded.schema


def decoded_copies(publication: Publication, topic: Topic) -> DecodedCopies | None:
    """How copies of a topic's files are made if its values have columns; None if they stay as they are.

    Raises `SchemaMismatchError` for columns that no table can have.
    """
    if topic.schemas or not is_copied(publication) or is_merged(publication, topic):
        return None
    codec = codec_of(topic)
    if codec is None or codec.fields is None:
        return None
    return DecodedCopies(topic, codec)


def has_newest_columns(publication: Publication, topic: Topic, target: Target) -> bool:
    """Whether the files of a table are of the kind, and have the columns of values, that the topic's settings ask for.

    They do not after ``cleanup.policy`` or a setting about values was changed.
    """
    if not is_copied(publication):
        return True
    decoded = decoded_copies(publication, topic)
    if decoded is not None:
        return decoded.are_all(target.files())
    if is_merged(publication, topic):
        return not any(is_copy(name) for name in target.files())
    return all(is_copy(name, marked=False) for name in target.files())


class DecodedCopies:
    """Copies of the files of one topic, with the columns of its values as its settings are now."""

    def __init__(self, topic: Topic, codec: ValueCodec) -> None:
        self._codec = codec
        self._own = list(codec.fields or ())
        stored = stored_schema(Layout.kafka())
        beside = [stored.field(name).with_name(column) for name, column in _BESIDE.items()]
        self.schema = pa.schema([*self._own, *beside])
        """The columns of the table."""
        _check_names(topic, self.schema)
        check_columns(self.schema)
        self._mark = hashlib.sha256(codec.settings_text.encode()).hexdigest()[:16]

    def name_of(self, file: SealedFile) -> str:
        """The name of the copy of a file."""
        name = copy_name(file.ref, file.partition)
        return f"{name.removesuffix('.parquet')}-{self._mark}.parquet"

    def are_all(self, names: Iterable[str]) -> bool:
        """Whether files of a table are copies that were made with these settings."""
        return all(name.endswith(f"-{self._mark}.parquet") for name in names)

    def change(
        self,
        source: Store,
        target: Target,
        files: Iterable[SealedFile],
        footers: dict[str, Any],
        *,
        is_new: bool,
    ) -> FileChange:
        """Make the copies that the table lacks, and put their footers into ``footers``. How the table changes."""
        old_files = () if is_new else target.files()
        whole = not old_files or not self.are_all(old_files)
        by_name = {self.name_of(file): file for file in files}
        names = {name: DataFile(name, 0, file.rows) for name, file in by_name.items()}
        new, removed = difference(() if whole else old_files, names)
        footers.clear()
        added = []
        for name in (file.path for file in new):
            copy, footers[name] = self.copy(source, target.files_store(), by_name[name])
            added.append(copy)
        return FileChange(self.schema, tuple(added), removed, replaces_all=whole)

    def copy(self, source: Store, target: Store, file: SealedFile) -> tuple[DataFile, Any]:
        """Make the copy of a file, unless it is there; and its footer. Raises `SchemaRegistryError`.

        A copy appears as a whole, or not at all.
        """
        name = self.name_of(file)
        try:
            size = target.size(name)
        except ObjectNotFoundError:
            with suppress(ObjectExistsError):  # Another publisher makes it, too.
                self._write(source, target, name, file.ref)
            size = target.size(name)
        return DataFile(name, size, file.rows), pq.read_metadata(_stored(target, name, size))

    def _write(self, source: Store, target: Store, name: str, ref: FileRef) -> None:
        whole = _stored(source, ref.name, ref.size)
        with (
            target.upload(name) as upload,
            pq.ParquetFile(whole, page_checksum_verification=True) as file,
            pq.ParquetWriter(
                pa.PythonFile(upload, "w"),
                self.schema,
                compression="zstd",
                store_schema=False,
                write_statistics=bounded_leaves(self.schema),
                write_page_checksum=True,
            ) as writer,
        ):
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, columns=["value", *_BESIDE], use_threads=False)
                writer.write_table(self._decoded(rows))

    def _decoded(self, table: pa.Table) -> pa.Table:
        values = pa.concat_arrays(table.column("value").chunks or [pa.array([], pa.binary())])
        arrays, _ = self._codec.decode_columns(values, self._own)
        columns = [*arrays, *(table.column(name) for name in _BESIDE)]
        return pa.Table.from_arrays(
            [column.cast(field.type) for column, field in zip(columns, self.schema, strict=True)],
            schema=self.schema,
        )


def _stored(store: Store, name: str, size: int) -> pa.PythonFile:
    return pa.PythonFile(_StoredFile(store, name, size), "r")


class _StoredFile(io.RawIOBase):
    """An object of a store as a file: what is asked for is read, and no more."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._name = name
        self._size = size
        self._position = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        """The size of the object."""
        return self._size

    def read(self, size: int = -1) -> bytes:
        remaining = self._size - self._position
        count = remaining if size < 0 else min(size, remaining)
        data = self._store.read(self._name, self._position, count).to_pybytes() if count else b""
        self._position += len(data)
        return data


def _check_names(topic: Topic, schema: pa.Schema) -> None:
    names: dict[str, str] = {}
    for name in schema.names:
        earlier = names.setdefault(name.casefold(), name)
        if earlier != name or schema.names.count(name) > 1:
            raise SchemaMismatchError(
                f"topic {topic.name!r}: columns {earlier!r} and {name!r} of its table would have the same name (Spark "
                "ignores case; _key, _headers, _partition, _offset and _timestamp are there beside the value's columns)"
            )
