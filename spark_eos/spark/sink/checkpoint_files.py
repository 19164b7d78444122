"""The files of a checkpoint that is not in a folder of this machine: in a bucket, or in Hadoop's file system."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from spark_eos.errors import CheckpointMismatchError, ConfigError, StorageError
from spark_eos.storage import (
    NO_SETTINGS,
    Settings,
    file_exists,
    folder_exists,
    is_object_store,
    read_file,
    write_file,
)

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)
_HADOOP = frozenset({"hdfs", "viewfs"})
_DATABRICKS = "dbfs"


class RemoteFiles(Protocol):
    """What is asked of them. Names are relative; errors are ours."""

    location: str

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None if it is not there."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def has_folder(self, name: str) -> bool:
        """Whether there is a folder of that name, with something in it."""

    def write(self, name: str, data: bytes) -> None:
        """Write a small file, or replace it."""


def remote_files(location: str, settings: Settings = NO_SETTINGS) -> RemoteFiles | None:
    """The files at ``location``; None for a path or a ``file:`` URL.

    Raises `ConfigError` for what cannot be read here.
    """
    match = _SCHEME.fullmatch(location)
    if match is None or match[1].lower() in {"file", _DATABRICKS}:
        return None
    if is_object_store(location):
        return StoreFiles(location, settings)
    if match[1].lower() in _HADOOP:
        return ArrowFiles(location, *_hadoop(location))
    raise ConfigError(
        f"checkpointLocation={location!r}: a sink with processing.guarantee=exactly_once reads the query's checkpoint, "
        f"and cannot do so on {match[1]}:. Use a path, file:/, dbfs:/, hdfs://, s3a://, abfss:// or gs://"
    )


def local_spelling(location: str) -> str:
    """``dbfs:/…`` as the path under which Databricks mounts it in Python; anything else as it is."""
    match = _SCHEME.fullmatch(location)
    if match is None or match[1].lower() != _DATABRICKS:
        return location
    path = "/" + match[2].lstrip("/")
    # Volumes are mounted under their own name.
    return path if path.startswith("/Volumes/") else f"/dbfs{path}"


class StoreFiles:
    """Files in a bucket or container, read as a log there is."""

    def __init__(self, location: str, settings: Settings) -> None:
        self.location = location.rstrip("/")
        self._settings = settings

    def read(self, name: str) -> bytes | None:
        return read_file(self.location, name, self._settings)

    def exists(self, name: str) -> bool:
        return file_exists(self.location, name, self._settings)

    def has_folder(self, name: str) -> bool:
        return folder_exists(self.location, name, self._settings)

    def write(self, name: str, data: bytes) -> None:
        write_file(self.location, name, data, self._settings)


class ArrowFiles:
    """Files in a file system that Arrow knows."""

    def __init__(self, location: str, files: FileSystem, folder: str) -> None:
        self.location = location.rstrip("/")
        self._files = files
        self._folder = folder.rstrip("/")

    def read(self, name: str) -> bytes | None:
        try:
            with self._files.open_input_stream(f"{self._folder}/{name}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(name, error) from error

    def exists(self, name: str) -> bool:
        try:
            return bool(self._files.get_file_info(f"{self._folder}/{name}").is_file)
        except OSError as error:
            raise self._unreadable(name, error) from error

    def has_folder(self, name: str) -> bool:
        from pyarrow.fs import FileSelector

        try:
            return bool(
                self._files.get_file_info(FileSelector(f"{self._folder}/{name}", allow_not_found=True))
            )
        except OSError as error:
            raise self._unreadable(name, error) from error

    def write(self, name: str, data: bytes) -> None:
        path = f"{self._folder}/{name}"
        try:
            self._files.create_dir(path.rpartition("/")[0])
            with self._files.open_output_stream(path) as file:
                file.write(data)
        except OSError as error:
            raise StorageError(
                f"{self.location}/{name} cannot be written: {error}; let the driver write to the query's checkpoint"
            ) from error

    def _unreadable(self, name: str, error: OSError) -> CheckpointMismatchError:
        return CheckpointMismatchError(
            f"{self.location}/{name} cannot be read: {error}; let the driver read the query's checkpoint"
        )


def _hadoop(location: str) -> tuple[FileSystem, str]:
    from pyarrow.fs import FileSystem

    try:
        files, folder = FileSystem.from_uri(location)
    except (OSError, ValueError, NotImplementedError) as error:
        raise ConfigError(
            f"checkpointLocation={location!r} cannot be read here: {error}. Arrow needs Hadoop's libhdfs, and "
            "HADOOP_HOME, ARROW_LIBHDFS_DIR and CLASSPATH in the environment of the driver; or choose a checkpoint on "
            "a path, s3a://, abfss:// or gs://"
        ) from error
    return files, folder
