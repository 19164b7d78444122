"""Consumer groups and Spark queries: how far they are behind."""

from __future__ import annotations

from immutables import Map

from spark_eos.errors import InvalidRequestError
from spark_eos.errors.counting import counted
from spark_eos.extensions.ui.answers import points, spark
from spark_eos.extensions.ui.areas.audit import shown
from spark_eos.extensions.ui.areas.history import oldest_entry, shown_entries
from spark_eos.extensions.ui.areas.troubles import commands, lags_now, silent_members, troubles
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question, page
from spark_eos.monitoring.lag import Lag, totals
from spark_eos.monitoring.members import SilentMember
from spark_eos.monitoring.places import consumer_groups
from spark_eos.monitoring.troubles.trouble import age
from spark_eos.protocol.state import Group, State

_MOST_MEMBERS = 200
"""Members of a group that are shown, by name."""

_ENTRIES = 200
"""Entries that are looked through for micro-batches: as many as the history reads for its bars."""

_OF_WRITERS = {"hanging transaction", "held back", "prepared waits"}
"""Troubles whose name is a ``transactional.id``: a query has one, too."""


def groups(follower: Follower, question: Question) -> Answer:
    """A page of the groups and queries, by lag or by name."""
    state, series = follower.state, follower.series
    substring = question.text("filter", "").casefold()
    kind = question.choice("kind", ("all", "group", "query"))
    sort = question.choice("sort", ("lag", "name"))
    readers = [("group", name) for name in consumer_groups(state)] if kind != "query" else []
    readers += [("query", name) for name in state.queries] if kind != "group" else []
    readers = [reader for reader in readers if substring in reader[1].casefold()]
    lags = {"group": series.group_lags, "query": series.query_lags}
    if sort == "lag":
        readers.sort(key=lambda reader: (-lags[reader[0]].get(reader[1], 0), reader[1], reader[0]))
    else:
        readers.sort(key=lambda reader: (reader[1], reader[0]))

    def row(reader: tuple[str, str]) -> Answer:
        kind_, name = reader
        group = state.groups.get(name)
        return {
            "kind": kind_,
            "name": name,
            "state": (group or Group()).status
            if kind_ == "group"
            else f"micro-batch {state.queries[name].batch_id}",
            "last_ms": _last_commit(state, kind_, name),
            "members": None if kind_ == "query" else 0 if group is None else len(group.members),
            "partitions": len(state.offsets.get(name, ()))
            if kind_ == "group"
            else _read_partitions(state, name),
            "lag": lags[kind_].get(name),
            "unknown": series.unknown.get(name, 0) if kind_ == "group" else 0,
            "spark": spark(series.lags(kind_, name)),
        }

    return {"seq": state.seq, **page(question, readers, row)}


def show_group(follower: Follower, question: Question) -> Answer:
    """A group: its members, its lag over time, and a page of its partitions. All of it is of one moment."""
    name = question.text("group")

    def is_there(state: State) -> bool:
        return name in state.groups or name in state.offsets

    state, lags = lags_now(follower, is_there)
    if not is_there(state):
        raise InvalidRequestError(
            f"the log has no group {name!r}: it may have been deleted, or it has expired"
        )
    group = state.groups.get(name, Group())
    silent = {member.member_id: member for member in silent_members(follower) if member.group == name}
    holders = {
        key: member.client_id or member.member_id for member in group.members.values() for key in member.held
    }
    names = {topic.topic_id: topic.name for topic in state.topics.values()}
    committed = state.offsets.get(name, Map())
    places = {*committed, *((names[key[0]], key[1]) for key in holders if key[0] in names)}
    by_place = {(lag.topic, lag.partition): lag for lag in lags if lag.group == name}
    rows = [
        {
            "topic": topic,
            "partition": number,
            "holder": holders.get((state.topics[topic].topic_id, number)),
            "committed_ms": committed[topic, number].timestamp_ms if (topic, number) in committed else None,
            **_place(by_place.get((topic, number))),
        }
        for topic, number in sorted(places)
    ]
    if question.choice("sort", ("lag", "partition")) == "lag":
        rows.sort(key=lambda row: -(row["lag"] or 0))
    return {
        "kind": "group",
        "name": name,
        "state": group.status,
        "generation": group.generation,
        "assignor": group.assignor,
        "lag": _summed(rows),
        "behind": _lag_answer(lags, "group", name),
        "advice": _advice(follower, state, name, rows),
        "over_time": points(follower.series.lags("group", name)),
        "members": [
            {
                "member": member.member_id,
                "client": member.client_id,
                "instance": member.instance_id,
                "partitions": len(member.held),
                "state": _member_state(
                    silent.get(member.member_id), is_behind=member.generation != group.generation
                ),
            }
            for member in sorted(group.members.values())[:_MOST_MEMBERS]
        ],
        "members_total": len(group.members),
        **{f"page_{key}": value for key, value in page(question, rows, lambda row: row).items()},
    }


