"""From what users write (a path, ``file:///…``, ``s3://…``, ``memory://…``) to a `Store`."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from spark_eos.errors import ConfigError, UnsupportedStoreError
from spark_eos.extending import needed
from spark_eos.storage.gil import check_gil, has_gil
from spark_eos.storage.memory import MemoryStore
from spark_eos.storage.objects.clients import SCHEMES, parse_location
from spark_eos.storage.posix.store import PosixStore
from spark_eos.storage.registry import factory_of
from spark_eos.storage.settings import DATA, DATA_URL, ENCRYPTION, MACHINES, NO_SETTINGS, Settings
from spark_eos.storage.store import Store

SUPPORTED = (
    "a folder (/data/log or file:///data/log), a bucket or container (s3://, az://, abfss://, gs://) or, inside one "
    "process, memory://name"
)

# One letter is no scheme: a drive letter is no URL, and "a:b" a legal file name.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)

SERVER = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d+")
"""The address of a server, which other systems take where a log is named here."""


def open_store(url: str | os.PathLike[str], settings: Settings = NO_SETTINGS) -> Store:
    """The store that ``url`` names; nothing is created or even looked at yet.

    ``settings`` are those of an object store, and of encryption (`spark_eos.storage.settings`). ``url`` is one of:

    - a path (relative ones count from the current folder; never percent-decoded); a ``PathLike`` is always one
    - ``file:/path`` or ``file:///path`` (percent-decoded, as RFC 8089 says and `pathlib.Path.as_uri` writes)
    - ``memory://name``, which every caller in this process shares
    - a URL of a store that another package brings (`spark_eos.storage.registry`)
    - a place in a bucket or container, never percent-decoded: ``s3://bucket/path`` (``s3a://`` is the same),
      ``az://container/path``, ``abfss://container@account.dfs.core.windows.net/path``, ``gs://bucket/path``

    Raises `UnsupportedStoreError` for every other scheme and `ConfigError` for a malformed URL or settings that do
    not fit, and in a Python without its global lock.
    """
    check_gil(has_gil())
    inner = _open(url, settings.without(ENCRYPTION).without(DATA))
    if settings.of(DATA):
        from spark_eos.storage.two_stores import TwoStores

        inner = TwoStores(inner, settings.without(ENCRYPTION))
    if not settings.of(ENCRYPTION):
        return inner
    encrypted = needed("store_wrappers", ENCRYPTION, f"{url}: the setting encryption.keys")
    wrapped: Store = encrypted(inner, settings)
    return wrapped


def _open(url: str | os.PathLike[str], settings: Settings) -> Store:
    if not isinstance(url, str):
        return _no_cloud(settings, _folder(os.fsdecode(url), url))
    match = _SCHEME.fullmatch(url)
    if match is None:
        return _no_cloud(settings, _folder(url, url))
    scheme, hier_part = match[1].lower(), match[2]
    if scheme in SCHEMES:
        from spark_eos.storage.objects.store import ObjectStore

        listen = settings.get("machines.listen")
        return ObjectStore(parse_location(url), settings.without(MACHINES), listen=listen)
    if scheme == "file":
        return _no_cloud(
            settings, _folder(unquote(_file_path(hier_part, url), errors="surrogateescape"), url)
        )
    if scheme == "memory":
        return _no_cloud(settings, MemoryStore(_memory_name(hier_part, url)))
    factory = factory_of(scheme)
    if factory is not None:
        return _no_cloud(settings, factory(url))
    if scheme == "dbfs":
        raise UnsupportedStoreError(
            f"{url}: a log cannot be in DBFS or in a Unity Catalog Volume, which have no hard links. "
            "Give the URL of a bucket or container (s3://…, abfss://…, gs://…), for example of an external location"
        )
    raise UnsupportedStoreError(
        f"{url}: this version has no store for {scheme}: URLs, and no installed package has one; use {SUPPORTED}. "
        f"If {url!r} is meant as a folder, write it as './{url}'"
    )


def absolute(url: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The same place, also after this process has gone to another folder."""
    if not isinstance(url, str | os.PathLike):  # A store that was opened already.
        return url
    if not url or (isinstance(url, str) and _SCHEME.fullmatch(url)):
        return url
    path = os.fsdecode(url)
    _check_home(path)
    return os.path.abspath(path)


