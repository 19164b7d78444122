"""Numbers of things in texts for people."""

from __future__ import annotations


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number and what is counted: ``1 file``, ``2,000 files``. ``plural`` is by default ``singular`` and an s."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"
