"""The last look at a log: everything that is in it, with everything that went in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from spark_eos.log.log import Log
from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history import Event
from verification.chaos.actors import Actor
from verification.chaos.checker import NO_ROWS, Rows, compare, verify_inputs
from verification.chaos.readers import final, read_topic
from verification.chaos.table import Struck
from verification.chaos.workloads import INPUTS, Query

__all__ = ["Comparison", "struck"]


class Comparison:
    """Of a log at rest."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._state = log.follow()
        self._read = [
            (TopicPartition(topic, row.partition), row)
            for topic in INPUTS
            for row in read_topic(log, self._state, topic)
        ]

    def inputs(self, history: Sequence[Event]) -> tuple[Rows, list[str]]:
        """See `verify_inputs`."""
        return verify_inputs(history, final(self._log, self._state, INPUTS))

    def outputs(self, queries: Sequence[Query]) -> Rows:
        """All topics that these queries write, with what lies after the offsets that they committed."""
        rows = NO_ROWS
        for target in sorted({query.target for query in queries}):
            rows += self._topic(target, [query for query in queries if query.target == target])
        return rows

    def _topic(self, target: str, writers: Sequence[Query]) -> Rows:
        wanted = sum((query.expected(self._consumed(query)) for query in writers), Counter[str]())
        found = Counter[str]()
        for row in read_topic(self._log, self._state, target):
            if writers[0].kind == "counts":
                found[row.key] += int(row.value)
            else:
                found[row.value] += 1
        return compare(wanted, found)

    def _consumed(self, query: Query) -> list[tuple[str, str]]:
        """Keys and values; all of the input, if the query came to its end."""
        committed = self._state.offsets.get(query.name)
        ends = {} if committed is None else {at: known.offset for at, known in committed.items()}
        return [(row.key, row.value) for at, row in self._read if row.offset < ends.get(at, 0)]


def struck(actors: Sequence[Actor]) -> Struck:
    """What was done to them."""
    together = Struck()
    for actor in actors:
        tally = actor.tally
        together.add(Struck(tally.kills, tally.freezes, max(0, tally.starts - 1), tally.fenced))
    return together
