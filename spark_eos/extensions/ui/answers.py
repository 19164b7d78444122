"""Values as JSON has them: points of a chart, settings, times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_eos.errors.hidden import safe_url
from spark_eos.extensions.ui.series import Point

_SPARK = 60
"""Values of a sparkline."""

_HIDDEN = (
    "password",
    "secret",
    "token",
    "credential",
    "user.info",
    "access.key",
    "account.key",
    "private.key",
)


def spark(series: Sequence[Point]) -> list[float]:
    """The newest values, for a sparkline."""
    return [round(point.value, 1) for point in series[-_SPARK:]]


def points(series: Sequence[Point]) -> list[list[float]]:
    """Times (ms) and values, for a chart."""
    return [[point.time_ms, point.value] for point in series]


def settings(config: Mapping[str, str]) -> list[dict[str, Any]]:
    """Settings by name; the value of one that may be a secret is left out."""
    return [
        {"name": name, "value": "(hidden)" if _is_secret(name) else safe_url(value)}
        for name, value in sorted(config.items())
    ]


def _is_secret(name: str) -> bool:
    return any(part in name.lower() for part in _HIDDEN)
