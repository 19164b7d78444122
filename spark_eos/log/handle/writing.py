"""A handle on one log: how it writes, and ends what has timed out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import pyarrow as pa

from spark_eos.config.compression import Compression
from spark_eos.errors import (
    EosLogError,
    ObjectNotFoundError,
    StorageError,
    StorePermissionError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.clock import new_id
from spark_eos.log.commit.loop import Committed, Propose
from spark_eos.log.data.task_io import BUFFER_BYTES, stage_rows
from spark_eos.log.data.writer import SegmentWriter
from spark_eos.log.encryption import check_key, check_writable, checking_encryption, marks
from spark_eos.log.handle.reading import LogReader
from spark_eos.log.topics import missing_topic, new_topic, unless_exists
from spark_eos.protocol.actions import Action, ExpireTransaction
from spark_eos.protocol.actions.appends import check_floor
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import StagedFile
from spark_eos.storage.two_stores import check_claim

_OLD_S = 60.0
"""After so long without staging anything, the log's end is looked for before."""


class LogWriter(LogReader):
    """The calls that change a log."""

    def commit(
        self, propose: Propose, *, writer: str = "", request_id: bytes | None = None, alone: bool = False
    ) -> Committed:
        """Put actions into the log, all or none. Returns when they are durable.

        A share of the log's maintenance may follow (`does_maintenance`).

        Parameters
        ----------
        propose
            Called with the newest state; returns the actions. It is called again if another process was faster.
        writer
            A name for the history of the log.
        request_id
            Of a `CommitOutcomeUnknownError`, to repeat that very call. None: a new request.
        alone
            True: the actions follow the very state that ``propose`` saw. Else a process that writes for several may add
            them to a later state, which the rules accept as well, but on which ``propose`` was not called. It costs
            attempts while other processes write.

        Returns
        -------
        Committed
            The number of the entry, the results of the actions, and the state after it.

        Raises
        ------
        CommitOutcomeUnknownError
            The request may be in the log. Repeat the call with its ``request_id``.
        StoreUnavailableError, StorageError
            The request certainly is not in the log.

        Notes
        -----
        Every rule of the protocol may refuse a request with its own error. What happens when a reply is lost:
        docs/design/0001-protocol.md.
        """
        if request_id is not None:
            self._parts.check_repeatable(request_id)
        proposed = checking_encryption(self.store, propose)
        committed = self._parts.commit(proposed, writer=writer, request_id=request_id, alone=alone)
        if self.does_maintenance and not committed.is_lagging:
            self.maintenance.run_slice(committed.state)
        return committed

    def expire_overdue(self, *, everything: bool = False, trust_clock: bool = False) -> tuple[Action, ...]:
        """End what has timed out in the last known state: open transactions, old ids and offsets.

        It is cheap if there is nothing to do. Any process may call it at any time.

        Parameters
        ----------
        everything
            Look for old ids now, and not once an hour; raise errors.
        trust_clock
            In a log that was idle, ids and offsets count as at most one day older than its newest entry. True: they are
            as old as the store's clock says.

        Returns
        -------
        tuple of Action
            What was ended.
        """
        return self._parts.expiration_task.expire_overdue(
            self.state, everything=everything, trust_clock=trust_clock
        )

    def end_overdue(self) -> State:
        """Do `expire_overdue` for a reader that would have to wait for open transactions. Errors are ignored.

        What another log has decided is ended as well (docs/design/0014).

        A reader may not be allowed to write: then another process ends them.

        Returns
        -------
        State
            The newest known state.
        """
        with suppress(EosLogError):
            self._parts.following.help(self.state)
        with suppress(EosLogError):
            self.expire_overdue()
        return self.state

    def resolve_followers(self) -> dict[int, str]:
        """Ask now for the decisions of other logs that open transactions follow, and end those that are decided.

        Returns
        -------
        dict of int to str
            By producer id: why its transaction has not ended.

        Raises
        ------
        StorageError
            The log could not be read.
        """
        self._parts.following.help(self.follow(), everything=True)
        return dict(self._parts.following.waiting)

    def register_decider(self, log: LogWriter) -> None:
        """Say where a log is that decides transactions of this one, in place of where its entries say.

        Needed if it has moved, or if it is read with other settings than this process has by itself.

        Parameters
        ----------
        log
            The deciding log, opened. A copy or a restored backup of it cannot tell what it decided.
        """
        self._parts.deciders[log.log_id] = log

    def as_decided(self, state: State) -> State:
        """Show a state as its readers see it: with what other logs decided, also if it could not be written here.

        Parameters
        ----------
        state
            A state of this log.

        Returns
        -------
        State
            For reading alone. It is ``state`` itself wherever this process may write.
        """
        return self._parts.following.as_decided(state)

    def due(self, *, trust_clock: bool = False) -> list[Action]:
        """List the ids and offsets that `expire_overdue` would forget with ``everything``.

        Parameters
        ----------
        trust_clock
            As there.

        Returns
        -------
        list of Action
            What would be done.
        """
        return self._parts.expiration_task.due(self.state, trust_clock=trust_clock)

    def overdue(self) -> list[ExpireTransaction]:
        """List the open transactions that `expire_overdue` would end with ``everything``.

        Returns
        -------
        list of ExpireTransaction
            One for each transaction.
        """
        return self._parts.expiration_task.overdue(self.state, everything=True)

    def ensure_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
        schema: pa.Schema | None = None,
        *,
        auto_create: bool = True,
    ) -> Topic:
        """Look up a topic, and create it if it is missing.

        Parameters
        ----------
        name
            The name of the topic.
        partitions
            The number of partitions of a new topic.
        config
            Settings of a new topic.
        schema
            The columns of a new topic. None: Kafka-shaped.
        auto_create
            Whether a missing topic may be created.

        Returns
        -------
        Topic
            The topic. If it existed, its own settings hold.

        Raises
        ------
        UnknownTopicOrPartitionError
            The topic is missing, and ``auto_create`` is False.
        """
        (topic,) = self.ensure_topics([name], partitions, schema, config=config, auto_create=auto_create)
        return topic

    def ensure_topics(
        self,
        names: Sequence[str],
        partitions: int = 1,
        schema: pa.Schema | None = None,
        *,
        config: Mapping[str, object] | None = None,
        auto_create: bool = True,
    ) -> list[Topic]:
        """Look up topics, and create all that are missing in one entry. As `Log.ensure_topic`.

        Parameters
        ----------
        names
            The names of the topics.

        Returns
        -------
        list of Topic
            In the order of the names.
        """
        if isinstance(names, str):
            names = [names]  # Not its letters.
        missing = [name for name in names if name not in self.state.topics]
        if missing:
            topics = self.follow().topics
            missing = [name for name in dict.fromkeys(missing) if name not in topics]
        if missing and not auto_create:
            raise UnknownTopicOrPartitionError(
                f"{missing_topic(self.state, missing[0], self.url)} Create it (Admin.create_topic, eoslog topics "
                "create), or allow auto.create.topics.enable"
            )
        if missing:
            actions = [new_topic(name, partitions, config, schema, new_id(self.clock)) for name in missing]
            self.commit(
                lambda state: tuple(new for action in actions for new in unless_exists(state, action)),
                writer="auto.create.topics",
            )
        return [self.topic(name) for name in names]

    def stage(
        self,
        topic: Topic,
        *,
        compression: Compression | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        request_bytes: int | None = None,
    ) -> SegmentWriter:
        """Make a writer for rows of a topic. What it finishes can be committed by `commit`.

        It is for callers that make the rows in this thread: a second thread writes large files meanwhile. (Spark's
        tasks get their rows from other processes: `spark_eos.log.data.task_io.TaskStorage`.)

        Parameters
        ----------
        topic
            The topic.
        compression
            A codec and its level (`Compression.of`). None: no compression.
        buffer_bytes
            How many bytes of rows to keep in memory.
        request_bytes
            What a row may have at most (``max.request.size``). None: what the topic allows.

        Returns
        -------
        SegmentWriter
            It writes one data file.
        """
        now = self.clock.monotonic()
        if now - self._staged_s >= _OLD_S:
            self.follow()
        self._staged_s = now
        self.prepare_to_stage()
        # In this order: a store that knows as much as the name of the file, or more, has the place of that name.
        base_seq = self.state.seq + 1
        return stage_rows(
            self.store,
            topic,
            base_seq,
            self.clock,
            compression=compression,
            buffer_bytes=buffer_bytes,
            write_behind=True,
            now_ms=self.time.record_ms(self.state),
            request_bytes=request_bytes,
        )

    def prepare_to_stage(self) -> None:
        """See that files may be staged by this handle: encrypted ones only into a log that is marked as such.

        A handle with keys makes the mark, once for each log. `stage` calls it.

        Raises
        ------
        ConfigError
            The log is encrypted, and this handle has no keys; or the place of its data files has those of another log.
        StorePermissionError
            The key is another one than that with which others have encrypted the newest file with the same key id.
        InvalidRequestError
            The log cannot be encrypted, since it is published as tables.
        """
        if self.store.encryption_key_id is not None and self.state.encrypted_at < 0:
            self.commit(marks(self.store), writer="encryption")
        check_writable(self.store, self.state)
        if self._claimed != self.state.data_url:
            place = self.follow().data_url  # The place that is known may be one that was left long ago.
            check_claim(self.store, place, self.log_id)
            self._claimed = place
        if self.store.encryption_key_id is not None and not self._has_checked_key:
            check_key(self.store, self.state)
            self._has_checked_key = True

    def check_visible(self, files: tuple[StagedFile, ...]) -> None:
        """Check that staged files exist for this process, whole, before they are committed.

        Only in folders, where it costs a system call. So a driver and executors that do not share the folder are found
        before the commit, and not by a reader.

        Parameters
        ----------
        files
            What writers have finished.

        Raises
        ------
        StorageError
            A file is missing or has another size. Nothing was committed.
        StagedFileExpiredError
            A file is older than the staging floor.
        """
        if not self.store.requests_are_free:
            return
        for staged in files:
            try:
                size = self.store.size(staged.file.name)
            except ObjectNotFoundError:
                check_floor(self.follow(), staged.file.name)
                raise StorageError(
                    f"{self.data_location}/{staged.file.name} was staged but is not here. It was removed, or the log's "
                    "folder is not shared by the driver and all executors. Nothing was committed"
                ) from None
            if size != staged.file.size:
                raise StorageError(
                    f"{self.data_location}/{staged.file.name} has {size} bytes here, but {staged.file.size} were "
                    "written. Nothing was committed"
                )

    def discard(self, files: tuple[StagedFile, ...]) -> None:
        """Delete staged files that certainly are in no entry. Never call it after an unknown outcome.

        Files that may not be deleted with these rights stay for the vacuum.

        Parameters
        ----------
        files
            What writers have finished.
        """
        for staged in files:
            with suppress(StorePermissionError):
                self.store.delete(staged.file.name)
