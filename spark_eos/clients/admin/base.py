"""What all parts of the admin client share: the log behind them, and places in it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from spark_eos.clients.keywords import given_settings
from spark_eos.clients.opening import check_open_log, check_place
from spark_eos.clients.other_names import ADMIN_CALLS, KafkasCalls
from spark_eos.clients.validation import as_offsets
from spark_eos.config.store import STORE
from spark_eos.log.log import Log
from spark_eos.log.topics import topic_of
from spark_eos.protocol.actions import PartitionOffset
from spark_eos.protocol.types import ADMIN, OffsetAndMetadata, TopicPartition
from spark_eos.storage import Settings
from spark_eos.storage.urls import absolute

WRITER = ADMIN


class AdminBase(KafkasCalls):
    """Looks the log up with each call. Safe to share between threads."""

    _other_names = ADMIN_CALLS

    def __init__(
        self,
        url: str | os.PathLike[str] | Log = "",
        config: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        check_place(type(self).__name__, url, config)
        all_settings = given_settings(STORE, config, settings)
        if isinstance(url, Log):
            check_open_log(all_settings)
        self._url = url if isinstance(url, Log) else absolute(url)
        self._settings = Settings(all_settings)

    def _log(self, *, create: bool = False) -> Log:
        return (
            self._url if isinstance(self._url, Log) else Log.shared(self._url, self._settings, create=create)
        )


def places(
    log: Log, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
) -> tuple[PartitionOffset, ...]:
    """The offsets, with the identities that their topics have now. `UnknownTopicOrPartitionError` without a topic."""
    state = log.follow()
    partition_offsets = []
    for at, offset in as_offsets(offsets).items():
        topic_id = topic_of(state, at[0], log.url).topic_id
        partition_offsets.append(PartitionOffset(at[0], topic_id, at[1], offset.offset, offset.metadata))
    return tuple(partition_offsets)
