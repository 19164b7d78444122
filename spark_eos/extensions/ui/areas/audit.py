"""What was done to the log, and by whom, also in entries that are retired."""

from __future__ import annotations

from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question, page
from spark_eos.protocol.state import Event

__all__ = ["audit", "shown"]


def audit(follower: Follower, question: Question) -> Answer:
    """A page of the log's trail, newest first; ``filter`` is a part of a name, a writer, or what was done."""
    wanted = question.text("filter", "", most=1000).casefold()
    found = [
        one
        for one in reversed(follower.state.trail)
        if any(wanted in text.casefold() for text in (one.name, one.what, one.writer))
    ]
    return page(question, found, shown, ("time", "what", "name", "writer", "times", "text", "entry"))


def shown(one: Event) -> Answer:
    """An event as it is shown."""
    return {
        "entry": one.entry,
        "time": one.timestamp_ms,
        "writer": one.writer,
        "what": one.what,
        "name": one.name,
        "text": one.text,
        "times": one.times,
        "first": one.first_ms,
    }
