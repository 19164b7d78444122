"""What the log has to send: its transactions, by the entries that ended them, and how far each partition is stable."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from spark_eos.errors import InvalidRequestError
from spark_eos.log.history import of_entry
from spark_eos.log.log import Log
from spark_eos.log.selection.units import Covered, unit_of, unknown
from spark_eos.log.selection.whole_transactions import Cut, Unit, is_before, records
from spark_eos.log.time_travel import earliest, replay, state_at
from spark_eos.protocol.state import PartitionKey, State


class Feed:
    """The units of some partitions that are not sent yet, in the order in which they ended.

    ``sent`` says up to where they are sent, and ``seq`` up to which entry all of it is. What was written before the
    oldest entry that the log still has is one unit, since it is not known any more what of it belongs together: at the
    beginning, and after a time in which the log has gone on without this process.
    """

    def __init__(
        self,
        log: Log,
        seq: int,
        sent: Cut,
        covered: Covered,
        wants: Callable[[str], bool] = lambda _: False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``sent`` are those whose place is known, of whole topics. Others that ``wants`` names begin at 0."""
        self._log = log
        self._covered = covered
        self._wants = wants
        self._tell = tell
        self._state = known_from(log, seq)
        self._topics = {topic_id for topic_id, _ in sent}
        self.sent: dict[PartitionKey, int] = dict(sent)
        self.units: list[Unit] = []

    def add_unknown(self) -> int:
        """What was written before the first entry that is known, and is not sent. Returns how many records, at most."""
        unit = unknown(self._state, self.sent, self._covered, self._log.load)
        if unit is None:
            return 0
        self.units = [unit]
        count = records([unit], self.sent)
        self._tell(
            f"{count} records were written before entry {self._state.seq}, the first one that the log still has all "
            "of: which of them belong to one transaction is not known any more"
        )
        return count

    @property
    def state(self) -> State:
        """The log as far as it was looked at."""
        return self._state

    def seq_after(self, cut: Cut) -> int:
        """The entry up to which all that ended is sent, once all before the cut is."""
        waiting = (unit.seq - 1 for unit in self.units if not is_before(unit, cut))
        return min(waiting, default=self._state.seq)

    @property
    def stops(self) -> dict[PartitionKey, int]:
        """The last stable offsets of the partitions: nothing is sent past them."""
        stops = {}
        for key, sent in self.sent.items():
            partition = self._state.partitions.get(key)
            stops[key] = sent if partition is None else partition.last_stable_offset
        return stops

    @property
    def waiting(self) -> int:
        """How many records are known that are not sent yet, at most."""
        return records(self.units, self.sent)

    def advance(self, target: int) -> bool:
        """Look at the next entries, until ``target`` records wait. Returns whether that was all there is."""
        newest = self._log.follow()
        if self._state.seq >= newest.seq:
            return True
        try:
            return self._read_on(newest, target)
        except InvalidRequestError:
            onward = earliest(self._log)
            if onward.seq <= self._state.seq:
                raise
            self._state, self.units = onward, []
            self._see(onward)
            self.add_unknown()
            return False

    def _read_on(self, newest: State, target: int) -> bool:
        topics = {topic.topic_id: topic.name for topic in self._state.topics.values()}
        waiting = self.waiting
        for step in replay(self._log, self._state, newest.seq):
            if step.after.topics is not step.before.topics:
                self._see(step.after)
            for transaction in of_entry(step.entry, step.before, topics):
                unit = unit_of(transaction, self.sent, self._covered)
                if unit is not None:
                    self.units.append(unit)
                    waiting += records([unit], self.sent)
            self._state = step.after
            if waiting >= target:
                break
        if self._state.seq < newest.seq:
            return False
        self._state = newest  # The same, but what is sealed of it need not be in memory.
        return True

    def move(self, cut: Cut) -> None:
        """All before the cut is sent."""
        self.sent.update(cut)
        self.units = [unit for unit in self.units if not is_before(unit, self.sent)]

    def _see(self, state: State) -> None:
        """Topics and partitions that were created: they begin at 0, before the first transaction that has them."""
        for topic in state.topics.values():
            if topic.topic_id in self._topics or self._wants(topic.name):
                self._topics.add(topic.topic_id)
                for number in range(topic.partitions):
                    self.sent.setdefault((topic.topic_id, number), 0)


def known_from(log: Log, seq: int) -> State:
    """The state from which on entries are known: that after ``seq``, or else the oldest there is."""
    if seq >= 0:
        with suppress(InvalidRequestError):  # Retired.
            return state_at(log, seq)
    return earliest(log)
