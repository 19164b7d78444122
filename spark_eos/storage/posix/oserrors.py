"""What an ``errno`` means for a store: which error to raise, and which refusals are certain."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from spark_eos.errors import (
    EosLogError,
    InvalidRequestError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreFullError,
    StorePermissionError,
    StoreUnavailableError,
    UnsupportedStoreError,
)

ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
"""There is no such file."""

_LOOKING = frozenset({"read", "list", "look at"})
"""What is tried that changes nothing."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED = frozenset({errno.EACCES, errno.EPERM})
_UNSUPPORTED = frozenset(
    {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK, errno.EINVAL}
)
_NO_LINKS = (errno.EPERM, "link")
"""How some file systems without hard links say so; a file's owner is never denied one otherwise."""
_MALFORMED = frozenset({errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP})
_REFUSED = _FULL | _DENIED | _UNSUPPORTED | _MALFORMED | {errno.EEXIST, errno.ENOENT, errno.EROFS}


DATABRICKS = re.compile(r"/dbfs(?=/|$)|/Volumes/[^/]+/[^/]+/[^/]+")
"""Where Databricks mounts DBFS and Volumes in Python."""


def is_refusal(error: OSError) -> bool:
    """True if the system surely changed nothing; False if the reply says nothing (EIO, ESTALE, timeouts)."""
    return error.errno in _REFUSED


def store_error(error: OSError, verb: str, path: str) -> EosLogError:
    """The error for a call that certainly did nothing: ``verb`` is what was tried on ``path``."""
    said = f"{path}: cannot {verb}: {error.strerror or error}"
    code = error.errno
    if code in _UNSUPPORTED or (code, verb) == _NO_LINKS:
        return UnsupportedStoreError(
            f"{said}. A log needs hard links and folders that can be synced, all on one file system{_advice(path)}"
        )
    if code in _FULL:
        return StoreFullError(
            f"{said}. Free space, or raise the quota or file size limit; nothing was written"
        )
    if code in _DENIED:
        rights = "read and search" if verb in _LOOKING else "read, write and search"
        return StorePermissionError(f"{said}. Give this process's user the right to {rights} there")
    if code == errno.EROFS:
        return StorePermissionError(f"{said}. Mount the file system writable, or use another folder")
    if code in _MALFORMED:
        return InvalidRequestError(
            f"{said}. A name cannot be a file and a folder at once, nor longer than the file system allows"
        )
    return StoreUnavailableError(f"{said}. Nothing was done: see to the file system and try again")


def _advice(path: str) -> str:
    mount = DATABRICKS.match(path)
    if mount is None:
        return " (FUSE mounts and Unity Catalog Volumes have none): use a folder on a local disk or NFS"
    place = "DBFS" if mount[0].startswith("/dbfs") else f"the Unity Catalog Volume {mount[0].rstrip('/')}"
    return (
        f", and {place} has none: give the log the URL of a bucket or container (s3://…, abfss://…, gs://…), for "
        "example of an external location. Checkpoints may stay there"
    )


def outcome_unknown(error: OSError, verb: str, path: str) -> OutcomeUnknownError:
    """The error for a call that may have done its work, or half of it, all the same."""
    return OutcomeUnknownError(
        f"{path}: {verb} may or may not be done and durable: {error.strerror or error}. Repeat the same "
        "call to learn it, and delete nothing that belongs to it before"
    )


def failure(error: OSError, verb: str, path: str) -> EosLogError:
    """`store_error` if the system refused, `outcome_unknown` if its reply says nothing."""
    return store_error(error, verb, path) if is_refusal(error) else outcome_unknown(error, verb, path)


@contextmanager
def translated(verb: str, path: str, *, absent: bool = False) -> Iterator[None]:
    """Turn the ``OSError`` of a block that has done nothing yet into ours.

    ``absent``: a missing file is a missing object.
    """
    try:
        yield
    except OSError as error:
        raise refused(error, verb, path, absent=absent) from error


def refused(error: OSError, verb: str, path: str, *, absent: bool) -> EosLogError:
    """The error for a call that certainly did nothing. ``absent``: a missing file is a missing object."""
    return not_found(path) if absent and error.errno in ABSENT else store_error(error, verb, path)


def not_found(path: str) -> ObjectNotFoundError:
    """The error for an object that is not there."""
    return ObjectNotFoundError(f"{path}: there is no such object; check the name and the folder")
