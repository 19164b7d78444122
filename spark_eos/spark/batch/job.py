"""What a batch job commits in one entry: its rows, what they replace, and the version under which it is repeated."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, EndTransaction, InitProducer, SetAppVersion
from spark_eos.protocol.actions.app_versions import is_committed
from spark_eos.protocol.actions.queries.microbatch import ONE_SHOT_TIMEOUT_MS
from spark_eos.protocol.state import State
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp, StagedFile
from spark_eos.spark.sink.commit import (
    Topics,
    append,
    delete_rejected_files,
    deleting_rejected_files,
    truncation,
)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchJob:
    """One write of a job. ``overwritten`` are the topics whose records it replaces."""

    topics: Topics
    files: tuple[StagedFile, ...]
    overwritten: tuple[str, ...] = ()
    transactional_id: str | None = None
    version: SetAppVersion | None = None

    def commit(self, log: Log) -> None:
        """Make all rows visible at once; if the version is in the log already, delete what was staged for it."""
        if self.overwritten:
            log.end_overdue()  # Nothing is replaced while a transaction is open.
        with deleting_rejected_files(log, self.topics, self.files):
            committed = log.commit(self.propose, writer="spark batch")
        if not committed.results and self.files:
            # The version is there. A lost reply may have told of this very commit: then its files are in the log.
            delete_rejected_files(log, self.topics, self.files)

    def propose(self, state: State) -> tuple[Action, ...]:
        """The actions of the write now; none if its version was committed."""
        if self.version is not None and is_committed(state, self.version):
            return ()
        before = tuple(action for topic in self.overwritten for action in truncation(state, topic))
        version = () if self.version is None else (self.version,)
        if self.transactional_id is None:
            return (*version, *before, *append(NO_PRODUCER, self.topics, self.files))
        # A write under a transactional id takes the id's next epoch, and so fences the client that had it.
        producer = state.producer_of(self.transactional_id)
        if producer is None:
            stamp = ProducerStamp(state.next_producer_id, 0, 0)
        else:
            stamp = ProducerStamp(producer.producer_id, producer.epoch + 1, producer.number + 1)
        return (
            InitProducer(stamp.producer_id, stamp.epoch, self.transactional_id, ONE_SHOT_TIMEOUT_MS),
            *version,
            *before,
            *append(stamp, self.topics, self.files),
            EndTransaction(stamp, commit=True),
        )


def skips(state: State, version: SetAppVersion | None) -> bool:
    """Whether a write under ``version`` has nothing to do, as the version is in the log; it is logged."""
    if version is None or not is_committed(state, version):
        return False
    last = state.app_versions[version.app_id, version.topic_id or ""].version
    _LOG.log(
        logging.INFO if version.version == last else logging.WARNING,
        "txnAppId %r has committed version %d: the write of version %d is a repetition, and writes nothing",
        *(version.app_id, last, version.version),
    )
    return True
