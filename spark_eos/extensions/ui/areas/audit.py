"""What was done to the log, and by whom, also in entries that are retired."""

from __future__ import annotations

from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question, page
from spark_eos.protocol.state import Event


def audit(follower: Follower, question: Question) -> Answer:
    """A page of the log's trail, newest first; ``filter`` is a part of a name, a writer, or what was done."""
    substring = question.text("filter", "", most=1000).casefold()
    events = [
        event
        for event in reversed(follower.state.trail)
        if any(substring in text.casefold() for text in (event.name, event.what, event.writer))
    ]
    return page(question, events, shown, ("time", "what", "name", "writer", "times", "text", "entry"))


def shown(event: Event) -> Answer:
    """An event as it is shown."""
    return {
        "entry": event.entry,
        "time": event.timestamp_ms,
        "writer": event.writer,
        "what": event.what,
        "name": event.name,
        "text": event.text,
        "times": event.times,
        "first": event.first_ms,
    }
