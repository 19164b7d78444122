"""Breaks of what the log knows of a Spark query: its history under any id, its state, its sources."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_ACTIONS = "spark_eos/protocol/actions/queries"
_MICROBATCH, _QUERIES, _SOURCES = (f"{_ACTIONS}/{name}.py" for name in ("microbatch", "history", "sources"))
_OF_QUERIES = ("tests/protocol/test_queries.py",)
_OF_SOURCES = ("tests/protocol/test_microbatch_sources.py",)

MUTANTS = (
    Mutant(
        "history-under-one-id",
        _QUERIES,
        "            if query.query_id == query_id and name != transactional_id",
        "            if False",
        "what a query committed under another transactional.id is written a second time",
        _OF_QUERIES,
    ),
    Mutant(
        "old-id-not-fenced",
        _MICROBATCH,
        "    for name in (action.transactional_id, *old_ids):\n        producer",
        "    for name in (action.transactional_id,):\n        producer",
        "a query moves to another id past a run that goes by the old one",
        _OF_QUERIES,
    ),
    Mutant(
        "record-does-not-move",
        _MICROBATCH,
        "    for name in old_ids:\n        queries = queries.delete(name)",
        "    for name in ():\n        queries = queries.delete(name)",
        "the record of a query stays under an id that it has left",
        _OF_QUERIES,
    ),
    Mutant(
        "group-left-behind",
        _QUERIES,
        "        if (committed.topic_id, committed.offset) == (at.topic_id, at.offset):",
        "        if False:",
        "a group that a query has left stands in the way when it comes back",
        _OF_QUERIES,
    ),
    Mutant(
        "group-taken-from-others",
        _QUERIES,
        "        if (committed.topic_id, committed.offset) == (at.topic_id, at.offset):",
        "        if True:",
        "offsets that somebody else has committed go with a query",
        _OF_QUERIES,
    ),
    Mutant(
        "later-batch-of-a-stranger",
        _QUERIES,
        "    if action.batch_id > 0:",
        "    if action.batch_id < 0:",
        "a checkpoint whose batches went to another log goes on in this one",
        _OF_QUERIES,
    ),
    Mutant(
        "state-lost-unseen",
        _QUERIES,
        "    if not action.stateful or action.state_loss:",
        "    if not action.stateful or True:",
        "a stateful query goes on with empty state",
        _OF_QUERIES,
    ),
    Mutant(
        "state-of-another-id",
        _QUERIES,
        "(name == action.transactional_id or _goes_on(action, query))",
        "name == action.transactional_id",
        "a stateful query goes on with empty state under another transactional.id",
        _OF_QUERIES,
    ),
    # -- sources ----------------------------------------------------------------------------------------
    Mutant(
        "places-changed-unseen",
        _SOURCES,
        "            if other != name and (shared := sorted(joined & _topics(theirs))):",
        "            if other == name and (shared := sorted(joined & _topics(theirs))):",
        "sources of a union change places, and rows are doubled",
        _OF_SOURCES,
    ),
    Mutant(
        "renamed-source-begins-anew",
        _SOURCES,
        "            if offset is not None and offset != at.offset:",
        "            if offset is None and offset != at.offset:",
        "a source with another name reads again what it has read",
        _OF_SOURCES,
    ),
    Mutant(
        "former-sources-forgotten",
        _SOURCES,
        "    gone = {**by_name(last.former), **by_name(last.sources)}",
        "    gone = by_name(last.sources)",
        "a source that was away for longer than a batch starts over",
        _OF_SOURCES,
    ),
    Mutant(
        "renamed-foreign-source",
        _SOURCES,
        "    if foreign:",
        "    if not foreign:",
        "a source of another kind with another name starts over",
        _OF_SOURCES,
    ),
)
