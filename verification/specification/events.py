"""Steps of the commit path, as `specs/Commit.tla` names them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Event", "Name"]

Name = tuple[int, int]
"""A request, as the specification names it: the number of its process, and its number there."""


@dataclass(slots=True)
class Event:
    """One step. ``kind`` may change when it is known what came of it; ``free`` is none."""

    kind: str
    process: int
    slot: int = 0
    requests: tuple[Name, ...] = ()
    flags: tuple[bool, bool] = (False, False)
    others: tuple[int, ...] = ()
    """Processes whose requests are taken along; or the newest entry of a report."""
