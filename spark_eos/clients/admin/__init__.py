"""The admin client: topics, transactions, groups, and the settings of a log."""

from __future__ import annotations

from types import TracebackType

from spark_eos.clients.admin.groups import GroupAdmin, GroupDescription, GroupPartition, MemberDescription
from spark_eos.clients.admin.settings import ClockDescription, Expired, LogDescription, SettingsAdmin
from spark_eos.clients.admin.topics import PartitionDescription, TopicAdmin, TopicDescription
from spark_eos.clients.admin.transactions import (
    HangingTransaction,
    ProducerDescription,
    TransactionAdmin,
    TransactionDescription,
)

__all__ = [
    "Admin",
    "ClockDescription",
    "Expired",
    "GroupDescription",
    "GroupPartition",
    "HangingTransaction",
    "LogDescription",
    "MemberDescription",
    "PartitionDescription",
    "ProducerDescription",
    "TopicDescription",
    "TransactionDescription",
]


class Admin(TopicAdmin, TransactionAdmin, GroupAdmin, SettingsAdmin):
    """Looks after a log. Safe to share between threads.

    Only `create_topic` creates a log; all else raises `NotALogError` where there is none. ``url`` may also
    be an open `Log`.
    """

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held open."""
