"""What the trail says of a name that is not there any more. Pure."""

from __future__ import annotations

from spark_eos.protocol.state import State


def gone(state: State, name: str) -> str:
    """`` (topic deleted in entry 7 by 'admin')``: the end of what had the name; empty if the trail has none."""
    for event in reversed(state.trail):
        if event.name == name and event.what.endswith((" deleted", " expired", " dropped")):
            return f" ({event.what} in entry {event.entry:,} by {event.writer!r}; eoslog audit has more)"
    return ""
