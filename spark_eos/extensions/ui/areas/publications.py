"""Publications: topics as tables, and how far the tables are behind the log."""

from __future__ import annotations

from spark_eos.extensions.ui.answers import settings
from spark_eos.extensions.ui.areas.troubles import troubles
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question, page
from spark_eos.protocol.publication import Publication


def publications(follower: Follower, question: Question) -> Answer:
    """A page of the publications."""
    state = follower.state
    sorted_publications = [state.publications[name] for name in sorted(state.publications)]
    unfinished = {trouble.about for trouble in troubles(follower) if trouble.name == "publication unfinished"}

    def row(publication: Publication) -> Answer:
        published = publication.published
        behind = 0
        for topic, topic_id in publication.topics:
            current_topic = state.topics.get(topic)
            for number in range(
                0 if current_topic is None or current_topic.topic_id != topic_id else current_topic.partitions
            ):
                key = topic_id, number
                pin = None if published is None else published.pins.get(key)
                part = state.partitions[key]
                behind += part.last_stable_offset - (part.start if pin is None else max(pin.end, part.start))
        return {
            "name": publication.name,
            "format": publication.format,
            "settings": settings(publication.config),
            "topics": [
                {"topic": topic, "version": None if published is None else published.natives.get(topic)}
                for topic, _ in publication.topics
            ],
            "sequence": None if published is None else published.sequence,
            "entry": None if published is None else published.entry,
            "time": None if published is None else published.timestamp_ms,
            "entries_behind": None if published is None else state.seq - published.entry,
            "behind": max(behind, 0),
            "begun": publication.begun is not None,
            "unfinished": publication.name in unfinished,
        }

    return {
        "seq": state.seq,
        **page(question, sorted_publications, row, ("name", "format", "sequence", "entry", "time", "behind")),
    }
