"""Errors of the store, and of what it holds."""

from __future__ import annotations

from spark_eos.errors.base import StorageError


class CorruptRecordError(StorageError):
    """Stored bytes are not those that were written. Run ``eoslog verify``. Code: ``CORRUPT_RECORD``."""


class ObjectExistsError(StorageError):
    """``create`` found an object of that name. For stores: read it to see which one. Code: ``OBJECT_EXISTS``."""


class ObjectNotFoundError(StorageError):
    """There is no object of that name. For stores: check the name. Code: ``OBJECT_NOT_FOUND``."""


class RecordsFailedError(StorageError):
    """Records that were sent before are not in the log, or it is not known whether they are.

    No future can tell of them. The cause is in the message. Send again those that are not there.

    Code: ``RECORDS_FAILED``.
    """


class StorePermissionError(StorageError):
    """The store denies access, or is mounted read-only.

    Check the credentials or the mount. Code: ``STORE_PERMISSION``.
    """


class StoreFullError(StorageError):
    """The store has no space or quota left. Nothing was written. Free some space. Code: ``STORE_FULL``."""


class UnsupportedStoreError(StorageError):
    """The store cannot carry a log, for instance because it creates a name twice.

    Use another one. Code: ``UNSUPPORTED_STORE``.
    """


class TableDamagedError(StorageError):
    """A published table is there, but cannot be read, or is not what its publication has written.

    Publish it again as a whole, from the log: ``eoslog tables publish --rebuild``. Code: ``TABLE_DAMAGED``.
    """
