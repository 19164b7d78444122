"""What an extension may add to the kernel, and how the kernel finds it.

An extension is a folder of `spark_eos.extensions`. Its ``__init__.py`` has one `Extension`, named ``EXTENSION``, and
loads nothing else. The kernel imports no extension: it asks `added` for what it needs by a key, when it needs it. So a
folder that is deleted takes away what it adds, and all else works.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal, TypeAlias

from spark_eos.errors import ConfigError

Seam: TypeAlias = Literal[
    "names", "commands", "store_wrappers", "group_channels", "value_formats", "maintenance", "table_versions"
]
"""A field of `Extension`: a place where the kernel takes what it does not have itself."""

_PACKAGE = "spark_eos.extensions"


@dataclass(frozen=True, kw_only=True)
class Extension:
    """What one extension adds. Values are ``module:attribute`` below its package, and are loaded when needed."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Public names: ``spark_eos.AIOConsumer``."""

    commands: Mapping[str, str] = field(default_factory=dict)
    """Commands of ``eoslog`` by their first word: `spark_eos.cli.usage.added.Added`."""

    store_wrappers: Mapping[str, str] = field(default_factory=dict)
    """By the settings that ask for it (``encryption.``): ``wrap(store, settings) -> Store``."""

    group_channels: Mapping[str, str] = field(default_factory=dict)
    """By the setting that asks for it: ``channels(value)`` gives what makes a channel of ``(store, local channel)``."""

    value_formats: Mapping[str, str] = field(default_factory=dict)
    """By the topic's ``value.format``: a `spark_eos.log.values.codec.ValueFormat`."""

    maintenance: Mapping[str, str] = field(default_factory=dict)
    """Steps of a pass of maintenance: ``step(log) -> spark_eos.maintenance.maintain.Step``."""

    table_versions: Mapping[str, str] = field(default_factory=dict)
    """Where a stream begins that goes on from a table: ``stamped_version(table, version, settings)``."""


def added(seam: Seam, key: str) -> Any | None:
    """What an extension adds under this key; None if none does."""
    where = _keys(seam).get(key)
    return None if where is None else _load(where)


def needed(seam: Seam, key: str, feature: str) -> Any:
    """As `added`. Raises `ConfigError`, which says ``feature`` needs it, if no extension adds it."""
    addition = added(seam, key)
    if addition is None:
        raise ConfigError(
            f"{feature} needs an extension that this installation of spark_eos was made without "
            f"({_PACKAGE}, {seam} {key!r}): install the whole package"
        )
    return addition


def public(package: str, name: str) -> Any:
    """A public name of a package that an extension adds: for its ``__getattr__``. Raises `AttributeError`."""
    value = added("names", f"{package}.{name}")
    if value is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    setattr(sys.modules[package], name, value)
    return value


def all_added(seam: Seam) -> Iterator[tuple[str, Any]]:
    """All that extensions add there, by their keys, in the order of the extensions' names."""
    for key, where in _keys(seam).items():
        yield key, _load(where)


def keys_added(seam: Seam) -> tuple[str, ...]:
    """The keys of `all_added`; only the declarations are loaded."""
    return (*_keys(seam),)


@lru_cache(maxsize=16)
def _keys(seam: Seam) -> dict[str, str]:
    """Where what is added lies, by its key: ``module:attribute``."""
    return {
        key: f"{package}.{where}"
        for package, extension in _extensions()
        for key, where in getattr(extension, seam).items()
    }


@lru_cache(maxsize=1)
def _extensions() -> tuple[tuple[str, Extension], ...]:
    try:
        folders = import_module(_PACKAGE)
    except ModuleNotFoundError:
        return ()
    names = sorted(module.name for module in pkgutil.iter_modules(folders.__path__) if module.ispkg)
    packages = [f"{_PACKAGE}.{name}" for name in names]
    return tuple((package, import_module(package).EXTENSION) for package in packages)


def _load(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)
