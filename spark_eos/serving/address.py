"""Addresses of servers of this package: as they are given, and as they are shown."""

from __future__ import annotations

from urllib.parse import urlsplit

_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""Where this machine reaches a server that listens to all its addresses: no one can go to ``0.0.0.0``."""


def split_address(text: str) -> tuple[str, int]:
    """Host and port of ``host``, ``host:port`` or ``[::1]:port``; 0, any free port, if it has none.

    The text was checked with the settings (`spark_eos.config.store`).
    """
    parts = urlsplit(f"//{text}")
    assert parts.hostname is not None
    return parts.hostname, parts.port or 0


def url_of(host: str, port: int) -> str:
    """Where this machine reaches a server that listens at ``host``, without a slash at the end."""
    shown = _ANY.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}"
