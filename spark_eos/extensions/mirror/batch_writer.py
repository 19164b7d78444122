"""One batch of a mirror into the log: rows and map are staged, then one entry has all of it, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_eos.config.compression import BY_DEFAULT
from spark_eos.errors import CommitOutcomeUnknownError, EosLogError, StagedFileExpiredError
from spark_eos.extensions.mirror.buffer import Columns
from spark_eos.extensions.mirror.plan import BatchPlan, PlanOutdatedError, Share, actions, plan
from spark_eos.extensions.mirror.positions import map_topic
from spark_eos.log.commit.loop import Committed
from spark_eos.log.data.layout import TIMESTAMP_TYPE
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import StagedFile

_WRITER = "mirror in"
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_AGAIN_S = 1.0


class Filled(NamedTuple):
    """A share of a batch, its rows, and the name of the log's topic."""

    share: Share
    target: str
    columns: Columns


class BatchWriter:
    """Writes the batches of one process. ``keep_trying`` says whether an unknown outcome is asked for again."""

    def __init__(self, log: Log, mirror: str, keep_trying: Callable[[], bool]) -> None:
        self._log = log
        self._mirror = mirror
        self._keep_trying = keep_trying
        self._compression = BY_DEFAULT

    def write(self, filled: Sequence[Filled]) -> BatchPlan:
        """Commit the batch. Raises what the rules say, with nothing written.

        After `CommitOutcomeUnknownError` the batch is in the log or not; the log knows.
        """
        while True:
            with suppress(StagedFileExpiredError, PlanOutdatedError):
                return self._attempt(filled)

    def _attempt(self, filled: Sequence[Filled]) -> BatchPlan:
        rows = self._staged(self._by_topic(filled))
        try:
            while True:
                state = self._log.follow()
                batch = plan(state, [part.share for part in filled])
                maps = self._staged(self._map_rows(batch, filled))
                try:
                    self._commit(batch, self._topics(state, filled), (*rows, *maps))
                except PlanOutdatedError:
                    self._log.discard(maps)
                    continue
                except CommitOutcomeUnknownError:
                    raise
                except EosLogError:
                    self._log.discard(maps)
                    raise
                return batch
        except CommitOutcomeUnknownError:
            raise
        except EosLogError:
            self._log.discard(rows)
            raise

    def _commit(
        self, batch: BatchPlan, topics: Mapping[str, str], files: tuple[StagedFile, ...]
    ) -> Committed:
        self._log.check_visible(files)
        names = {staged.topic for staged in files}
        topic_ids = [(name, topics[name]) for name in sorted(names)]

        def propose(state: State) -> tuple[Action, ...]:
            return actions(state, batch, topic_ids, files)

        request_id = None
        while True:
            try:
                return self._log.commit(propose, writer=_WRITER, request_id=request_id, alone=True)
            except CommitOutcomeUnknownError as error:
                request_id = error.request_id
                if error.is_final or not self._keep_trying():
                    raise
            self._log.clock.sleep(_AGAIN_S)

    def _topics(self, state: State, filled: Sequence[Filled]) -> dict[str, str]:
        """The ids of the topics that the batch was planned for: those of the positions, and of the maps now."""
        topic_ids = {part.target: part.share.partition.target_id for part in filled}
        for name in [*topic_ids]:
            mapped = state.topics.get(map_topic(self._mirror, name))
            if mapped is not None:
                topic_ids[mapped.name] = mapped.topic_id
        return topic_ids

    # -- Staging -----------------------------------------------------------------------------------------

    def _staged(self, by_topic: Mapping[str, Sequence[tuple[int, Columns]]]) -> tuple[StagedFile, ...]:
        files: list[StagedFile] = []
        try:
            for name, parts in by_topic.items():
                topic = _without_limits(self._log.topic(name))
                with self._log.stage(topic, compression=self._compression) as writer:
                    for partition, columns in parts:
                        writer.append(_rows(columns), partition)
                    files += writer.finish()
        except BaseException:
            self._log.discard(tuple(files))
            raise
        return tuple(files)

    @staticmethod
    def _by_topic(filled: Sequence[Filled]) -> dict[str, list[tuple[int, Columns]]]:
        by_topic: dict[str, list[tuple[int, Columns]]] = {}
        for part in filled:
            if len(part.share.offsets):
                by_topic.setdefault(part.target, []).append((part.share.partition.partition, part.columns))
        return by_topic

    def _map_rows(self, batch: BatchPlan, filled: Sequence[Filled]) -> dict[str, list[tuple[int, Columns]]]:
        by_topic: dict[str, list[tuple[int, Columns]]] = {}
        now_ms = self._log.time.record_ms(self._log.state)
        for part, row in zip(filled, batch.rows, strict=True):
            if row is not None:
                columns = Columns([None], [row.data], [None], [now_ms])
                name = map_topic(self._mirror, part.target)
                by_topic.setdefault(name, []).append((part.share.partition.partition, columns))
        return by_topic


def _without_limits(topic: Topic) -> Topic:
    """For the writer: Kafka has taken the records, whatever the log's topic asks of producers."""
    config = topic.config.set("max.message.bytes", str(sys.maxsize)).set("cleanup.policy", "delete")
    return topic._replace(config=config)


def _rows(columns: Columns) -> pa.RecordBatch:
    headers = [
        None if record_headers is None else [{"key": key, "value": value} for key, value in record_headers]
        for record_headers in columns.headers
    ]
    times = pa.array(np.array(columns.timestamps, np.int64)).cast(TIMESTAMP_TYPE)
    return pa.record_batch(
        {
            "key": pa.array(columns.keys, pa.binary()),
            "value": pa.array(columns.values, pa.binary()),
            "headers": pa.array(headers, _HEADERS),
            "timestamp": times,
        }
    )
