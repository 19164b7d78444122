"""What a misspelt name was probably meant to be: for options, topics, and whatever else has names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST = 100


def nearest(name: str, *groups: Iterable[str]) -> str | None:
    """The known name that is most like ``name``, whatever the case of letters; None if none is like it.

    Of several groups of known names, the first one that has such a name decides.
    """
    for group in groups:
        spellings = {candidate.lower(): candidate for candidate in group}
        near = difflib.get_close_matches(str(name).lower(), spellings, 1)
        if near:
            return spellings[near[0]]
    return None


def suggestion(name: str, *groups: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one, else the first group, up to `_MOST` of it."""
    near = nearest(name, *groups)
    if near:
        return f"did you mean {near}?"
    first = [*groups[0]]
    more = f", … ({len(first)} in all)" if len(first) > _MOST else ""
    return f"known are {', '.join(first[:_MOST])}{more}" if first else "there are none"
