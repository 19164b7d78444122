"""Transactions of a producer whose log decides for others, or follows one (docs/design/0014)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from spark_eos.clients.producer.transaction_states import ClientState
from spark_eos.clients.producer.two_phase import TwoPhaseTransactions
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    EosLogError,
    IllegalStateError,
    InvalidTxnStateError,
    ProducerFencedError,
    RetriableError,
    StoreUnavailableError,
)
from spark_eos.log.commit.loop import Committed
from spark_eos.log.deciding.following import follow
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, AddFollowers, NoteFollowers
from spark_eos.protocol.state import Decision, State
from spark_eos.protocol.types import Decider, Follower, ProducerStamp

_S = ClientState
_OF_THE_GROUP = {
    *("init_transactions", "begin_transaction", "prepare_transaction", "commit_transaction"),
    "complete_transaction",
}


def decider_of(log: Log, producer_id: int, decision: Decision, seq: int) -> Decider:
    """How followers name the transaction."""
    return Decider(log.log_id, log.url, producer_id, decision.epoch, decision.number, decision.history, seq)


class MemberTransactions(TwoPhaseTransactions):
    """One transaction after the other; with `lead`, each is part of one over several logs."""

    def __init__(self, log: Callable[[], Log], settings: Mapping[str, Any]) -> None:
        super().__init__(log, settings)
        self.group = ""
        """Whose member this is: it begins and ends the transactions then."""
        self._enter: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()
        self._led = False
        self._adding = b""
        """The request that names the followers, until it is known to be in."""
        self._was_open = False

    @contextmanager
    def lead(self, call: str) -> Iterator[None]:
        """Calls of the group, in place of the application's."""
        with self._enter(call):
            self._led = True
            try:
                yield
            finally:
                self._led = False

    def join(self, group: str, enter: Callable[[str], AbstractContextManager[None]]) -> None:
        """Become a member. ``enter`` takes the producer's lock, and raises if it is closed."""
        self.group, self._enter = group, enter

    def check(self, call: str) -> None:
        """As `TransactionManager.check`; the group alone begins and ends transactions of its members."""
        ends = call in _OF_THE_GROUP or (call == "abort_transaction" and self.state is _S.PREPARED)
        if self.group and not self._led and ends:
            raise IllegalStateError(
                f"{call} is not possible: the producer {self._id!r} belongs to a {self.group}; call its {call}"
            )
        super().check(call)

    @property
    def log(self) -> Log:
        """The log of the producer."""
        return self._log()

    @property
    def transactional_id(self) -> str:
        """The setting."""
        return self._id

    @property
    def has_work(self) -> bool:
        """Whether there is anything to commit."""
        return self._touched or bool(self.pending) or any(self.offsets.values())

    @property
    def left_open(self) -> str:
        """What there is to say if it is left here: empty if nothing is open, or another system decides."""
        if self.state in (_S.COMMITTING, _S.PREPARING):
            return f"the outcome of the last commit of transactional.id {self._id!r} is not known"
        if self.is_open and self.has_work:
            return f"the open transaction of transactional.id {self._id!r} is not committed: nothing of it will be seen"
        return ""

    def init(self, *, keep_prepared: bool = False) -> Committed:
        """As `TwoPhaseTransactions.init`. What another log decides is never aborted: it is asked."""
        self.check("init_transactions")
        log = self._log()
        self._ask_decider(log)
        try:
            return super().init(keep_prepared=keep_prepared)
        except InvalidTxnStateError:
            producer = log.state.producer_of(self._id)
            if producer is None or producer.follows is None:
                raise
        # It was prepared after this handle had read the log, which does not end it at a call of this producer.
        self.state = _S.UNINITIALIZED
        self._ask_decider(log)
        return super().init(keep_prepared=keep_prepared)

    def _ask_decider(self, log: Log) -> None:
        """End what this id has prepared for another log, as far as the state tells that is known: without a request."""
        producer = log.state.producer_of(self._id)
        if producer is None or producer.follows is None:
            return
        waiting = log.resolve_followers().get(producer.producer_id)
        if waiting is not None:
            raise StoreUnavailableError(
                f"init_transactions: transaction {producer.number} of transactional.id {self._id!r} has not ended. "
                f"{waiting}. Call it again"
            )

    def add_followers(self, followers: tuple[Follower, ...]) -> Decider:
        """Name the followers in the open transaction; how they name it. Repeat it after `CommitOutcomeUnknownError`.

        What this epoch decided before has ended everywhere, since a group has one transaction at a time: that is noted.
        """
        self.check("commit_transaction")
        if not self._adding:
            self._end_if_late()
            self._was_open, self._adding = self._touched, self.log.clock.unique()
        log, stamp = self._log(), self.stamp

        def propose(state: State) -> tuple[Action, ...]:
            producer = state.producers.get(stamp.producer_id)
            decision = None if producer is None else producer.decision
            if decision is not None and (decision.epoch, decision.number) == (stamp.epoch, stamp.number):
                return ()
            return (*_decision_actions(stamp, decision), AddFollowers(stamp, followers))

        try:
            committed = log.commit(propose, writer=self._writer, request_id=self._adding)
        except CommitOutcomeUnknownError as error:
            self._touched = True
            if error.is_final:
                raise self._outcome_lost(error) from error
            raise
        except RetriableError:
            raise
        except EosLogError as error:
            self.fail(error)
            raise
        self._adding = b""
        self._touched = True
        if not self._was_open:
            # Its timeout runs from here on; not from an earlier try, which may have got in long after it was sent.
            self._open_since = log.clock.monotonic()
        self._learn(committed)
        producer = committed.state.producers.get(stamp.producer_id)
        decision = None if producer is None else producer.decision
        if decision is None or (decision.epoch, decision.number) != (stamp.epoch, stamp.number):
            fenced = ProducerFencedError(f"transactional.id {self._id!r} was taken over. Close this producer")
            self.fail(fenced)
            raise fenced
        return decider_of(log, stamp.producer_id, decision, committed.state.seq)

    def abort(self) -> None:
        """As `TwoPhaseTransactions.abort`."""
        self._adding = b""
        super().abort()

    def follow(self, decider: Decider, *, commit: bool) -> None:
        """End what is prepared as the decider did. It may have ended already, by any process."""
        if self.state is not _S.PREPARED:
            return
        log = self._log()
        producer = log.state.producers.get(self.stamp.producer_id)
        if producer is not None and producer.follows == decider:
            self._learn(follow(log.commit, producer, decider, commit=commit))
        self._token = None
        self._finish()

    def note_followers(self) -> None:
        """All have followed the last decision of this epoch: it need not be kept."""
        if self._identity is not None and self.state is _S.READY:
            stamp = self.stamp

            def propose(state: State) -> tuple[Action, ...]:
                producer = state.producers.get(stamp.producer_id)
                return _decision_actions(stamp, None if producer is None else producer.decision)

            self.log.commit(propose, writer=self._writer)


def _decision_actions(stamp: ProducerStamp, decision: Decision | None) -> tuple[Action, ...]:
    if (
        decision is None
        or decision.epoch != stamp.epoch
        or decision.committed is None
        or not decision.waiting
    ):
        return ()
    return (NoteFollowers(stamp._replace(number=decision.number), decision.history, decision.waiting),)
