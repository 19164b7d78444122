"""What a mutant is."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Mutant"]


class Mutant(NamedTuple):
    """One small break. ``old`` is in ``file`` exactly once, and ``new`` stands in its place.

    ``breaks`` says in words what goes wrong; ``area`` are pytest arguments: the tests that are nearest.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: str
    area: tuple[str, ...]
