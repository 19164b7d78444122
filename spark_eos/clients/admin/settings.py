"""The settings of a whole log, for the admin client, and what they let go: old ids and offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spark_eos.clients.admin.base import WRITER, AdminBase
from spark_eos.clients.admin.descriptions import ClockDescription, Expired, LogDescription
from spark_eos.config.log import LOG
from spark_eos.config.reader import check_stored
from spark_eos.errors import InvalidRequestError
from spark_eos.log.time_travel import iso
from spark_eos.log.timekeeping import is_ahead
from spark_eos.protocol.actions import (
    Action,
    AlterLog,
    ExpireOffsets,
    ExpireProducers,
    ExpireTransaction,
    ExpireTransactionalIds,
    ResetLogTime,
)
from spark_eos.protocol.rules.notes import BACKUP, SOUND, VERIFY, note_actions
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition


class SettingsAdmin(AdminBase):
    """The calls about the log as a whole."""

    def describe_log(self) -> LogDescription:
        """Describe the log: identity, length and settings.

        Returns
        -------
        LogDescription
            The log as it is now.
        """
        log = self._log()
        state = log.follow()
        return LogDescription(
            log.url,
            state.log_id,
            state.seq + 1,
            LOG.defaults() | dict(state.config),
            state.data_url,
            None if state.data_before is None else state.data_before.url,
        )

    def move_data(
        self,
        to: str,
        *,
        min_age_s: float | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> LogDescription:
        """Move the data files of the log to another store, or into the store of its entries; all may go on meanwhile.

        The call returns when the old place is empty, and may take hours. After an error or a kill the same call goes
        on. Several processes may make it at once.

        Parameters
        ----------
        to
            The place: a folder or URL, empty or new; its settings are those that begin with ``data.``. Empty text: the
            store of the entries.
        min_age_s
            How long writers and readers that have begun at the old place have to end there, from the beginning of the
            move. None: an hour.
        progress
            Called with what is done, how much of it is done, and of how much. It may raise, to stop.

        Returns
        -------
        LogDescription
            The log after the move.

        Raises
        ------
        ConfigError
            The place does not fit, or the log's data is on its way to another one.
        NotALogError
            Something else is at the place.
        InvalidRequestError
            Tables of a publication share the data files.

        Notes
        -----
        docs/guide/stores/two-stores.md.
        """
        from spark_eos.maintenance.moving.mover import MIN_AGE_S, DataMover

        age_s = MIN_AGE_S if min_age_s is None else min_age_s
        DataMover(self._log(), to, min_age_s=age_s, progress=progress).run()
        return self.describe_log()

    def alter_log(self, config: Mapping[str, object]) -> None:
        """Change settings of the log.

        Parameters
        ----------
        config
            Settings to change (docs/reference/topic-settings.md); others stay. A value of None takes a setting back to
            its default.

        Raises
        ------
        ConfigError
            A setting is unknown or malformed.

        Examples
        --------
        >>> from spark_eos import Admin
        >>> admin = Admin("memory://alter-log")
        >>> admin.create_topic("orders")
        >>> admin.alter_log({"offsets.retention.minutes": 1440})
        >>> admin.describe_log().config["offsets.retention.minutes"]
        '1440'
        """
        changes = check_stored(LOG, config)

        def propose(state: State) -> tuple[Action, ...]:
            stays = {key: value for key, value in state.config.items() if key not in config}
            return (AlterLog(tuple(sorted({**stays, **changes}.items()))),)

        self._log().commit(propose, writer=WRITER, alone=True)  # All settings are in it, those of others too.

    def describe_clock(self) -> ClockDescription:
        """Compare the clocks of the log, the store and this machine.

        Returns
        -------
        ClockDescription
            The three times.
        """
        log = self._log()
        state, store_ms = log.follow(), log.time.store_ms()
        now_ms = log.clock.now_ms()
        return ClockDescription(
            state.timestamp_ms,
            store_ms,
            now_ms,
            is_ahead=is_ahead(state, now_ms if store_ms is None else store_ms),
        )

    def mend_clock(self) -> ClockDescription:
        """Set the log's time back to the store's, if a wrong clock has moved it ahead.

        Ids and offsets that were used since then count as used now, so they expire at their time.

        Returns
        -------
        ClockDescription
            The three times afterwards.

        Raises
        ------
        InvalidRequestError
            The store cannot tell its time, or its time and that of this machine differ too much.

        Notes
        -----
        Time in a log: docs/design/0004-groups-and-expiry.md.
        """
        log, before = self._log(), self.describe_clock()
        if before.store_ms is None:
            raise InvalidRequestError(
                f"{log.url} cannot tell its time: the log's time can only be set back to that"
            )
        limit_ms = setting(log.state, "entry.timestamp.after.max.ms")
        if abs(before.machine_ms - before.store_ms) > limit_ms:
            raise InvalidRequestError(
                f"by this machine's clock it is {iso(before.machine_ms)}, by that of {log.url} {iso(before.store_ms)}: "
                "one of them is wrong. Set the log's time back on a machine whose clock is right"
            )
        target_ms = before.store_ms

        def propose(state: State) -> tuple[Action, ...]:
            return (ResetLogTime(target_ms),) if is_ahead(state, target_ms) else ()

        log.commit(propose, writer=WRITER)
        return self.describe_clock()

    def note_backup(self) -> None:
        """Note that a backup of the log has ended now, as ``eoslog backup --note`` does: for those made in other ways.

        ``eoslog status``, the page and the metrics tell how long ago the last one is.

        Examples
        --------
        >>> from spark_eos import Admin
        >>> admin = Admin("memory://note-backup")
        >>> admin.create_topic("orders", partitions=1)
        >>> admin.note_backup()
        """
        self._log().commit(lambda state: note_actions(state, BACKUP), writer=WRITER)

    def note_verify(self, sound: bool) -> None:
        """Note that a check of the whole log has ended now, as ``eoslog verify --note`` does.

        ``eoslog status``, the page and the metrics tell how long ago the last one is, and of damage until a later check
        has found the log sound.

        Parameters
        ----------
        sound
            Whether it has found nothing wrong.

        Examples
        --------
        >>> from spark_eos import Admin
        >>> admin = Admin("memory://note-verify")
        >>> admin.create_topic("orders", partitions=1)
        >>> admin.note_verify(sound=True)
        """
        results = (SOUND,) if sound else ()
        self._log().commit(lambda state: note_actions(state, VERIFY, *results), writer=WRITER)

    def expire(self, *, trust_clock: bool = False) -> Expired:
        """End transactions that have timed out, and forget ids and offsets that have expired.

        Clients that stay open do this once an hour. Transactions are aborted that have been open for longer than their
        ``transaction.timeout.ms``, by the store's clock or by the time for which this process has watched them.

        Parameters
        ----------
        trust_clock
            In a log that was idle, ids and offsets count as at most one day older than its newest entry. True: they are
            as old as the store's clock says.

        Returns
        -------
        Expired
            What was ended or forgotten.
        """
        log = self._log()
        log.follow()
        expired = Expired()
        for action in log.expire_overdue(everything=True, trust_clock=trust_clock):
            match action:
                case ExpireTransaction():
                    expired.transactions.append(action.producer.producer_id)
                case ExpireProducers():
                    expired.producers.extend(action.producers)
                case ExpireTransactionalIds():
                    expired.transactional_ids.extend(action.transactional_ids)
                case ExpireOffsets():
                    expired.offsets[action.group] = [TopicPartition(*at) for at in action.partitions]
        return expired
