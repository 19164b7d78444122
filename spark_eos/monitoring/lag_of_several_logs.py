"""Lag of Spark queries that write into one log and read another one.

The log that a query writes into has where its sources stand. The log that it reads has how much comes after that. What
joins them are the ids of the log and of the topics, which are in the query's checkpoint (`Checkpoints`): a name of a
topic alone proves nothing, since a topic of another log, of Kafka, or one that was created again, may have the same
name. What cannot be told for certain is said (`QueryAcross.problem`), and no figure is given for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spark_eos.errors import EosLogError
from spark_eos.errors.hidden import safe_url
from spark_eos.log.log import Log
from spark_eos.monitoring.checkpoints import Checkpoints, Origin
from spark_eos.monitoring.lag import Lag, measured
from spark_eos.monitoring.places import Place, deleted_sources
from spark_eos.protocol.actions.queries.sources import by_name
from spark_eos.protocol.state import Query, State
from spark_eos.protocol.types import MAX_PARTITIONS

_Offsets = dict[str, dict[int, int]]


class QueryAcross(NamedTuple):
    """A topic of another log that a Spark query reads.

    Attributes
    ----------
    log
        The log that the query writes into, without what may be secret in its URL.
    name
        The query's ``transactional.id``.
    topic
        The topic; several, with commas, if it is not known which ones of them are topics of a log.
    source_log
        The log that has the topic; None if that is not known.
    lags
        How far the query is behind in each partition of the topic; none if there is a problem.
    problem
        Why the lag is not known, and what to do; empty if it is known.
    """

    log: str
    name: str
    topic: str
    source_log: str | None
    lags: tuple[Lag, ...]
    problem: str


class Look(NamedTuple):
    """A log that was looked at: its name in messages, and its state."""

    label: str
    state: State


class Reading(NamedTuple):
    """As `QueryAcross`, before it is measured: ``at`` is the number of the log that is read, ``places`` are in it."""

    log: str
    name: str
    topic: str
    at: int | None
    places: tuple[Place, ...]
    problem: str


def lags_across(
    logs: Sequence[Log],
    checkpoints: Checkpoints | None = None,
    *,
    exact: bool = False,
    max_age_s: float = 1.0,
) -> list[QueryAcross]:
    """Tell how far the Spark queries that write into one of these logs are behind in other logs.

    It reads the logs to their ends, and never writes. Queries that read the log they write into are in `lags`, and here
    once their topic was deleted.

    Parameters
    ----------
    logs
        The logs: those that queries write into, and those that they read.
    checkpoints
        The checkpoints of the queries. Without that of a query its lag is not known.
    exact, max_age_s
        As of `lags`.

    Returns
    -------
    list of QueryAcross
        For each query and each topic that it reads outside of its log.

    Examples
    --------
    >>> from spark_eos import Log, Producer
    >>> from spark_eos.monitoring import lags_across
    >>> with Producer("memory://across") as producer:
    ...     _ = producer.send("orders", b"x")
    >>> lags_across([Log.shared("memory://across")])
    []
    """
    looks = [Look(safe_url(log.url), log.follow(max_age_s)) for log in logs]
    if not any(_reads_elsewhere(look.state) for look in looks):
        return []
    # What is read of a log after the place of a query is not older than that place.
    sources = [look._replace(state=log.follow()) for look, log in zip(looks, logs, strict=True)]
    return lags_of_queries(logs, sources, list(readings(looks, sources, checkpoints)), exact=exact)


def lags_of_queries(
    logs: Sequence[Log], sources: Sequence[Look], all_readings: Sequence[Reading], *, exact: bool = False
) -> list[QueryAcross]:
    """The queries with their lags. ``sources`` are looks at ``logs``, in which the readings are."""
    lags: dict[int, Iterator[Lag]] = {}
    for at in sorted({reading.at for reading in all_readings if reading.at is not None}):
        places = [place for reading in all_readings if reading.at == at for place in reading.places]
        state = sources[at].state
        lags[at] = iter(measured(logs[at], state, places, logs[at].time.record_ms(state), exact=exact))
    return [
        QueryAcross(
            *(
                reading.log,
                reading.name,
                reading.topic,
                None if reading.at is None else sources[reading.at].label,
            ),
            () if reading.at is None else tuple(next(lags[reading.at]) for _ in reading.places),
            reading.problem,
        )
        for reading in all_readings
    ]


def readings(
    looks: Sequence[Look], sources: Sequence[Look], checkpoints: Checkpoints | None = None
) -> Iterator[Reading]:
    """What the queries of these logs read elsewhere: where that is in ``sources``, or why it is not known.

    ``sources`` are looks at the same logs, later ones.
    """
    all_checkpoints = checkpoints or Checkpoints()
    for look in looks:
        for name in sorted(look.state.queries):
            query = look.state.queries[name]
            for topic in deleted_sources(look.state, query):
                again = " and created again" if topic in look.state.topics else ""
                problem = f"the topic was deleted{again}: the query cannot go on there. Start it with a new checkpoint"
                yield Reading(look.label, name, topic, None, (), problem)
            ends = _elsewhere(query)
            if ends:
                yield from _of_query(
                    sources, Reading(look.label, name, "", None, (), ""), query, ends, all_checkpoints
                )


def _reads_elsewhere(state: State) -> bool:
    return any(_elsewhere(query) or deleted_sources(state, query) for query in state.queries.values())


def _elsewhere(query: Query) -> dict[str, _Offsets]:
    """Where the sources outside of the log stand that have offsets of partitions, by name."""
    return {
        name: offsets
        for name, source in by_name(query.sources).items()
        if source.group is None and (offsets := _by_topic(source.end)) is not None
    }


def _of_query(
    looks: Sequence[Look], of: Reading, query: Query, sources: dict[str, _Offsets], checkpoints: Checkpoints
) -> Iterator[Reading]:
    topics = ",".join(sorted({topic for offsets in sources.values() for topic in offsets}))
    location = checkpoints.location(query.query_id)
    if location is None:
        yield of._replace(
            topic=topics,
            problem=f"read outside of this log. Which log that is stands in the checkpoint of query {query.query_id}: "
            "give it with --checkpoint LOCATION. Of other sources, such as Kafka, no lag is known here",
        )
        return
    try:
        origins = checkpoints.origins(query.query_id, query.batch_id)
    except EosLogError as error:
        yield of._replace(topic=topics, problem=str(error))
        return
    ends: dict[tuple[str, str, str], dict[int, int]] = {}
    for source, offsets in sources.items():
        origin = origins.get(source)
        if origin is None and source in origins:
            continue  # Not an eoslog source, though its offsets look like one's.
        if origin is None or _numbered(origin) != offsets:
            yield of._replace(
                topic=",".join(sorted(offsets)),
                problem=f"checkpoint {location} has other offsets for micro-batch {query.batch_id} than the log: it is "
                "a copy with which the query has gone on elsewhere, or the query has been started without this source. "
                "Give the checkpoint that it uses, or wait for the next micro-batch",
            )
            continue
        for topic, parts in offsets.items():
            lowest = ends.setdefault((origin.log_id, origin.topic_ids[topic], topic), {})
            for number, offset in parts.items():
                lowest[number] = min(offset, lowest.get(number, offset))
    for (log_id, topic_id, topic), parts in sorted(ends.items()):
        yield _reading_of_topic(looks, of._replace(topic=topic), log_id, topic_id, parts)


def _reading_of_topic(
    looks: Sequence[Look], of: Reading, log_id: str, topic_id: str, parts: dict[int, int]
) -> Reading:
    """The topic in the logs that were looked at."""
    same = [at for at, look in enumerate(looks) if look.state.log_id == log_id]
    having = [
        at for at in same if any(topic.topic_id == topic_id for topic in looks[at].state.topics.values())
    ]
    source = f"source topic id {topic_id}"
    if not same:
        return of._replace(
            problem=f"{source} is in none of the given logs: add the URL of the log with id {log_id}"
        )
    if not having:
        again = " and created again" if any(of.topic in looks[at].state.topics for at in same) else ""
        return of._replace(
            problem=f"{source} was deleted{again} in {looks[same[0]].label}: the query cannot go on there. Start it "
            "with a new checkpoint"
        )
    if len(having) > 1:
        return of._replace(
            problem=f"{source} is in {' and in '.join(looks[at].label for at in having)}, copies of one log: give only "
            "the one that the query reads"
        )
    places = tuple(
        Place("query", of.name, of.topic, (topic_id, number), None, offset)
        for number, offset in sorted(parts.items())
    )
    label, state = looks[having[0]]
    for number, offset in sorted(parts.items()):
        partition = state.partitions.get((topic_id, number))
        if partition is None or partition.end < offset:
            end = "is not there" if partition is None else f"ends at {partition.end}"
            return of._replace(
                problem=f"the query stands at offset {offset} of {of.topic}-{number}, which {end} in {label}: that log "
                "was put back from a backup, or is a copy of the one that the query reads"
            )
    return of._replace(at=having[0], places=places)


def _numbered(origin: Origin) -> _Offsets | None:
    return _by_topic(json.dumps(origin.offsets))


def _by_topic(text: str | None) -> _Offsets | None:
    """Offsets by topic and partition; None if the text is of another kind of source."""
    try:
        value = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not value:
        return None
    offsets: _Offsets = {}
    for topic, parts in value.items():
        if not isinstance(parts, dict):
            return None
        for number, offset in parts.items():
            if not number.isdecimal() or int(number[:9]) > MAX_PARTITIONS or type(offset) is not int:
                return None
        offsets[topic] = {int(number): offset for number, offset in parts.items()}
    return offsets