def show_query(follower: Follower, question: Question) -> Answer:
    """A Spark query: its last micro-batch, its lag over time, and a page of the partitions that it reads."""
    name = question.text("query")
    state, lags = lags_now(follower, lambda state: name in state.queries)
    query = state.queries.get(name)
    if query is None:
        raise InvalidRequestError(f"the log has no query {name!r}: it may have expired")
    producer = state.producer_of(name)
    by_place = {(lag.topic, lag.partition): lag for lag in lags if (lag.kind, lag.name) == ("query", name)}
    rows = [
        {
            "topic": at.topic,
            "partition": at.partition,
            "committed_ms": None,
            "holder": None,
            **_place(by_place.get((at.topic, at.partition))),
            "committed": at.offset,
        }
        for source in query.sources
        for at in source.end_offsets
    ]
    if question.choice("sort", ("lag", "partition")) == "lag":
        rows.sort(key=lambda row: -(row["lag"] or 0))
    return {
        "kind": "query",
        "name": name,
        "state": f"micro-batch {query.batch_id}",
        "query_id": query.query_id,
        "batch": query.batch_id,
        "stateful": query.stateful,
        "last_ms": None if producer is None else producer.last_ms,
        "epoch": None if producer is None else producer.epoch,
        "run": None if producer is None else producer.run_id,
        "sources": [
            {
                "group": source.group,
                "end": None if source.end is None else source.end[:500],
                "own": bool(source.end_offsets),
            }
            for source in query.sources
        ],
        "lag": _summed(rows),
        "behind": _lag_answer(lags, "query", name),
        "advice": _advice(follower, state, name, rows),
        "over_time": points(follower.series.lags("query", name)),
        "members": [],
        **{f"page_{key}": value for key, value in page(question, rows, lambda row: row).items()},
    }


def query_batches(follower: Follower, question: Question) -> Answer:
    """The micro-batches of a Spark query in the newest entries, and what the log knows of its failures."""
    name, state = question.text("query"), follower.state
    first = max(state.seq - _ENTRIES + 1, oldest_entry(follower))
    batches: list[Answer] = [
        {
            **batch,
            "entry": row["seq"],
            "time": request["time"],
            "rows": request["records"],
            "into": request["topics"],
            "refused": request["refused"],
        }
        for row in reversed(shown_entries(follower, first, state.seq))
        for request in row.get("requests", ())
        for batch in request["batches"]
        if batch["query"] == name
    ]
    last_ms = None
    for batch in batches:
        batch["since_ms"] = None if last_ms is None else batch["time"] - last_ms
        if batch["refused"] is None:
            last_ms = batch["time"]
    events = [shown(event) for event in reversed(state.trail) if event.name == name][:20]
    return {"first": first, "last": state.seq, "rows": batches[::-1][:50], "events": events}


def _lag_answer(lags: list[Lag], kind: str, name: str) -> Answer | None:
    """How far a reader is behind in records, bytes and time; None if it reads nothing of this log."""
    of_reader = [lag for lag in lags if (lag.kind, lag.name) == (kind, name)]
    if not of_reader:
        return None
    (total,) = totals(of_reader)
    return {
        "records": total.records,
        "bytes": total.bytes,
        "time_ms": total.time_ms,
        "exact": total.is_exact,
        "unknown": sum(lag.is_unknown for lag in of_reader),
    }


def _advice(follower: Follower, state: State, name: str, rows: list[Answer]) -> list[Answer]:
    """What is wrong with a reader, and what to do; with the view that shows more, if one does."""
    advice: list[Answer] = []
    held = 0
    for row in rows:
        topic = state.topics.get(row["topic"])
        part = None if topic is None else state.partitions.get((topic.topic_id, row["partition"]))
        held += 0 if part is None else part.end - part.last_stable_offset
    if held:
        text = (
            f"open transactions hold back {counted(held, 'offset')} of its partitions, which it cannot read until they "
            "end"
        )
        advice.append({"text": text, "to": "transactions"})
    return advice + [
        {
            "text": f"{trouble.text}; {trouble.advice}" if trouble.advice else trouble.text,
            "commands": commands(trouble, follower),
        }
        for trouble in troubles(follower)
        if trouble.about == name and trouble.name not in _OF_WRITERS
    ]


def _summed(rows: list[Answer]) -> int | None:
    """The lag in all partitions; None if it is known of none."""
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    return sum(lags) if lags else None


def _last_commit(state: State, kind: str, name: str) -> int | None:
    """When a group has committed offsets last; a query has committed, or begun to run."""
    if kind == "group":
        return max((at.timestamp_ms for at in state.offsets.get(name, Map()).values()), default=None)
    producer = state.producer_of(name)
    return None if producer is None else producer.last_ms


def _read_partitions(state: State, query: str) -> int:
    return sum(len(source.end_offsets) for source in state.queries[query].sources)


def _member_state(silent: SilentMember | None, *, is_behind: bool) -> str:
    if silent is None:
        return "rebalancing" if is_behind else "in sync"
    return "no sign of life" if silent.silent_ms is None else f"no sign of life for {age(silent.silent_ms)}"


def _place(lag: Lag | None) -> Answer:
    """How far a reader is in a partition, as `eoslog lag` tells it; a query of which another one goes on is nowhere."""
    if lag is None:
        return {"committed": None, "end": None, "lag": None, "gone": None}
    return {
        "committed": lag.committed,
        "end": lag.last_stable_offset,
        "lag": lag.offsets,
        "gone": None if lag.offsets is None else lag.lost,
    }
