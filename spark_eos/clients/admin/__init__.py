"""The admin client: topics, transactions, groups, and the settings of a log."""

from __future__ import annotations

from types import TracebackType

from spark_eos.clients.admin.argument_checks import checks_arguments
from spark_eos.clients.admin.descriptions import (
    ClockDescription,
    Expired,
    GroupDescription,
    GroupPartition,
    HangingTransaction,
    LogDescription,
    MemberDescription,
    PartitionDescription,
    ProducerDescription,
    TopicDescription,
    TransactionDescription,
)
from spark_eos.clients.admin.fencing import FencingAdmin
from spark_eos.clients.admin.group_offsets import GroupOffsetsAdmin
from spark_eos.clients.admin.groups import GroupAdmin
from spark_eos.clients.admin.several import SeveralAdmin
from spark_eos.clients.admin.transactions import TransactionAdmin

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


@checks_arguments
class Admin(SeveralAdmin, TransactionAdmin, FencingAdmin, GroupAdmin, GroupOffsetsAdmin):
    """Administers a log: topics, transactions, groups, and settings. Safe to share between threads.

    Only `create_topic` and `create_topics` create a log; all other calls raise `NotALogError` where there is none.

    Parameters
    ----------
    url
        The log: a path, a URL (``s3://bucket/path``, ``memory://name``, …), or an open `Log`.
    config
        Settings of an object store (``s3.region``, …; docs/guide/stores), and nothing else.
    **settings
        Settings by keyword, with underscores for dots: ``s3_region="eu-west-1"``. One of None is not set.

    Raises
    ------
    ConfigError
        A setting is unknown or malformed.

    Examples
    --------
    >>> from spark_eos import Admin
    >>> admin = Admin("memory://admin")
    >>> admin.create_topic("orders", partitions=2)
    >>> admin.describe_topic("orders").partitions
    [PartitionDescription(partition=0, start=0, end=0, lso=0), PartitionDescription(partition=1, start=0, end=0, lso=0)]
    """

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: an admin client holds nothing open. For ``with`` blocks, as in Kafka."""
