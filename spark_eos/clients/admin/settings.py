"""The settings of a whole log, for the admin client, and what they let go: old ids and offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_eos.clients.admin.base import WRITER, AdminBase
from spark_eos.log.settings import LOG_CONFIGS, check_log_config
from spark_eos.protocol.actions import (
    Action,
    AlterLog,
    ExpireOffsets,
    ExpireProducers,
    ExpireTransaction,
    ExpireTransactionalIds,
)
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition

__all__ = ["Expired", "LogDescription", "SettingsAdmin"]


@dataclass(frozen=True)
class LogDescription:
    """A log: where it is, its identity, its number of entries, and all its settings as they are in force."""

    url: str
    log_id: str
    entries: int
    config: dict[str, str]


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

    def expire(self) -> Expired:
        """Forget now what is past ``*.expiration.ms`` or ``offsets.retention.minutes``; what was forgotten.

        Clients that stay open do this once an hour. Open transactions are aborted that have been open for longer than
        their ``transaction.timeout.ms``, as the store's own clock says, or as this process has watched them.
        """
        log = self._log()
        log.follow()
        expired = Expired()
        for action in log.sweep(everything=True):
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
