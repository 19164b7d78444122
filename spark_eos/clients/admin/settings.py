"""The settings of a whole log, for the admin client, and what they let go: old ids and offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_eos.clients.admin.base import WRITER, AdminBase
from spark_eos.errors import InvalidRequestError
from spark_eos.log.commit.timekeeping import is_ahead
from spark_eos.log.settings import LOG_CONFIGS, check_log_config
from spark_eos.log.time_travel import iso
from spark_eos.protocol.actions import (
    Action,
    AlterLog,
    ExpireOffsets,
    ExpireProducers,
    ExpireTransaction,
    ExpireTransactionalIds,
    ResetLogTime,
)
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition

__all__ = ["ClockDescription", "Expired", "LogDescription", "SettingsAdmin"]


@dataclass(frozen=True)
class LogDescription:
    """A log: where it is, its identity, its number of entries, and all its settings as they are in force."""

    url: str
    log_id: str
    entries: int
    config: dict[str, str]


@dataclass(frozen=True)
class ClockDescription:
    """Three clocks, in milliseconds since 1970: the log's time, the store's (None: it cannot tell), this machine's.

    ``is_ahead``: a wrong clock has driven the log's time ahead (`Admin.mend_clock`).
    """

    log_ms: int
    store_ms: int | None
    machine_ms: int
    is_ahead: bool


@dataclass(frozen=True)
class Expired:
    """What was ended or forgotten.

    ``transactions`` are the producer ids whose open transaction was aborted, ``producers`` those whose
    sequence numbers went. A group without partitions in ``offsets`` had nothing left and is gone itself.
    """

    transactions: list[int] = field(default_factory=list)
    producers: list[int] = field(default_factory=list)
    transactional_ids: list[str] = field(default_factory=list)
    offsets: dict[str, list[TopicPartition]] = field(default_factory=dict)


class SettingsAdmin(AdminBase):
    """The calls about the log as a whole."""

    def describe_log(self) -> LogDescription:
        """Identity, length and settings of the log."""
        log = self._log()
        state = log.follow()
        return LogDescription(log.url, state.log_id, state.seq + 1, {**LOG_CONFIGS, **state.config})

    def alter_log(self, config: Mapping[str, object]) -> None:
        """Change settings of the log (`spark_eos.log.settings.LOG_CONFIGS`).

        Those that are not named stay; a value of None takes one back to its default. Raises `ConfigError`.
        """
        changes = check_log_config({key: value for key, value in config.items() if value is not None})
        check_log_config({key: LOG_CONFIGS.get(key, "") for key in config if key not in changes})

        def propose(state: State) -> tuple[Action, ...]:
            stays = {key: value for key, value in state.config.items() if key not in config}
            return (AlterLog(tuple(sorted({**stays, **changes}.items()))),)

        self._log().commit(propose, writer=WRITER)

    def describe_clock(self) -> ClockDescription:
        """The log's time, the store's, and this machine's."""
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
        """Set the log's time back to the store's, if a wrong clock has driven it ahead; how it is then.

        What was used since is as if it were used now, so it expires in its time. Raises `InvalidRequestError` if the
        store cannot tell the time, or says another one than this machine's clock.
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

    def expire(self, *, trust_clock: bool = False) -> Expired:
        """Forget now what is past ``*.expiration.ms`` or ``offsets.retention.minutes``; what was forgotten.

        Clients that stay open do this once an hour. Open transactions are aborted that have been open for longer than
        their ``transaction.timeout.ms``, as the store's own clock says, or as this process has watched them.

        In a log that was idle, nothing is older than a day past its newest entry; with ``trust_clock`` ids and offsets
        are as old as the store's clock says.
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
