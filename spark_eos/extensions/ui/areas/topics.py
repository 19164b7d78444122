"""Topics and partitions."""

from __future__ import annotations

from itertools import islice
from typing import Any

from spark_eos.errors import CorruptRecordError
from spark_eos.extensions.ui.answers import settings, spark
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question, page
from spark_eos.extensions.ui.series import Total
from spark_eos.log.topics import schema_error, schema_of
from spark_eos.protocol.state import State, Topic

_SORTS = ("name", "records", "rate", "held")


def topics(follower: Follower, question: Question) -> Answer:
    """A page of the topics: those whose name has a text in it, in the order that is asked for."""
    state, series = follower.state, follower.series
    substring = question.text("filter", "").casefold()
    sort = question.choice("sort", _SORTS)
    totals, rates = series.totals, series.rates_now()
    matches = [topic for topic in state.topics.values() if substring in topic.name.casefold()]

    def total(topic: Topic) -> Total:
        return totals.get(topic.topic_id, Total())

    keys: dict[str, Any] = {
        "name": lambda topic: topic.name,
        "records": lambda topic: (-total(topic).offsets, topic.name),
        "rate": lambda topic: (-rates.get(topic.topic_id, 0), topic.name),
        "held": lambda topic: (-total(topic).held, topic.name),
    }
    matches.sort(key=keys[sort])

    def row(topic: Topic) -> Answer:
        return {
            "name": topic.name,
            "partitions": topic.partitions,
            "offsets": total(topic).offsets,
            "held": total(topic).held,
            "rate": rates.get(topic.topic_id, 0),
            "spark": spark(series.topic_rates(topic.topic_id)),
            "format": _format(topic),
        }

    return {"seq": state.seq, "all": len(state.topics), **page(question, matches, row)}


def show_topic(follower: Follower, question: Question) -> Answer:
    """A topic: what it is, and a page of its partitions."""
    state, series = follower.state, follower.series
    topic = follower.topic(question.text("topic"))
    only = question.choice("only", ("all", "held", "busy"))
    sort = question.choice("sort", ("partition", "start", "end", "rate", "held"))
    parts = [(number, state.partitions[topic.topic_id, number]) for number in range(topic.partitions)]
    if only == "held":
        parts = [pair for pair in parts if pair[1].last_stable_offset < pair[1].end]
    rates = series.partition_rates_now()
    if only == "busy":
        parts = [pair for pair in parts if rates.get((topic.topic_id, pair[0]))]
    if sort == "start":
        parts.sort(key=lambda pair: -pair[1].start)
    elif sort == "end":
        parts.sort(key=lambda pair: -pair[1].end)
    elif sort == "held":
        parts.sort(key=lambda pair: pair[1].last_stable_offset - pair[1].end)
    elif sort == "rate":
        parts.sort(key=lambda pair: -rates.get((topic.topic_id, pair[0]), 0))

    def row(pair: Any) -> Answer:
        number, part = pair
        key = topic.topic_id, number
        return {
            "partition": number,
            "start": part.start,
            "end": part.end,
            "lso": part.last_stable_offset,
            "held": part.end - part.last_stable_offset,
            "open": len(part.open),
            "rate": rates.get(key, 0),
            "spark": spark(series.partition_rates(key)),
        }

    total = series.totals.get(topic.topic_id, Total())
    return {
        "name": topic.name,
        "id": topic.topic_id,
        "partitions": topic.partitions,
        "offsets": total.offsets,
        "held": total.held,
        "spark": spark(series.topic_rates(topic.topic_id)),
        "format": _format(topic),
        "settings": settings(topic.config),
        "columns": _columns(topic),
        "versions": len(topic.schemas),
        "problem": schema_error(topic),
        "publications": [publication.name for publication in state.publications_of(topic.topic_id)],
        "readers": _readers(state, topic),
        **{f"page_{name}": value for name, value in page(question, parts, row).items()},
    }


def _format(topic: Topic) -> str:
    return "columns" if topic.schemas else topic.config.get("value.format", "bytes")


def _columns(topic: Topic) -> list[Answer]:
    try:
        schema = schema_of(topic)
    except CorruptRecordError:
        return []
    return [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in (() if schema is None else schema)
    ]


def _readers(state: State, topic: Topic) -> list[str]:
    """Groups that have committed an offset in one of the topic's first partitions; a hundred at most."""
    first = [(topic.name, number) for number in range(min(topic.partitions, 64))]
    groups = (group for group in sorted(state.offsets) if any(at in state.offsets[group] for at in first))
    return list(islice(groups, 100))
