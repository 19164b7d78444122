"""The slots of the log, as the commit loop uses them: read to the end, make an entry durable, fill the next slot.

Each request to the store is repeated until the store answers, or until the deadline has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, Literal, TypeAlias

from spark_eos.errors import (
    EosLogError,
    InvalidRequestError,
    ObjectExistsError,
    OutcomeUnknownError,
    StorageError,
    StoreUnavailableError,
)
from spark_eos.log import paths
from spark_eos.log.clock import Clock, Retry
from spark_eos.log.commit.counts import CommitCounts
from spark_eos.log.commit.group import CommitGroup
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.tail import ClockReading, Tail
from spark_eos.protocol.actions import Request
from spark_eos.protocol.state import State
from spark_eos.storage import Store


class _Taken(Enum):
    TAKEN = auto()


TAKEN: Final = _Taken.TAKEN
"""The slot has an entry: another process's, or one of an attempt whose reply was lost. Its body tells."""

_Filled: TypeAlias = ClockReading | EosLogError | Literal[_Taken.TAKEN]


class Slots:
    """Reads and fills slots. For one thread at a time. ``check_process`` raises in a forked child."""

    def __init__(
        self,
        store: Store,
        tail: Tail,
        in_doubt: InDoubtRequests,
        group: CommitGroup,
        clock: Clock,
        retry: Retry,
        check_process: Callable[[], None],
    ) -> None:
        self._store = store
        self._tail = tail
        self._in_doubt = in_doubt
        self._group = group
        self._clock = clock
        self._retry = retry
        self._check_process = check_process
        self.counts = CommitCounts()
        self._durable = -1
        """The newest entry that is known to outlive a power cut: a create has returned or was refused there."""

    def follow(self, until: int | None = None) -> State:
        """Read to the end of the log, or to entry ``until``."""
        return self._retry.until_answered(lambda: self._tail.follow(until), self._clock)

    def catch_up_with_group(self) -> bool:
        """Take over the entries that other processes have published. Whether there were any.

        What a trusted channel has published is durable.
        """
        newest = self._group.catch_up()
        if self._group.is_trusted:
            self._durable = max(self._durable, newest)
        return newest >= 0

    def catch_up(self) -> None:
        """Read to the end, or to where others publish what they write: as fast as one reads, many may write."""
        while self._group.is_contended:
            before = self._tail.state.seq
            if self.follow(before + 1).seq == before or self.catch_up_with_group():
                return
        self.follow()

    def ensure_durable(self, seq: int) -> None:
        """Before "it is done" rests on an entry that was only read: its writer may have died before it synced."""
        if seq > self._durable:
            self._store.ensure_durable(paths.entry(seq, self._tail.state.entries_per_folder))
            self._durable = seq

    def fill(self, state: State, data: bytes, own: Sequence[Request]) -> _Filled:
        """Create the entry after ``state``, of which ``own`` are this process's requests.

        Returns when the create was sent that filled the slot, or `TAKEN`, or why the slot could not be filled.
        `InDoubtRequests.is_unanswered` tells then which requests may be in it all the same. The same bytes are created
        in the same slot again until the store answers.
        """
        seq = state.seq + 1
        name = paths.entry(seq, state.entries_per_folder)
        self._retry.until_answered(self._tail.check, self._clock)
        # An entry is never put after one that a power cut may take back: what lies beyond a gap was removed.
        self._retry.until_answered(lambda: self.ensure_durable(state.seq), self._clock)
        self._in_doubt.record_attempt(own, seq)
        deadline = self._clock.monotonic() + self._retry.deadline_s
        attempt = 0
        failure: EosLogError
        while True:
            self._check_process()  # Before both send it, if this thread has forked meanwhile.
            since = self._tail.clock_reading()
            try:
                self._store.create(name, data)
            except ObjectExistsError:
                self.counts.conflicts += 1
                self._group.note_contention()
                self.catch_up()
                is_read = self._tail.state.seq >= seq
                if not (is_read and self._store.has_exact_conflicts):
                    self._in_doubt.record_lost_reply(own)  # It may have met its own object.
                if is_read:
                    self._durable = seq
                    self._group.note_entry(self._tail.state.seq)
                    return TAKEN
                # S3 refuses a create that ran into another request, and nothing is done; some file systems show what
                # is there a moment later, and it may be ours. The same again, into the same slot, is right for both.
                failure = StoreUnavailableError(
                    f"{self._store.url}/{name} exists but cannot be read: the store does not show its own objects. "
                    "Look at its caching"
                )
            except OutcomeUnknownError as error:
                self.counts.lost_replies += 1
                self._in_doubt.record_lost_reply(own)
                failure = error
            except StoreUnavailableError as error:
                failure = error
            except (StorageError, InvalidRequestError) as error:  # Such as a store that no child may use.
                return error
            else:
                return since
            if self._clock.monotonic() >= deadline:
                return failure
            self._clock.sleep(self._retry.wait_s(attempt, self._clock))
            attempt += 1

    def filled(self, seq: int, requests: int, own: int) -> None:
        """This process has filled slot ``seq`` with so many requests, and the reply says so: the entry is durable."""
        self._durable = seq
        self.counts.entries += 1
        self.counts.requests += requests
        self.counts.grouped += requests - own
