"""The coordinator's side of a transaction of many processes: its begin, and one commit or abort."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from spark_eos.clients.keywords import given_settings
from spark_eos.clients.opening import newest
from spark_eos.clients.producer.producer_session import init_producer_id
from spark_eos.config.producer import PRODUCER, producer_config
from spark_eos.errors import (
    CommitOutcomeLostError,
    CommitOutcomeUnknownError,
    ConfigError,
    EosLogError,
    IllegalStateError,
    ProducerFencedError,
    RetriableError,
)
from spark_eos.extensions.distributed.outcome import (
    Outcome,
    ended,
    outcome_of,
    require_known,
    require_open,
    was_committed_with,
)
from spark_eos.extensions.distributed.receipt import Drawn, StagedReceipt, check_receipts, first_of_each_task
from spark_eos.extensions.distributed.request import actions_of, check_age, files_of, has_version
from spark_eos.extensions.distributed.token import TransactionToken, as_token
from spark_eos.log.commit.loop import Propose
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, EndTransaction
from spark_eos.protocol.state import State
from spark_eos.protocol.types import ProducerStamp

if TYPE_CHECKING:
    from typing_extensions import Self

_TIMEOUT_MS = 60_000
"""The id needs one. It never passes: the log hears of a transaction by its end."""


class DistributedTransaction:
    """A transaction whose rows are staged by many processes, on one machine or on several.

    `begin` takes over the transactional id, as `Producer.init_transactions` does. Any process that has the `token`
    stages rows with a `StagedWriter` and hands back its receipt. `commit` makes the rows of all receipts visible in one
    entry of the log, or none. Leaving the with statement without a commit aborts.

    Only the receipts that `commit` is given count. A process that dies, comes too late or does a task a second time
    changes nothing: its files stay without a reference, and `eoslog vacuum` deletes them.

    Safe to share between threads if only one of them calls at a time.

    Parameters
    ----------
    log
        The log.
    token
        The token of the transaction.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from spark_eos import DistributedTransaction, StagedWriter, read_arrow
    >>> log = "memory://distributed-transaction"
    >>> def load(token, part):
    ...     with StagedWriter(token, part) as writer:
    ...         writer.write("orders", [{"key": part, "value": f"order {part}"}])
    ...     return writer.receipt
    >>> with DistributedTransaction.begin(log, "nightly-load") as transaction, ThreadPoolExecutor() as pool:
    ...     receipts = pool.map(lambda part: load(transaction.token, part), ["a", "b", "c"])
    ...     committed = transaction.commit(receipts)
    >>> transaction.outcome()
    'committed'
    >>> read_arrow(log, "orders").read_all()["value"].to_pylist()
    [b'order a', b'order b', b'order c']

    See Also
    --------
    StagedWriter : stages the rows of a task.
    BatchTransaction : the same for several DataFrames of Spark.

    Notes
    -----
    docs/extensions/distributed.md; docs/design/0012-distributed-transactions.md.
    """

    def __init__(self, log: Log, token: TransactionToken) -> None:
        self._log = log
        self._token = token
        self._request: tuple[Action, ...] | None = None
        self._counted: tuple[StagedReceipt, ...] = ()
        self._request_id = b""
        self._in_doubt: Literal["commit", "abort"] | None = None
        self._is_over = False
        self._drawn = Drawn()

    @classmethod
    def begin(
        cls,
        url: str | os.PathLike[str] | Log,
        transactional_id: str,
        config: Mapping[str, object] | None = None,
        *,
        txn_app_id: str | None = None,
        txn_version: int | None = None,
        **settings: object,
    ) -> DistributedTransaction:
        """Begin a transaction. An earlier one of the same transactional id is fenced: it can never commit any more.

        Parameters
        ----------
        url
            The log: a path or a URL, which is what the other processes open, or an open `Log`. It is created if it is
            missing and ``auto.create.topics.enable`` is on.
        transactional_id
            Identifies the writer: the same in each run of the job, and of no other one.
        config
            Settings of an object store, and ``auto.create.topics.enable``. They are not in the token.
        txn_app_id, txn_version
            The name of the job, and a number that rises with each piece of its work, such as a date: the same work is
            committed once, even if the job is begun again without knowing how it has ended. See `is_repetition`.
        **settings
            Settings by keyword, with underscores for dots.

        Returns
        -------
        DistributedTransaction
            The transaction.

        Raises
        ------
        ConfigError
            A setting is wrong, or of ``txn_app_id`` and ``txn_version`` only one is given.
        RetriableError
            The store did not answer. Call it again.
        NotALogError
            There is no log, and it may not be created.
        """
        options = given_settings(PRODUCER, config, settings)
        values = producer_config({**options, "transactional.id": transactional_id})
        is_given = isinstance(txn_app_id, str) and txn_app_id and hasattr(txn_version, "__index__")
        if not is_given and (txn_app_id, txn_version) != (None, None):
            raise ConfigError(
                f"txn_app_id={txn_app_id!r}, txn_version={txn_version!r}: give both of them, or none (a text, a number)"
            )
        log = newest(url, options, create=values["auto.create.topics.enable"])
        log = log if values["auto.maintenance.enable"] else log.without_maintenance()
        commit = init_producer_id(
            log,
            transactional_id,
            _TIMEOUT_MS,
            writer=values["client.id"] or transactional_id,
            request_id=log.clock.unique(),
        )
        stamp: ProducerStamp = commit.results[0]
        token = TransactionToken(
            log.url,
            log.log_id,
            transactional_id,
            stamp.producer_id,
            stamp.epoch,
            stamp.number + 1,
            commit.seq,
            txn_app_id,
            None if txn_version is None else index(txn_version),
        )
        return cls(log, token)

    @classmethod
    def resume(
        cls,
        token: TransactionToken | str,
        config: Mapping[str, object] | None = None,
        *,
        url: str | os.PathLike[str] | Log | None = None,
        **settings: object,
    ) -> DistributedTransaction:
        """Go on with a transaction that another process has begun, for instance one that died before its commit.

        Parameters
        ----------
        token
            The token, or its text.
        config
            Settings of an object store.
        url
            The log, as this machine sees it: a path, a URL, or an open `Log`. None: as the token says.
        **settings
            Settings by keyword, with underscores for dots.

        Returns
        -------
        DistributedTransaction
            The transaction. It may be over: see `outcome`.

        Raises
        ------
        NotALogError
            There is no log, or another one.
        InvalidRequestError
            The token is not one.
        ConfigError
            A setting is wrong.
        """
        own_token = as_token(token)
        options = given_settings(PRODUCER, config, settings)
        values = producer_config({**options, "transactional.id": own_token.transactional_id})
        log = newest(own_token.url if url is None else url, options)
        log = log if values["auto.maintenance.enable"] else log.without_maintenance()
        outcome_of(log.state, own_token)
        return cls(log, own_token)

    @property
    def token(self) -> TransactionToken:
        """What other processes need to take part. ``str(token)`` is a text."""
        return self._token

    @property
    def is_repetition(self) -> bool:
        """Whether ``txn_version``, or a later one, is in the log already: then a commit writes nothing."""
        return has_version(self._log.state, self._token)

    def outcome(self) -> Literal["open", "committed", "aborted", "fenced", "unknown"]:
        """Look what became of the transaction.

        Returns
        -------
        str
            ``"open"``: it can be committed. ``"committed"``, ``"aborted"``. ``"fenced"``: a newer transaction of the
            transactional id has begun, and this one was not and will not be committed. ``"unknown"``: it is over, and
            the entries that would say how are retired.
        """
        outcome = outcome_of(self._log.follow(), self._token)
        if outcome is Outcome.UNKNOWN:
            ending = ended(self._log, self._token)
            outcome = outcome if ending is None else ending.outcome
        return outcome.value

    def commit(self, receipts: Iterable[StagedReceipt | str]) -> tuple[StagedReceipt, ...]:
        """Make the rows and offsets of all receipts visible in one entry. Returns when they are durable.

        The rows of a partition are in the order of the receipts. If a task has several receipts, the first one given
        counts. After an unknown outcome call it again, with the same receipts; so does another process, after `resume`.

        Parameters
        ----------
        receipts
            The receipts, or their texts.

        Returns
        -------
        tuple of StagedReceipt
            Those that count: one of each task. None if it `is_repetition`.

        Raises
        ------
        CommitOutcomeUnknownError
            The store did not answer. Call it again with the same receipts; it commits once.
        StagedFileExpiredError
            Files were staged before vacuum's ``--min-age``. Nothing was committed: run the named tasks again with the
            same token, and commit with the new receipts.
        ProducerFencedError
            A newer transaction of the transactional id has begun; nothing of this one was committed.
            `CommitOutcomeLostError`, if that can no longer be found out.
        InvalidTxnStateError
            The transaction was aborted, or was committed with other receipts.
        InvalidRequestError
            A receipt is of another transaction, or two of them commit different offsets of one partition. Nothing was
            committed.
        IllegalStateError
            An abort has an unknown outcome, or other receipts are given than to the commit in doubt.
        """
        self._check_doubt("commit")
        counted = first_of_each_task(check_receipts(self._token, self._drawn.all_of(receipts)))
        if self._in_doubt == "commit" and counted != self._counted:
            raise IllegalStateError(
                "commit: an earlier commit with other receipts has an unknown outcome. Call it again with those"
            )
        request, names = actions_of(self._token, counted), _names(counted)
        if self._in_doubt is None:
            if not self._is_ready(counted):
                return ()
            self._request_id, self._counted = self._log.clock.unique(), counted

        def propose(state: State) -> tuple[Action, ...]:
            if outcome_of(state, self._token) is Outcome.COMMITTED or has_version(state, self._token):
                return ()
            require_open(state, self._token)
            return request

        try:
            if not self._send("commit", propose) and not was_committed_with(self._log, self._token, names):
                return ()  # The version is another transaction's.
        except ProducerFencedError:
            if not was_committed_with(self._log, self._token, names):
                require_known(self._log, self._token)
                raise
        self._is_over = True
        return counted

    def abort(self, receipts: Iterable[StagedReceipt | str] = ()) -> None:
        """End the transaction without its rows: from now on its token is of no use.

        Parameters
        ----------
        receipts
            Receipts whose files are deleted at once. Files of others are left to vacuum.

        Raises
        ------
        CommitOutcomeUnknownError
            The store did not answer. Call it again.
        InvalidTxnStateError
            The transaction was committed.
        ProducerFencedError
            A newer transaction has begun, and it is not known whether this one was committed before.
        InvalidRequestError
            A receipt is of another transaction. Nothing was done.
        IllegalStateError
            A commit has an unknown outcome: call it again.
        """
        self._check_doubt("abort")
        checked = check_receipts(self._token, receipts)
        if self._in_doubt is None:
            self._request_id = self._log.clock.unique()

        def propose(state: State) -> tuple[Action, ...]:
            if outcome_of(state, self._token) in {Outcome.ABORTED, Outcome.FENCED}:
                return ()
            require_open(state, self._token)
            return (EndTransaction(self._token.stamp, commit=False),)

        self._send("abort", propose)
        self._is_over = True
        self._log.discard(files_of(checked))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_over or self._in_doubt is not None:
            return
        try:
            self.abort()
        except EosLogError:
            if kind is None:
                raise

    # -- Inside -----------------------------------------------------------------------------------------

    def _check_doubt(self, call: str) -> None:
        if self._in_doubt not in {None, call}:
            raise IllegalStateError(
                f"{call}: whether an earlier {self._in_doubt} has got into the log is not known. Call "
                f"{self._in_doubt} again"
            )

    def _send(self, call: Literal["commit", "abort"], propose: Propose) -> tuple[object, ...]:
        before = self._in_doubt
        self._in_doubt = call
        try:
            committed = self._log.commit(
                propose, writer=self._token.transactional_id, request_id=self._request_id
            )
        except CommitOutcomeUnknownError as error:
            if error.is_final:
                raise CommitOutcomeLostError(str(error)) from error
            raise
        except RetriableError:
            self._in_doubt = before  # This try certainly is not in the log.
            raise
        except EosLogError:
            self._in_doubt = None
            raise
        self._in_doubt = None
        return committed.results

    def _is_ready(self, receipts: tuple[StagedReceipt, ...]) -> bool:
        """Whether there is something to commit; raises if what was staged is not there any more."""
        state = self._log.follow()
        outcome = outcome_of(state, self._token)
        if outcome is Outcome.OPEN and not has_version(state, self._token):
            check_age(state, receipts)
            self._log.check_visible(files_of(receipts))
        return outcome is Outcome.COMMITTED or not has_version(state, self._token)


def _names(receipts: tuple[StagedReceipt, ...]) -> frozenset[str]:
    return frozenset(staged.file.name for staged in files_of(receipts))
