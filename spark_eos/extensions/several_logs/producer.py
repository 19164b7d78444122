"""`MultiLogProducer`: transactions over several logs, of which one decides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from functools import partial
from types import TracebackType
from typing import TypeVar

from spark_eos.clients.producer.base import member_of
from spark_eos.clients.producer.member import MemberTransactions
from spark_eos.clients.producer.producer import Producer
from spark_eos.clients.producer.transaction_states import ClientState
from spark_eos.errors import AbortableError, ConfigError, EosLogError, IllegalStateError
from spark_eos.extensions.several_logs.settling import settle
from spark_eos.log.log import Log
from spark_eos.protocol.types import Decider, Follower

_Result = TypeVar("_Result")


class _State(Enum):
    UNINITIALIZED = "call init_transactions first"
    READY = "begin_transaction is allowed"
    IN_TRANSACTION = "send to the members, then commit_transaction or abort_transaction"
    PREPARING = "commit_transaction and abort_transaction are allowed"
    DECIDING = "only commit_transaction is allowed: the outcome of the last one is not known"
    FOLLOWING = "only commit_transaction is allowed: it is committed, and not every log has followed yet"
    ABORTING = "only abort_transaction is allowed"
    FATAL_ERROR = "only close is allowed"


_S = _State


class MultiLogProducer:
    """Transactions over several logs, without a coordinator process: the first log decides, the others follow.

    Each member is a `Producer` of another log with a ``transactional.id``. Send records and offsets of groups with the
    members; begin and end transactions here. A transaction is visible in all logs or in none. If this process dies at
    any point, any reader of a log that follows looks at the deciding log, and ends what is prepared there as that did.

    Parameters
    ----------
    decider
        The producer of the log that decides.
    *followers
        The producers of the other logs.

    Raises
    ------
    ConfigError
        There is no follower, a member has no ``transactional.id``, or a producer is given twice.

    Examples
    --------
    >>> from spark_eos import MultiLogProducer, Producer, read_arrow
    >>> orders = Producer("memory://orders-log", {"transactional.id": "shop-1"})
    >>> payments = Producer("memory://payments-log", {"transactional.id": "shop-1"})
    >>> with MultiLogProducer(orders, payments) as both:
    ...     both.init_transactions()
    ...     with both.transaction():
    ...         ordered = orders.send("orders", b"two apples")
    ...         paid = payments.send("payments", b"1 EUR")
    >>> ordered.result().offset, paid.result().offset
    (0, 0)

    See Also
    --------
    DistributedTransaction : one transaction in one log, of many processes.

    Notes
    -----
    docs/extensions/several-logs.md; docs/design/0014-several-logs.md.
    """

    def __init__(self, decider: Producer, *followers: Producer) -> None:
        members = (decider, *followers)
        if not followers or len(set(map(id, members))) < len(members):
            raise ConfigError("a MultiLogProducer needs two or more producers, each of another log")
        self._lock = threading.RLock()
        self._producers = members
        self._members = [member_of(producer, type(self).__name__) for producer in members]
        self._decider, self._followers = self._members[0], self._members[1:]
        self._deciding = self._decider
        """Whose commit decides: of the only log that takes part, if there is one."""
        self._state = _S.UNINITIALIZED
        self._active: list[MemberTransactions] = []
        """The followers of this transaction, and how they name it."""
        self._decision: Decider | None = None

    def __enter__(self) -> MultiLogProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def init_transactions(self) -> None:
        """Take over the ids of all members, and end in all logs what earlier producers with these ids have left.

        Raises
        ------
        ConfigError
            Two members are of the same log.
        RetriableError
            A store did not answer. Call it again.
        NotALogError
            A log that follows an earlier transaction is not where it was.
        """
        with self._all("init_transactions", _S.UNINITIALIZED):
            logs = [member.log for member in self._members]
            logs_by_id: dict[str, Log] = {}
            for log in logs:
                if log.log_id in logs_by_id:
                    raise ConfigError(
                        f"{log.url} and {logs_by_id[log.log_id].url} are the same log ({log.log_id}), or one is a "
                        "copy of the other: members of a MultiLogProducer are of different logs"
                    )
                logs_by_id[log.log_id] = log
            for member, log in zip(self._members, logs, strict=True):
                # What the one before has left open is decided with the first of them.
                if member.state in {ClientState.UNINITIALIZED, ClientState.INITIALIZING}:
                    member.init()
                if member is self._decider:
                    settle(log, member.transactional_id, logs_by_id)
            self._state = _S.READY

    def begin_transaction(self) -> None:
        """Begin a transaction of all members.

        Raises
        ------
        IllegalStateError
            `init_transactions` is missing, or a transaction has begun already.
        """
        with self._all("begin_transaction", _S.READY):
            for member in self._members:
                if member.state is not ClientState.IN_TRANSACTION:
                    member.begin()
            self._state = _S.IN_TRANSACTION

    def commit_transaction(self) -> None:
        """Make the transaction visible in all logs. Returns when it is durable and all logs have followed.

        A log to which nothing was sent takes no part. If only one takes part, the commit is that of its producer.

        Raises
        ------
        CommitOutcomeUnknownError
            A store did not answer. Call `commit_transaction` again.
        RetriableError, StorageError
            A store did not answer, or refused. Call `commit_transaction` again. It may be decided already: readers end
            it then in the logs that have not followed.
        AbortableError
            Call `abort_transaction`.
        ProducerFencedError
            A newer producer has taken over an id, or the transaction was open for longer than
            ``transaction.timeout.ms``. It was aborted in all logs. Close this producer.
        IllegalStateError
            No transaction has begun.
        """
        with self._all("commit_transaction", _S.IN_TRANSACTION, _S.PREPARING, _S.DECIDING, _S.FOLLOWING):
            if self._state is _S.IN_TRANSACTION:
                self._check_members()
                self._begin_decision()
            if self._state is _S.PREPARING:
                self._prepare()
            if self._state is not _S.FOLLOWING:
                try:
                    self._attempt(self._deciding.commit)
                finally:
                    if self._deciding.state is ClientState.COMMITTING:
                        self._state = _S.DECIDING
                self._state = _S.FOLLOWING
            self._follow(commit=True)

    def abort_transaction(self) -> None:
        """End the transaction in all logs without its records and offsets.

        Raises
        ------
        RetriableError, StorageError
            A store did not answer, or refused. Call `abort_transaction` again.
        IllegalStateError
            No transaction has begun, or a commit is under way whose outcome is not known.
        """
        with self._all("abort_transaction", _S.IN_TRANSACTION, _S.PREPARING, _S.ABORTING):
            self._state = _S.ABORTING
            self._abort()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction; commit it at the end of the block, or abort it if the block raises.

        Yields
        ------
        None
            Use the members.
        """
        self.begin_transaction()
        try:
            yield
        except BaseException:
            with suppress(EosLogError):  # The error of the block says more; what is open ends by its timeout.
                self.abort_transaction()
            raise
        try:
            self.commit_transaction()
        except AbortableError:
            with suppress(EosLogError):
                self.abort_transaction()
            raise

    def close(self) -> None:
        """Abort the open transaction, and close all members. A commit whose outcome is unknown stays so."""
        with self._lock:
            try:
                if self._state in {_S.IN_TRANSACTION, _S.PREPARING, _S.ABORTING}:
                    self.abort_transaction()
                with suppress(EosLogError):  # The next one with these ids does it.
                    self._decider.note_followers()
            finally:
                for producer in self._producers:
                    producer.close()

    # -- Inside -----------------------------------------------------------------------------------------

    @contextmanager
    def _all(self, call: str, *allowed: _State) -> Iterator[None]:
        """The locks of all members, and their calls."""
        with ExitStack() as stack:
            stack.enter_context(self._lock)
            if self._state not in allowed:
                raise IllegalStateError(
                    f"{call} is not possible: the MultiLogProducer is {self._state.name}; {self._state.value}"
                )
            for member in self._members:
                stack.enter_context(member.lead(call))
            yield

    def _check_members(self) -> None:
        for member in self._members:
            if member.state is not ClientState.IN_TRANSACTION:
                self._state = _S.PREPARING
                raise AbortableError(
                    f"the transaction of the producer {member.transactional_id!r} cannot be committed: it is "
                    f"{member.state.name}. Call abort_transaction"
                )

    def _begin_decision(self) -> None:
        """Name the followers in the deciding log, unless one log alone takes part: then its commit is all."""
        if not self._active:  # Else the names were sent, and may be in.
            active = [member for member in self._members if member.has_work]
            self._deciding = active[0] if len(active) == 1 else self._decider
            if len(active) < 2:
                return
            self._active = [member for member in active if member is not self._decider]
        logs = [member.log for member in self._active]
        followers = tuple(
            Follower(log.log_id, log.url, member.transactional_id)
            for log, member in zip(logs, self._active, strict=True)
        )
        self._decision = self._attempt(lambda: self._decider.add_followers(followers))
        self._state = _S.PREPARING

    def _prepare(self) -> None:
        """All followers, before the decision: none may be left that could not follow it."""
        if self._decision is None:
            raise AbortableError("the transaction cannot be committed any more: call abort_transaction")
        decision = self._decision
        for member in self._followers:
            if member not in self._active and member.has_work:
                raise AbortableError(
                    f"the producer {member.transactional_id!r} of {member.log.url} has sent after commit_transaction "
                    "was called: call abort_transaction"
                )
        for member in self._active:
            if member.state is not ClientState.PREPARED:
                self._attempt(partial(member.prepare, decision))

    def _follow(self, *, commit: bool) -> None:
        decision = self._decision
        for member in self._active if decision is not None else ():
            assert decision is not None
            member.follow(decision, commit=commit)
        for member in self._members if decision is None else self._followers:
            if member.state is ClientState.IN_TRANSACTION:
                (member.abort if member.has_work else member.commit)()  # What is sent now is too late.
        self._decision, self._active = None, []
        self._state = _S.READY

    def _abort(self) -> None:
        """First where it is decided."""
        for member in self._members:
            if member.state is ClientState.PREPARING and self._decision is not None:
                member.prepare(self._decision)  # It may be in: then it has to follow.
            if member.state is ClientState.PREPARED and self._decision is not None:
                member.follow(self._decision, commit=False)
            elif member.is_open:
                member.abort()
        self._follow(commit=False)

    def _attempt(self, call: Callable[[], _Result]) -> _Result:
        """The call of a member. After a fatal error the transaction is over in all logs."""
        try:
            return call()
        except EosLogError as error:
            if error.fatal:
                self._give_up()
            raise

    def _give_up(self) -> None:
        """Abort where that is possible. If this is fenced, others decide: each log is made to ask."""
        self._state = _S.FATAL_ERROR
        for member in self._members:
            with suppress(EosLogError):
                if member.is_open:
                    member.abort()
                if member.state is ClientState.PREPARED:
                    member.log.resolve_followers()
