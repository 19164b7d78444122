"""Settings of a client that say how its log is opened: those of the store, and how long opening is tried."""

from __future__ import annotations

import os
from collections.abc import Mapping

from spark_eos.config.store import is_store_option
from spark_eos.errors import ConfigError
from spark_eos.log.log import Log
from spark_eos.storage import Settings, split_settings
from spark_eos.storage.urls import absolute

__all__ = ["check_open_log", "newest", "store_settings"]


def store_settings(config: Mapping[str, object] | None) -> Settings:
    """The settings of an object store (``s3.…``, ``adls.…``, ``gcs.…``) among those of a client."""
    return split_settings(config or {})[1]


def check_open_log(config: Mapping[str, object] | None) -> None:
    """Raise `ConfigError` for settings of how a log is opened: the client was given one that is open."""
    given = [name for name in config or {} if name == "max.block.ms" or is_store_option(str(name))]
    if given:
        raise ConfigError(
            f"{', '.join(map(str, given))}: this says how a log is opened, but this client was given an open Log. "
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
