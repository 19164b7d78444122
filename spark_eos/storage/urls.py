"""From what users write (a path, ``file:///…``, ``memory://…``) to a `Store`."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from spark_eos.errors import ConfigError, UnsupportedStoreError
from spark_eos.storage.memory import MemoryStore
from spark_eos.storage.posix import PosixStore
from spark_eos.storage.store import Store

__all__ = ["open_store", "shared_store"]

SUPPORTED = "a folder (/data/log or file:///data/log) or, inside one process, memory://name"

# One letter is no scheme: a drive letter is no URL, and "a:b" a legal file name.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)


def open_store(url: str | os.PathLike[str]) -> Store:
    """The store that ``url`` names; nothing is created or even looked at yet.

    A path (relative ones count from the current folder; never percent-decoded), ``file:/path`` or
    ``file:///path`` (percent-decoded, as RFC 8089 says and `pathlib.Path.as_uri` writes), or
    ``memory://name``, which every caller in this process shares. A ``PathLike`` is always a path.

    Raises `UnsupportedStoreError` for every other scheme and `ConfigError` for a malformed URL.
    """
    if not isinstance(url, str):
        return _folder(os.fsdecode(url), url)
    match = _SCHEME.fullmatch(url)
    if match is None:
        return _folder(url, url)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return _folder(unquote(_file_path(rest, url), errors="surrogateescape"), url)
    if scheme == "memory":
        return MemoryStore(_memory_name(rest, url))
    raise UnsupportedStoreError(
        f"{url}: this version has no store for {scheme}: URLs; use {SUPPORTED}. "
        f"If {url!r} is meant as a folder, write it as './{url}'"
    )


def shared_store(url: str | os.PathLike[str]) -> Store:
    """As `open_store`; the same one for everybody in this process, so what it has made sure of is done once.

    A store in a folder syncs folders that it has not used before: for a task of a few rows that is most of the work.
    """
    store = open_store(url)
    return _SHARED.setdefault(store.url, store)


_SHARED: dict[str, Store] = {}


def _folder(path: str, url: object) -> PosixStore:
    if not path or "\0" in path:
        raise ConfigError(f"{url!r} names no folder: it is empty or contains a NUL; use {SUPPORTED}")
    return PosixStore(path)


def _file_path(rest: str, url: str) -> str:
    if not rest.startswith("//"):
        path = rest
    else:
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise ConfigError(f"{url}: {host!r} stands where a host would; write file:///{host}{slash}{path}")
        path = slash + path
    if not path.startswith("/"):
        raise ConfigError(f"{url}: a file: URL needs an absolute path, such as file:///data/log")
    return path


def _memory_name(rest: str, url: str) -> str:
    name = rest.removeprefix("//").rstrip("/")
    if not rest.startswith("//") or not name or name.startswith("/"):
        raise ConfigError(f"{url}: a memory: URL needs a name, such as memory://name")
    return name
