"""Settings of the whole log, as its users see them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from spark_eos.errors import ConfigError
from spark_eos.protocol.rules.settings import LOG_CONFIGS as _DEFAULTS
from spark_eos.protocol.rules.settings import is_setting

__all__ = ["LOG_CONFIGS", "check_log_config"]

LOG_CONFIGS: dict[str, str] = {name: str(default) for name, default in _DEFAULTS.items()}
"""Settings of a log and their defaults; Kafka has them as settings of its brokers."""


def check_log_config(config: Mapping[str, object]) -> dict[str, str]:
    """The settings as text. Raises `ConfigError` for an unknown one (with the nearest known) or a bad value."""
    checked = {}
    for name, value in config.items():
        if name not in LOG_CONFIGS:
            near = difflib.get_close_matches(name, LOG_CONFIGS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(LOG_CONFIGS)}"
            raise ConfigError(f"unknown setting of a log {name!r}; {hint}")
        text = str(value)
        if not is_setting(text):
            raise ConfigError(f"{name} must be a whole number from 1 up, not {value!r}")
        checked[name] = text
    return checked
