"""A stream processor of another make: its micro-batches are seldom the ones that should come next."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID

from spark_eos.protocol import actions as a
from spark_eos.protocol.state import State
from verification.simulator.context import INPUT, GivenUp, Stage
from verification.simulator.rogue_clients import Actions, play
from verification.simulator.world import Process

__all__ = ["foreign_query"]


def foreign_query(stage: Stage) -> Callable[[Process], None]:
    """Micro-batches by hand, most of them not the ones that should come next."""

    def body(process: Process) -> None:
        try:
            play(stage, process, [_ForeignQuery(stage, process).batch])
        except GivenUp:
            return

    return body


class _ForeignQuery:
    """A stream processor of another make. Its group and its id are its own."""

    name = "foreign-query"

    def __init__(self, stage: Stage, process: Process) -> None:
        self.stage, self.process = stage, process
        self.log = stage.open(process)
        self.run_id = str(UUID(bytes=self.log.clock.unique(), version=4))

    def batch(self) -> None:
        """The next batch, or something like it."""
        chance, log = self.stage.chance, self.log
        state = log.follow() if chance.random() < 0.7 else log.state
        topic, last = state.topics[INPUT], state.queries.get(self.name)
        if chance.random() < 0.15:
            moved = a.PartitionOffset(INPUT, topic.topic_id, 0, chance.randrange(30))
            if last is not None and chance.random() < 0.5:
                moved = last.sources[0].end_offsets[0]
            log.commit(lambda _state: (a.CommitOffsets(self.name, (moved,)),), writer=self.process.name)
            return
        ends = {} if last is None else {at.partition: at.offset for at in last.sources[0].end_offsets}
        group = {
            number: 0 if known is None else known.offset
            for number in range(2)
            for known in [state.offset_of(self.name, INPUT, number)]
        }
        start = chance.choice([ends or group, ends or group, ends or group, group])
        if chance.random() < 0.15:
            start = {number: offset + chance.choice([-1, 1, 3]) for number, offset in start.items()}
        begin = tuple(
            a.PartitionOffset(INPUT, topic.topic_id, number, max(start.get(number, 0), 0))
            for number in range(2)
        )
        end = tuple(at._replace(offset=at.offset + chance.randint(0, 4)) for at in begin)
        number = 0 if last is None else last.batch_id + chance.choice([1, 1, 1, 1, 0, -1, 2])
        progress = a.SourceProgress(_text(begin), _text(end), self.name, begin, end)
        query_id = chance.choice(["theirs", "theirs", "theirs", "another"])
        commit = a.CommitMicroBatch(self.name, query_id, self.run_id, max(number, 0), (progress,))
        actions = (*self._registered(state), commit)
        log.commit(lambda _state: actions, writer=self.process.name)

    def _registered(self, state: State) -> Actions:
        known = state.producer_of(self.name)
        if known is None:
            return (a.InitProducer(state.next_producer_id, 0, self.name, 1000, self.run_id),)
        if known.run_id == self.run_id and self.stage.chance.random() < 0.9:
            return ()
        return (a.InitProducer(known.producer_id, known.epoch + 1, self.name, 1000, self.run_id),)


def _text(offsets: tuple[a.PartitionOffset, ...]) -> str:
    return json.dumps({str(at.partition): at.offset for at in offsets})
