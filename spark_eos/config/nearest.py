"""What a misspelt name was probably meant to be: for options, topics, and whatever else has names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest", "suggestion"]


def nearest(name: str, *known: Iterable[str]) -> str | None:
    """The known name that is most like ``name``, whatever the case of letters; None if none is like it.

    Of several groups of known names, the first one that has such a name decides.
    """
    for group in known:
        spellings = {one.lower(): one for one in group}
        near = difflib.get_close_matches(name.lower(), spellings, 1)
        if near:
            return spellings[near[0]]
    return None


def suggestion(name: str, *known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one, else all of the first group."""
    near = nearest(name, *known)
    return f"did you mean {near}?" if near else f"known are {', '.join(known[0])}"
