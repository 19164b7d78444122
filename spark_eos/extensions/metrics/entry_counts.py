"""Counts over the entries of a log, as a process reads them one after the other: requests, transactions, records."""

from __future__ import annotations

from spark_eos.log.history import ended_transactions
from spark_eos.protocol.actions import AppendBatches, Entry
from spark_eos.protocol.rules.apply import Accepted, Outcome, apply, check_history, judged_by, state_after
from spark_eos.protocol.rules.takeovers import FENCED, TIMED_OUT
from spark_eos.protocol.state import State


class EntryCounts:
    """Counts since a log was opened first. `apply` takes the place of `spark_eos.protocol.rules.apply.apply_entry`.

    What was read before `begin` is not counted, and no entry twice, also when the log is opened again. Entries that
    were passed over, as a snapshot had covered them after a long pause, are not counted.
    """

    def __init__(self) -> None:
        self._log_id = ""
        self._counted = -1
        self.requests = {"accepted": 0, "rejected": 0}
        self.grouped = 0
        self.transactions = {"commit": 0, "abort": 0}
        self.fencings = 0
        self.topics: dict[str, tuple[int, int]] = {}
        """Records and bytes by the topic's id."""

    def begin(self, state: State) -> None:
        """The log was opened, and is in this state. Another log than before is counted from here on."""
        if self._log_id != state.log_id:
            self._log_id, self._counted = state.log_id, state.seq

    def forget(self, state: State) -> None:
        """Drop the counts of topics that were deleted."""
        if len(self.topics) > len(state.topics):
            topic_ids = {topic.topic_id for topic in state.topics.values()}
            self.topics = {
                topic_id: counts for topic_id, counts in self.topics.items() if topic_id in topic_ids
            }

    def apply(self, state: State, entry: Entry) -> tuple[State, tuple[Outcome, ...]]:
        """The state after ``entry``, and the outcome of each of its requests."""
        check_history(state, entry)
        state = judged_by(state, entry.rules)
        counts = bool(self._log_id) and state.log_id == self._log_id and entry.seq > self._counted
        outcomes = []
        for request in entry.requests:
            before, (state, outcome) = state, apply(state, request)
            outcomes.append(outcome)
            if not counts:
                continue
            if not isinstance(outcome, Accepted):
                self.requests["rejected"] += 1
                continue
            self.requests["accepted"] += 1
            if state.trail is not before.trail:
                self.fencings += _fencings(before, state, entry.seq)
            for stamp, commit in ended_transactions(request, before, state).items():
                if stamp.number >= 0:
                    self.transactions["commit" if commit else "abort"] += 1
            for action, result in zip(request.actions, outcome.results, strict=True):
                if isinstance(action, AppendBatches):
                    self._count(action, all(batch.duplicate for batch in result))
        if counts:
            self._counted = entry.seq
            self.grouped += len(entry.requests) if len(entry.requests) > 1 else 0
        return state_after(state, entry), tuple(outcomes)

    def _count(self, action: AppendBatches, is_repeated: bool) -> None:
        ids = dict(action.topics)
        for file in () if is_repeated else action.files:
            topic_id = ids[file.topic]
            records, size = self.topics.get(topic_id, (0, 0))
            self.topics[topic_id] = (
                records + sum(batch.count for batch in file.batches),
                size + sum(batch.length for batch in file.batches),
            )


def _fencings(before: State, after: State, seq: int) -> int:
    """Those of a request of entry ``seq``. What happens again is one event of the trail, which says how often."""
    earlier_times = {
        (event.what, event.name, event.writer, event.first_ms): event.times for event in before.trail
    }
    return sum(
        event.times - earlier_times.get((event.what, event.name, event.writer, event.first_ms), 0)
        for event in after.trail
        if event.entry == seq and event.what in {FENCED, TIMED_OUT}
    )
