"""The plan of a read of a whole topic: at one entry, which sealed files engines read themselves, and what is left."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from spark_eos.clients.arrow_reader import check_whole, opened_log, past_log
from spark_eos.config.isolation import Isolation
from spark_eos.log.data.planner import Fetch, end_offset, partition_of, plan
from spark_eos.log.log import Log
from spark_eos.log.selection.sealed import SealedFile, SealedPlan, split_sealed
from spark_eos.log.selection.units import whole_cut
from spark_eos.log.time_travel import plan_as_of, topic_as_of
from spark_eos.log.topics import config_value, topic_of
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import FileRef, TopicPartition


class TableRead(NamedTuple):
    """A read of a topic as it was after entry ``seq``: committed records alone, each in ``files`` or in ``rest``.

    ``topic`` has the columns of then. ``is_past``: an earlier moment was asked for.
    """

    log: Log
    topic: Topic
    seq: int
    is_past: bool
    plan: SealedPlan
    all_fetches: tuple[Fetch, ...]
    """The whole read, as our reader would do it alone."""

    @property
    def files(self) -> tuple[SealedFile, ...]:
        """The files that are read whole."""
        return self.plan.files

    @property
    def rest(self) -> tuple[Fetch, ...]:
        """What our reader reads."""
        return self.plan.rest


def plan_table(
    log: str | os.PathLike[str] | Log,
    topic: str,
    as_of: int | str | datetime | None = None,
    config: Mapping[str, object] | None = None,
    *,
    whole_transactions: bool = False,
) -> TableRead:
    """Plan a read of all that is committed, now or as of an entry or a time. Raises the errors of `read_arrow`."""
    check_whole(whole_transactions)
    handle = opened_log(log, config)
    past = past_log(handle, topic, as_of)  # First: what is planned on is not older than what is shown.
    state = handle.as_decided(handle.end_overdue())
    topic_now = topic_of(state, topic, handle.url)
    shown_state = state if past is None else past.state
    columns = topic_now if past is None else topic_as_of(topic_now, past.state.topics[topic])
    cut = whole_cut(handle, shown_state) if whole_transactions else {}
    fetches: list[Fetch] = []
    wholes: set[tuple[int, int]] = set()
    for number in range(shown_state.topics[topic].partitions):
        at = TopicPartition(topic, number)
        partition = partition_of(shown_state, at)
        first, end = partition.start, end_offset(partition, Isolation.READ_COMMITTED)
        end = min(end, cut.get((columns.topic_id, number), end))
        if past is None:
            of_partition = plan(state, at, first, end, Isolation.READ_COMMITTED, handle.load)
        else:
            of_partition = plan_as_of(handle, state, past, at, first, end, Isolation.READ_COMMITTED)
        fetches += of_partition
        wholes |= _whole_batches(handle, state, at, of_partition, end)
    version = len(columns.schemas)
    # Other programs have no keys: of an encrypted log they read no file themselves.
    native = config_value(columns, "value.format", str) == "bytes" and handle.state.encrypted_at < 0

    def is_readable(file: FileRef) -> bool:
        return native and file.schema_version == version

    sealed_plan = split_sealed(fetches, is_readable, lambda fetch: (fetch.partition, fetch.offset) in wholes)
    return TableRead(handle, columns, shown_state.seq, past is not None, sealed_plan, tuple(fetches))


def _whole_batches(
    log: Log, state: State, at: TopicPartition, fetches: list[Fetch], end: int
) -> set[tuple[int, int]]:
    """Partition and offset of the fetches that have all records of their batches, of files with holes.

    Only the first and the last fetch of a partition can be cut.
    """
    wholes = set()
    for number, fetch in enumerate(fetches):
        if not fetch.file.is_parquet or not fetch.file.offsets or fetch.skip:
            continue
        if number == len(fetches) - 1:
            row = partition_of(state, at).index.find(fetch.offset, log.load)
            if row is None or row.file != fetch.file or row.next_offset > end:
                continue
        wholes.add((at.partition, fetch.offset))
    return wholes
