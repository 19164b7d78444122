"""Which object names are legal: the same ones in every store, so that a log can move between stores."""

from __future__ import annotations

import re
from functools import lru_cache

from spark_eos.errors import InvalidRequestError

TEMP_FOLDER = "_tmp"
"""First part of names that belong to the stores themselves; no object may live under it."""

PROBES = "_probe/"
"""Objects that are made to learn something of a store, and deleted again."""

_TEMP_FOLDER_BYTES = TEMP_FOLDER.encode()

MAX_PART_BYTES = 255
"""Longest part between two slashes, in UTF-8 bytes (the limit of common file systems)."""

MAX_NAME_BYTES = 1024
"""Longest name, in UTF-8 bytes (the limit of S3 keys)."""

_PART = "[A-Za-z0-9_-][A-Za-z0-9_.=-]{0,99}"
_IS_PLAIN = re.compile(f"(?!{TEMP_FOLDER}(?:/|$)){_PART}(?:/{_PART}){{0,7}}").fullmatch
"""Tells in one step that a name such as this project gives is legal. Of other names each rule is looked at."""


def check_name(name: str) -> None:
    """Raise `InvalidRequestError` unless ``name`` may name an object: relative, no empty part, no ``..``."""
    problem = _problem(name) if name else "it is empty"
    if problem:
        raise InvalidRequestError(
            f"{name!r} cannot name an object: {problem}; use a relative name such as 'data/part-0.arrow'"
        )


def is_legal_name(name: str) -> bool:
    """True if `check_name` would let it pass, but for names that are reserved."""
    return bool(name) and _problem(name, reserved=False) is None


def check_prefix(prefix: str) -> None:
    """Raise `InvalidRequestError` unless ``prefix`` is empty or may begin a legal name."""
    if not prefix:
        return
    problem = _problem(prefix.removesuffix("/"), reserved=False)
    if problem:
        raise InvalidRequestError(
            f"{prefix!r} cannot begin an object's name: {problem}; use a prefix such as 'data/' or ''"
        )


def check_range(name: str, offset: int, length: int | None) -> None:
    """Raise `InvalidRequestError` unless ``offset`` and ``length`` are not negative."""
    if offset < 0 or (length is not None and length < 0):
        raise InvalidRequestError(
            f"cannot read {length} bytes at {offset} of {name!r}: neither may be negative; "
            "count from the start of the object, None reads to its end"
        )


@lru_cache(maxsize=256)  # Most names are asked about several times in a row.
def _problem(name: str, *, reserved: bool = True) -> str | None:
    if _IS_PLAIN(name):
        return None
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode text"
    if len(encoded) > MAX_NAME_BYTES:
        return f"it has {len(encoded)} bytes in UTF-8, more than {MAX_NAME_BYTES}"
    if b"\0" in encoded:
        return "it contains a NUL"
    parts = encoded.split(b"/")
    if b"" in parts:
        return "it has an empty part (a slash at the start or end, or two in a row)"
    if b"." in parts or b".." in parts:
        return "it has a part '.' or '..'"
    if max(map(len, parts)) > MAX_PART_BYTES:
        return f"one of its parts has more than {MAX_PART_BYTES} bytes in UTF-8"
    if reserved and parts[0] == _TEMP_FOLDER_BYTES:
        return f"names under {TEMP_FOLDER}/ belong to the store"
    return None
