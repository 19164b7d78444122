"""The frame around all objects in ``_log/``: which kind of object, in which format, and whether it is undamaged.

6 bytes   magic: the kind of object
2 bytes   format version, big-endian
8 bytes   fingerprint of the Avro schema that wrote the body
4 bytes   CRC32C of the body, big-endian
the rest  the body: one schemaless Avro record
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, NamedTuple

import google_crc32c

from spark_eos.errors import CorruptRecordError, UnsupportedVersionError

_HEADER = Struct(">6sH8sI")

_BEFORE_RELEASE = (
    "907edfb7 9c14ef28 199551f9 056127e3 f71b31a2 9af850fd 397afa88 bc4c62c7 76a39916 a70bf9d6 987ad6ae 69db9c22 "
    "84fc59c3 fb888bbb 38b66d92 f184823d 7d3a3d53 dd48f878 486c6509 c8de102c 8228ed12 a60a3769 44378481 d8387530 "
    "d6e23a12 02853745"
)
"""How the fingerprints of entries and snapshots begin that were written before the first release."""


class Frame(NamedTuple):
    """One kind of object: its ``magic``, its name in messages, and the newest ``version`` that is known here."""

    magic: bytes
    kind: str
    version: int

    def wrap(self, body: bytes, fingerprint: bytes) -> bytes:
        """The body in its frame."""
        return _HEADER.pack(self.magic, self.version, fingerprint, google_crc32c.value(body)) + body

    def unwrap(self, data: Any, schemas: Mapping[bytes, Any], where: str) -> tuple[bytes, Any]:
        """Body and schema of ``data`` (anything with a buffer of bytes); ``where`` names it in messages.

        Raises `UnsupportedVersionError` for an object of a newer version, `CorruptRecordError` for all else that
        is not as `wrap` made it.
        """
        view = memoryview(data).cast("B")
        magic = bytes(view[: len(self.magic)])
        if magic != self.magic:
            raise CorruptRecordError(
                f"{where} is no {self.kind}: it begins with {magic!r}, not {self.magic!r}"
            )
        if len(view) < _HEADER.size:
            raise CorruptRecordError(
                f"{where} is cut off: {len(view)} bytes are less than the header of a {self.kind}"
            )
        _, version, fingerprint, crc = _HEADER.unpack_from(view)
        if version == 0:
            raise CorruptRecordError(f"{where} says format version 0, which never was")
        if version > self.version:
            raise UnsupportedVersionError(
                f"{where} has format version {version}; this spark_eos reads versions up to {self.version}: "
                "upgrade it"
            )
        body = bytes(view[_HEADER.size :])
        schema = schemas.get(fingerprint)
        if schema is None and fingerprint[:4].hex() in _BEFORE_RELEASE:
            raise UnsupportedVersionError(
                f"{where} was written before the first release of spark_eos, which begins a new format: read the log "
                "with the version that wrote it, and send its records to a new log"
            )
        if schema is None:
            fingerprints = ", ".join(key.hex() for key in schemas)
            raise UnsupportedVersionError(
                f"{where} has schema {fingerprint.hex()} of format version {version}; this spark_eos "
                f"knows {fingerprints}: upgrade it"
            )
        if google_crc32c.value(body) != crc:
            raise CorruptRecordError(
                f"{where} is damaged: the CRC32C of its {len(body)} bytes is not the stored one"
            )
        return body, schema
