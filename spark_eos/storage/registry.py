"""Stores of other packages, by the scheme of their URLs.

A package that brings a store names it in its metadata, and needs no import anywhere::

    [project.entry-points."spark_eos.stores"]
    toy = "toy_store:open_toy"

So Spark's tasks, which open a log by its URL, find the store wherever the package is installed. A program that needs
the store in its own process alone calls `register_store`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import TypeAlias

from spark_eos.errors import ConfigError
from spark_eos.storage.objects.clients import SCHEMES
from spark_eos.storage.store import Store

Factory: TypeAlias = "Callable[[str], Store]"
"""Makes a store from its URL. It creates nothing, and asks nothing of the store."""

GROUP = "spark_eos.stores"
"""The group of entry points; the name of each is a scheme."""

_OWN = frozenset({"file", "memory", *SCHEMES})
_LEGAL = re.compile(r"[a-z][a-z0-9+.-]+")

_registered: dict[str, Factory] = {}


def register_store(scheme: str, factory: Factory) -> None:
    """Open URLs with ``scheme`` by ``factory`` in this process, instead of what was registered before.

    Spark's tasks run in other processes: a store for them comes as an entry point (see the module).

    Parameters
    ----------
    scheme
        What stands before the colon of a URL, in lower case: ``toy`` for ``toy://place``.
    factory
        Called with the whole URL; returns a `Store` whose ``url`` opens it again.

    Raises
    ------
    ConfigError
        The scheme is one of spark_eos itself, or cannot be one of a URL.

    Examples
    --------
    >>> from spark_eos import Admin, register_store
    >>> from spark_eos.storage import MemoryStore
    >>> register_store("toy", lambda url: MemoryStore(url.removeprefix("toy://")))
    >>> Admin("toy://shelf").create_topic("t", 1)
    """
    if not _LEGAL.fullmatch(scheme) or scheme in _OWN:
        raise ConfigError(
            f"a store cannot be registered for {scheme!r}: a scheme has two or more of the characters a-z, 0-9, "
            f"'+', '.' and '-', begins with a letter, and is none of {', '.join(sorted(_OWN))}"
        )
    _registered[scheme] = factory


def factory_of(scheme: str) -> Factory | None:
    """What opens URLs with ``scheme``; None if no package has a store for it.

    Raises `ConfigError` if several packages have one, or if it cannot be loaded.
    """
    return _registered.get(scheme) or _installed(scheme)


@cache
def _installed(scheme: str) -> Factory | None:
    candidates = {*entry_points(group=GROUP, name=scheme)} if scheme not in _OWN else set()
    if not candidates:
        return None
    if len(candidates) > 1:
        names = ", ".join(sorted(candidate.value for candidate in candidates))
        raise ConfigError(
            f"several packages have a store for {scheme}: URLs ({names}): uninstall all but one"
        )
    (candidate,) = candidates
    try:
        loaded: Factory = candidate.load()
    except Exception as error:
        raise ConfigError(
            f"the store for {scheme}: URLs, {candidate.value}, cannot be loaded: {error!r}"
        ) from error
    return loaded
