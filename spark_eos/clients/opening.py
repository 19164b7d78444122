"""Settings of a client that say how its log is opened: those of the store, and how long opening is tried."""

from __future__ import annotations

import os
from collections.abc import Mapping

from spark_eos.config.store import is_store_option
from spark_eos.errors import ConfigError
from spark_eos.log.log import Log
from spark_eos.storage import Settings, Store, split_settings
from spark_eos.storage.urls import SERVER, absolute


def check_place(client: str, url: object, config: object = None) -> None:
    """Raise `ConfigError` unless ``url`` may be a log, and ``config`` settings: other clients are made otherwise."""
    call = f"{client}('/data/log', {{...}})"
    how = f"the first argument is the log's folder or URL, or an open Log; settings come after it: {call}"
    if isinstance(url, Mapping):
        how += ", without servers" if any("servers" in str(name) for name in url) else ""
        raise ConfigError(f"{client} was given a dict ({', '.join(map(str, url))}) in place of a log: {how}")
    if url is None or url == "":
        raise ConfigError(f"{client} was given no log: {how}")
    if not isinstance(url, (str, os.PathLike, Log, Store)):
        raise ConfigError(f"{client} was given {url!r} in place of a log: {how}")
    if isinstance(url, str) and all(map(SERVER.fullmatch, url.split(","))):
        raise ConfigError(f"{client} was given the server {url!r}, and there are no servers: {how}")
    if config is not None and not isinstance(config, Mapping):
        raise ConfigError(f"{client} was given {config!r} in place of a dict of settings: {how}")


def store_settings(config: Mapping[str, object] | None) -> Settings:
    """The settings of an object store (``s3.…``, ``adls.…``, ``gcs.…``) among those of a client."""
    return split_settings(config or {})[1]


def check_open_log(config: Mapping[str, object] | None) -> None:
    """Raise `ConfigError` for settings of how a log is opened: the client was given one that is open."""
    names = [name for name in config or {} if name == "max.block.ms" or is_store_option(str(name))]
    if names:
        raise ConfigError(
            f"{', '.join(map(str, names))}: this says how a log is opened, but this client was given an open Log. "
            "Leave it out, or give the URL in place of the Log"
        )


def newest(
    url: str | os.PathLike[str] | Log, config: Mapping[str, object] | None, *, create: bool = False
) -> Log:
    """The log at ``url``, or the one that is open, at its newest entry."""
    if isinstance(url, Log):
        check_open_log(config)
        url.follow()
        return url
    return Log.shared(absolute(url), store_settings(config), create=create)
