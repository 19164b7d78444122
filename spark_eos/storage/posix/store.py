"""A store in a folder: a local disk or NFS, any file system with hard links.

The whole of ``create``: write a temporary file of a unique name, sync it, ``link`` it to its final name
(the kernel refuses a second link, on NFS too), sync the folder, remove the temporary name.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress

import pyarrow as pa

from spark_eos.errors import EosLogError, ObjectExistsError
from spark_eos.storage.group_channel import FileGroupChannel, GroupChannel
from spark_eos.storage.object_names import TEMP_FOLDER, check_name, check_prefix, check_range, is_legal_name
from spark_eos.storage.posix.direct_io import Pieces
from spark_eos.storage.posix.files import (
    TemporaryFile,
    exists,
    link_count,
    read_fully,
    sync,
    sync_folder,
)
from spark_eos.storage.posix.folders import Folders
from spark_eos.storage.posix.oserrors import (
    ABSENT,
    failure,
    is_refusal,
    not_found,
    outcome_unknown,
    refused,
    store_error,
    translated,
)
from spark_eos.storage.store import ROUNDED_S, Data, ObjectInfo, Store, Upload
from spark_eos.storage.uploads import UploadFile, as_bytes_view

_EMPTY = "empty"
"""Name, in the temporary folder, of the inode that all objects overwritten with nothing share."""

_ONE_MORE = "empty-twin"
"""One more name of it, which is moved to an object. All processes use this one, so a killed one leaves none behind."""

_TRIES = 100
"""So often that name is made again, if other processes take it away each time."""


class PosixStore(Store):
    """Objects as files under the folder ``root``, which the first write makes if it is missing.

    ``root`` is made absolute and is the `url` too. Half-written files live in ``<root>/_tmp`` and are no
    objects; what a killed process leaves there does no harm (see `discard_leftovers`).
    """

    reports_outcomes = True
    """Whether processes may lag (`spark_eos.log.commit.lagging`)."""

    requests_are_free = True
    has_exact_conflicts = True  # By the link count, see `_link`.

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = self.url = os.path.abspath(root)
        self._temp_folder = os.path.join(self.root, TEMP_FOLDER)
        self._folders = Folders(self.root)

    def __repr__(self) -> str:
        return f"PosixStore({self.root!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return PosixStore, (self.root,)  # Another process makes sure of folders for itself.

    # -- Create -----------------------------------------------------------------------------------------

    def create(self, name: str, data: Data) -> None:
        path = self._path(name)
        with self._temporary() as temp:
            with translated("write", path):
                temp.write(as_bytes_view(data))
            self._publish(temp, path)

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        """As `Store.upload`; a full disk may show as early as in ``write``. One upload is for one thread."""
        return self._upload(self._path(name), write_behind)

    @contextmanager
    def _upload(self, path: str, write_behind: bool) -> Iterator[Upload]:
        with self._temporary() as temp, closing(Pieces(temp, write_behind=write_behind)) as pieces:

            def write(view: memoryview) -> None:
                with translated("write", path):
                    pieces.write(view)

            with UploadFile(write) as file:
                yield file
                file.finish()
            with translated("write", path):
                pieces.finish()
            self._publish(temp, path)

    def _publish(self, temp: TemporaryFile, path: str) -> None:
        """Make the bytes durable, then link them to ``path``, then make the link durable."""
        with translated("sync", path):
            temp.seal()
        # The folder is opened before the link, so that after it nothing is left to fail but one sync.
        with self._folders.folder_of(path) as folder:
            self._link(temp, path, folder)
            try:
                sync(folder)
            except OSError as error:
                self._folders.doubt(path)
                raise outcome_unknown(error, "create", path) from error
            except BaseException:
                self._folders.doubt(path)
                raise

    def _link(self, temp: TemporaryFile, path: str, folder: int) -> None:
        """Return if ``temp`` is linked to ``path``; raise that it is not, or `OutcomeUnknownError`."""
        try:
            os.link(temp.path, os.path.basename(path), dst_dir_fd=folder)
        except OSError as error:
            # NFS may answer EEXIST to its own retransmission, or nothing useful: the link count knows.
            if link_count(temp.path) == 2:
                return
            if error.errno == errno.EEXIST:
                raise self._found_by_create(path, folder) from error
            if is_refusal(error):
                raise store_error(error, "link", path) from error
            raise self._withdraw(temp, path, folder, error) from error

    def _withdraw(self, temp: TemporaryFile, path: str, folder: int, error: OSError) -> EosLogError:
        """The outcome of a link in doubt, after making sure that it cannot land any more.

        A request may still be under way to an NFS server; it finds nothing to link once the (closed)
        temporary file is gone. A name that is taken by then may be taken by us: the bytes say, as always.
        """
        try:
            os.unlink(temp.path)
            is_taken = exists(path)
        except OSError:
            self._folders.doubt(path)
            return outcome_unknown(error, "create", path)
        return self._found_by_create(path, folder) if is_taken else store_error(error, "link", path)

    def _found_by_create(self, path: str, folder: int) -> EosLogError:
        """That the name is taken; durably, because who made it may not live to sync it, and we build on it."""
        try:
            sync(folder)
        except OSError as error:
            self._folders.doubt(path)
            return outcome_unknown(error, "create", path)
        return _name_taken(path)

    @contextmanager
    def _temporary(self) -> Iterator[TemporaryFile]:
        with translated("make a temporary file in", self._temp_folder):
            try:
                temp = TemporaryFile(self._temp_folder)
            except FileNotFoundError:  # the first write, or the tree was removed
                self._folders.forget()
                self._folders.make_durable(self._temp_folder)
                temp = TemporaryFile(self._temp_folder)
        with temp:
            yield temp

    # -- Read -------------------------------------------------------------------------------------------

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        path = self._path(name)
        check_range(name, offset, length)
        self._folders.settle_doubt(path)
        with translated("read", path, absent=True):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                available = max(_object_size(os.fstat(file), path) - offset, 0)
                return read_fully(file, offset, available if length is None else min(length, available))
            finally:
                os.close(file)

    def ensure_durable(self, name: str) -> None:
        """As `Store.ensure_durable`: the process that linked the name may not have lived to sync its folder."""
        folder = os.path.dirname(self._path(name))
        with translated("sync", folder):
            sync_folder(folder)

    def size(self, name: str) -> int:
        path = self._path(name)
        self._folders.settle_doubt(path)
        with translated("look at", path, absent=True):
            return _object_size(os.stat(path), path)

    def identity(self, name: str) -> tuple[int, ...]:
        path = self._path(name)
        if self._folders.has_doubts:
            self._folders.settle_doubt(path)
        try:  # Not `translated`: this is asked for three times in each commit.
            status = os.stat(path)
        except OSError as error:
            raise refused(error, "look at", path, absent=True) from error
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        return self._list(prefix)

    def next_name(self, prefix: str, after: str) -> str | None:
        check_prefix(prefix)
        return min((info.name for info in self._list(prefix, after)), default=None)

    def _list(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        if prefix.startswith(f"{TEMP_FOLDER}/"):
            return
        folders = [prefix[: prefix.rfind("/") + 1]]
        while folders:
            folder = folders.pop()
            path = os.path.join(self.root, folder)
            with translated("list", path):
                children = [*_scan(path, folder, prefix, after)]
            for name, size in children:
                if size is not None:
                    yield ObjectInfo(name, size)
                elif name != TEMP_FOLDER:
                    folders.append(f"{name}/")

    # -- Remove and replace -----------------------------------------------------------------------------

    def delete(self, name: str) -> None:
        """As `Store.delete`. Not synced: after a power cut the object may be back, to be deleted again."""
        path = self._path(name)
        try:
            os.unlink(path)
        except OSError as error:
            if error.errno not in ABSENT and not os.path.isdir(path):
                raise failure(error, "delete", path) from error

    def overwrite(self, name: str, data: Data) -> None:
        """As `Store.overwrite`."""
        path = self._path(name)
        with self._temporary() as temp:
            with translated("write", path):
                temp.write(as_bytes_view(data))
                temp.seal()
            with self._folders.folder_of(path) as folder:
                try:
                    os.rename(temp.path, os.path.basename(path), dst_dir_fd=folder)
                except OSError as error:
                    raise failure(error, "overwrite", path) from error
                try:
                    sync(folder)
                except OSError as error:
                    raise outcome_unknown(error, "overwrite", path) from error

    def retire(self, name: str) -> None:
        """As `Store.retire`: one more name of a shared empty file, and no sync.

        If another process has retired the object at the same time, the object's name is one of that file already. Then
        the rename does nothing, says POSIX, and the extra name stays. The next call uses it.
        """
        path = self._path(name)
        twin = os.path.join(self._temp_folder, _ONE_MORE)
        for _ in range(_TRIES):
            try:
                if self._has_empty(twin):
                    os.rename(twin, path)
                    return
            except FileNotFoundError:  # Another process has moved it, and this one makes it again.
                pass
            except OSError:
                break
        self.overwrite(name, b"")

    def _has_empty(self, twin: str) -> bool:
        """Make ``twin`` a name of the empty file; whether it is one."""
        empty = os.path.join(self._temp_folder, _EMPTY)
        try:
            os.link(empty, twin)
        except FileExistsError:
            pass
        except OSError:  # There is no empty file yet, or it has as many names as a file may have.
            with self._temporary() as temp:
                temp.seal()
                os.rename(temp.path, empty)
            return False
        if not os.stat(twin).st_size:
            return True
        # A copy was put over a name of it: that writes to the file of all names.
        os.unlink(empty)
        os.unlink(twin)
        return False

    def age_s(self, name: str) -> float | None:
        """As `Store.age_s`: the last change of the file, its link to the name or a later one, and that of a new file.

        Of both it is the time of the inode (ctime), which only the file system sets (on NFS the server).
        """
        path = self._path(name)
        self._folders.settle_doubt(path)
        with translated("look at", path, absent=True):
            status = os.stat(path)
        if not _object_size(status, path):
            return None
        with self._temporary() as temp, translated("look at", temp.path):
            now_ns = os.stat(temp.path).st_ctime_ns
        return max((now_ns - status.st_ctime_ns) / 1e9 - ROUNDED_S, 0.0)

    def now_ms(self) -> int:
        """As `Store.now_ms`: the time of a new file's inode, which the file system sets (on NFS the server)."""
        with self._temporary() as temp, translated("look at", temp.path):
            return os.stat(temp.path).st_ctime_ns // 1_000_000

    def group_channel(self, name: str) -> GroupChannel:
        folder = os.path.join(self._temp_folder, f"group-channel-{name}")
        return FileGroupChannel(folder, reports_outcomes=self.reports_outcomes)

    def discard_leftovers(self, older_than_s: float) -> int:
        """Remove temporary files not written to for ``older_than_s`` seconds; returns how many.

        Killed processes leave them. The age is a courtesy, not a matter of safety: a writer whose temporary
        file is taken away gets `StoreUnavailableError` and has created nothing.
        """
        removed = 0
        with translated("clean", self._temp_folder), suppress(FileNotFoundError):
            for entry in os.scandir(self._temp_folder):
                with suppress(FileNotFoundError):
                    if (
                        entry.is_file()
                        and entry.name not in {_EMPTY, _ONE_MORE}
                        and time.time() - entry.stat().st_mtime > older_than_s
                    ):
                        os.unlink(entry.path)
                        removed += 1
        return removed

    def _path(self, name: str) -> str:
        check_name(name)
        return os.path.join(self.root, name)


def _object_size(status: os.stat_result, path: str) -> int:
    if not stat.S_ISREG(status.st_mode):
        raise not_found(path)
    return status.st_size


def _scan(path: str, folder: str, prefix: str, after: str) -> Iterator[tuple[str, int | None]]:
    """What is in the folder at ``path`` whose name begins with ``prefix``: files behind ``after`` and their sizes.

    Folders come with None. Nothing if ``path`` is not there (any more).
    """
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as entries:
        for entry in entries:
            name = folder + entry.name
            if not name.startswith(prefix) or not is_legal_name(entry.name):  # not of this project
                continue
            if entry.is_dir(follow_symlinks=False):
                yield name, None
            elif name > after and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    yield name, entry.stat().st_size


def _name_taken(path: str) -> EosLogError:
    if os.path.isdir(path):
        return store_error(IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)), "create", path)
    return ObjectExistsError(f"{path}: cannot create: it exists already; read it to see whose it is")
