"""When queries have committed last, also those that read outside of the log, such as mirrors of Kafka. Pure.

Of those the log knows nothing else: neither whether they run, nor how far they are behind. One that has nothing to read
commits nothing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from spark_eos.protocol.state import State

_OF_A_MIRROR = re.compile(r"(mirror/[^/]+)(?:/[^/]+){3}")
"""The ``transactional.id`` of one partition of a mirror. People know the mirror by its name."""

_TO_KAFKA = "mirror-out/"
"""What a mirror to Kafka commits here is a note of what it mirrors. How far it is stands in Kafka."""


class QueryCommit(NamedTuple):
    """When a query has committed last, or has begun to run: by the log's time. None: the log does not have that.

    ``name`` is its ``transactional.id``, of a mirror ``mirror/NAME``. ``reads_here``: all that it reads is in this log,
    so that its lag is known.
    """

    name: str
    timestamp_ms: int | None
    reads_here: bool


def query_commits(state: State) -> list[QueryCommit]:
    """Of all queries, by name; the partitions of a mirror are one."""
    by_name: dict[str, QueryCommit] = {}
    for name in sorted(state.queries):
        match, sources = _OF_A_MIRROR.fullmatch(name), state.queries[name].sources
        producer = None if name.startswith(_TO_KAFKA) else state.producer_of(name)
        commit = QueryCommit(
            name if match is None else match[1],
            None if producer is None else producer.last_ms,
            bool(sources) and all(source.group is not None for source in sources),
        )
        last = by_name.get(commit.name, commit)
        by_name[commit.name] = max(last, commit, key=lambda query: query.timestamp_ms or -1)
    return sorted(by_name.values())