def is_object_store(url: str) -> bool:
    """Whether ``url`` names a place in a bucket or container."""
    return url.partition(":")[0].lower() in SCHEMES and ":" in url


def settings_of(url: str, settings: Settings) -> Settings:
    """Those of ``settings`` that are for the kind of object store that ``url`` names."""
    return settings.of(f"{SCHEMES[url.partition(':')[0].lower()]}.") if is_object_store(url) else NO_SETTINGS


def log_settings_of(url: str, settings: Settings) -> Settings:
    """As `settings_of`, and those of encryption, of the data's own store and of group commit, if a log is there."""
    machines = settings.of(MACHINES) if is_object_store(url) else NO_SETTINGS
    own = {**settings.of(ENCRYPTION), **settings.of(DATA), **machines}
    return Settings({**settings_of(url, settings), **own})


def data_store(url: str, settings: Settings) -> Store:
    """The store of the data files of a log whose chain has ``settings``; the same one for all who ask."""
    return shared_store(url, data_settings_of(url, settings))


def data_settings_of(url: str, settings: Settings) -> Settings:
    """Those of the chain, as far as they are for the kind of store at ``url``, and over them those with ``data.``."""
    own = {name.removeprefix(DATA): value for name, value in settings.of(DATA).items() if name != DATA_URL}
    return Settings({**settings_of(url, settings), **own})


def wanted_data_url(settings: Settings) -> str | None:
    """Where a log that is created or copied with these settings is to have its data, in the one spelling."""
    url = settings.get(DATA_URL)
    if url is None:
        if settings.of(DATA):
            raise ConfigError(
                f"setting {next(iter(settings.of(DATA)))} is one of the store of data files, and {DATA_URL} does not "
                "say where that is: add it, or leave the setting out"
            )
        return None
    return data_store(url, settings).url


def shared_store(url: str | os.PathLike[str], settings: Settings = NO_SETTINGS) -> Store:
    """As `open_store`; the same one for all callers in this process with the same settings.

    What it has made sure of is done once, and its connections are used again. A store in a folder syncs folders that
    it has not used before: for a task of a few rows that is most of the work.
    """
    store = _SHARED.get((url, settings)) if isinstance(url, str) else None
    if store is None:
        opened = open_store(url, settings)
        store = _SHARED.setdefault((opened.url, settings), opened)
        if isinstance(url, str) and not store.requests_are_free:
            _SHARED[url, settings] = (
                store  # A client takes milliseconds to make; what a folder is may change.
            )
    return store


_SHARED: dict[tuple[str, Settings], Store] = {}


def _no_cloud(settings: Settings, store: Store) -> Store:
    if settings:
        raise ConfigError(
            f"setting {next(iter(settings))} is one of an object store, and {store.url} is none: leave it out"
        )
    return store


def _folder(path: str, url: object) -> PosixStore:
    if not path or "\0" in path:
        raise ConfigError(f"{url!r} names no folder: it is empty or contains a NUL; use {SUPPORTED}")
    _check_home(path)
    return PosixStore(path)


def _check_home(path: str) -> None:
    """Raise `ConfigError` for a home folder as a shell writes it: a folder of the name ``~`` would be made."""
    if path.partition("/")[0] == "~":
        raise ConfigError(
            f"{path}: only a shell puts a home folder in the place of ~, and not inside of an argument such as "
            f"--to=~/x. Write the whole path, or ./{path} for a folder of this name"
        )


def _file_path(hier_part: str, url: str) -> str:
    if not hier_part.startswith("//"):
        path = hier_part
    else:
        host, slash, path = hier_part[2:].partition("/")
        if host not in ("", "localhost"):
            raise ConfigError(f"{url}: {host!r} stands where a host would; write file:///{host}{slash}{path}")
        path = slash + path
    if not path.startswith("/"):
        raise ConfigError(f"{url}: a file: URL needs an absolute path, such as file:///data/log")
    return path


def _memory_name(hier_part: str, url: str) -> str:
    name = hier_part.removeprefix("//").rstrip("/")
    if not hier_part.startswith("//") or not name or name.startswith("/"):
        raise ConfigError(f"{url}: a memory: URL needs a name, such as memory://name")
    return name
