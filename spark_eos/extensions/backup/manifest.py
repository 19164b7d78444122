"""The manifest of a backup: which states of the log can be restored, and which objects of the repository hold them.

A manifest is three lines of text (docs/reference/format.md): a summary and a list, both JSON, and the SHA-256 of these
two lines. The summary alone is read to list backups.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from spark_eos.errors import CorruptRecordError, UnsupportedVersionError

VERSION = 1
"""The version of manifests and repositories that this code writes, and the newest it reads."""

_FORMAT = "eoslog-backup"
_MALFORMED = (ValueError, TypeError, KeyError, IndexError, RecursionError)


@dataclass(frozen=True)
class Backup:
    """One backup: what can be restored from it."""

    id: str
    """Its id in the repository."""
    name: str
    """Its name, as it was given; else the id."""
    log_id: str
    """The id of the log."""
    source: str
    """Where the log was."""
    created_ms: int
    """When the backup began, in milliseconds since 1970 (UTC)."""
    first: int
    first_ms: int
    """The earliest entry to which the log can be restored, and its time."""
    last: int
    last_ms: int
    """The last entry of the backup, and its time."""
    files: int
    bytes: int
    """Files of the log in the backup, and their bytes."""
    new_files: int
    new_bytes: int
    """What of that this backup has copied; earlier ones have the rest."""


class StoredFile(NamedTuple):
    """A file of the log: its ``name`` there, and the backup (``owner``) in whose folder its bytes are."""

    name: str
    owner: str
    size: int
    sha256: str

    @property
    def object_name(self) -> str:
        """Where it is in the repository."""
        return f"objects/{self.owner}/{self.name}"


class Pack(NamedTuple):
    """Entries ``first``, ``first`` + 1, … of the log, one after the other in one object of their ``sizes``."""

    file: StoredFile
    first: int
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Manifest:
    """All of a backup.

    ``files`` are data files, index pages and snapshots, ``packs`` the entries. ``per_folder`` is the log's
    `entries_per_folder`. ``inside`` says of index pages which files or pages they name, for later backups: they need
    not read these pages.
    """

    backup: Backup
    per_folder: int
    packs: tuple[Pack, ...]
    files: tuple[StoredFile, ...]
    inside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def encode(manifest: Manifest) -> bytes:
    """The bytes of a manifest. Of ``inside`` it has what says only names of ``files``."""
    owners = sorted({file.owner for file in (*manifest.files, *(pack.file for pack in manifest.packs))})
    number = {owner: at for at, owner in enumerate(owners)}

    def row(file: StoredFile) -> list[object]:
        return [file.name, number[file.owner], file.size, file.sha256]

    head = {
        "format": _FORMAT,
        "version": VERSION,
        **manifest.backup.__dict__,
        "entries_per_folder": manifest.per_folder,
    }
    body = {
        "owners": owners,
        "packs": [[*row(pack.file), pack.first, [*pack.sizes]] for pack in manifest.packs],
        "files": [row(file) for file in manifest.files],
    }
    place = {file.name: at for at, file in enumerate(manifest.files)}
    body["inside"] = [
        [place[page], [place[name] for name in names]]
        for page, names in manifest.inside.items()
        if page in place and all(name in place for name in names)
    ]
    lines = f"{_text(head)}\n{_text(body)}\n".encode()
    return lines + f"{sha256(lines).hexdigest()}\n".encode()


def given_up(backup_id: str) -> bytes:
    """What stands in place of the manifest of a backup that will never be whole."""
    return f"{_text({'format': _FORMAT, 'version': VERSION, 'id': backup_id, 'given_up': True})}\n".encode()


def summary_of(data: bytes, where: str) -> Backup | None:
    """The summary in the first line, None of a backup that was `given_up`.

    Raises `UnsupportedVersionError` for a manifest of a newer version, `CorruptRecordError` for anything else.
    """
    head = _head(data, where)
    if head.get("given_up") is True:
        return None
    try:
        return Backup(**{name: _typed(head, name) for name in Backup.__dataclass_fields__})
    except _MALFORMED as error:
        raise _damaged(where, error) from error


def decode(data: bytes, where: str) -> Manifest:
    """The manifest of these bytes; its checksum is compared. Raises as `summary_of`."""
    head = _head(data, where)
    end = data.rstrip(b"\n").rfind(b"\n") + 1
    if sha256(data[:end]).hexdigest().encode() + b"\n" != data[end:]:
        raise CorruptRecordError(
            f"{where} is damaged: its SHA-256 is not the stored one. Restore from another backup, and back up again"
        )
    backup = summary_of(data, where)
    try:
        assert backup is not None
        body = json.loads(data[:end].split(b"\n")[1])
        owners = body["owners"]

        def file(row: list[Any]) -> StoredFile:
            return StoredFile(row[0], owners[row[1]], row[2], row[3])

        packs = tuple(Pack(file(row), row[4], tuple(row[5])) for row in body["packs"])
        files = tuple(map(file, body["files"]))
        inside = {
            files[page].name: tuple(files[at].name for at in names) for page, names in body.get("inside", ())
        }
        return Manifest(backup, head["entries_per_folder"], packs, files, inside)
    except (*_MALFORMED, AssertionError) as error:
        raise _damaged(where, error) from error


def _head(data: bytes, where: str) -> dict[str, Any]:
    try:
        head = json.loads(data.partition(b"\n")[0])
        if head["format"] != _FORMAT:
            raise ValueError(f"format is {head['format']!r}")
        version = int(head["version"])
    except _MALFORMED as error:
        raise _damaged(where, error) from error
    if version > VERSION:
        raise UnsupportedVersionError(
            f"{where} has format version {version}; this spark_eos reads versions up to {VERSION}: upgrade it"
        )
    fields: dict[str, Any] = head
    return fields


def _typed(head: dict[str, Any], name: str) -> Any:
    type_ = str if Backup.__dataclass_fields__[name].type == "str" else int
    if type(head[name]) is not type_:
        raise TypeError(f"{name} is {head[name]!r}")
    return head[name]


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _damaged(where: str, error: Exception) -> CorruptRecordError:
    return CorruptRecordError(
        f"{where} is no manifest of a backup ({error}). Restore from another backup, and back up again"
    )
