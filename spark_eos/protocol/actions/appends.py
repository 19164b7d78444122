"""Appends: the batches of staged files get the next offsets of their partitions, each batch once.

A producer numbers the records that it sends to a partition. A batch whose numbers are in the log already is answered
with its first offset and changes nothing, and one that does not follow the last one is refused (KIP-98): else a request
that is sent again after a lost reply would write its rows twice, or a lost one would leave a gap.
"""

from __future__ import annotations

import re
from operator import add
from typing import Any, NamedTuple

from immutables import Map

from spark_eos.errors import (
    InvalidRecordError,
    InvalidRequestError,
    OutOfOrderSequenceError,
    StagedFileExpiredError,
    UnknownTopicOrPartitionError,
)
from spark_eos.protocol.actions import producers, topics
from spark_eos.protocol.actions.declaration import Answer, Effects, Fate, Field, declare, shown
from spark_eos.protocol.encoding.values import PAIRS, STAGED_FILES, STAMP
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import Partition, PartitionKey, Producer, State, Topic
from spark_eos.protocol.types import NO_PRODUCER, NO_SEQUENCE, BatchRef, FileRef, ProducerStamp, StagedFile

_BASE_SEQ = re.compile(r"[0-9]{1,20}")
_FILE_NAME = 1024
"""Most characters of a file's name, as in S3."""


class AppendBatches(NamedTuple):
    """Rows of staged files get the next offsets of their partitions, in the order in which they are listed.

    ``topics`` gives the incarnation (topic id) that each file was written for.
    """

    producer: ProducerStamp
    topics: tuple[tuple[str, str], ...]
    files: tuple[StagedFile, ...]


class Appended(NamedTuple):
    """Where one batch landed, in the order of the request; ``duplicate`` if it was there before."""

    topic: str
    partition: int
    base_offset: int
    count: int  # type: ignore[assignment]
    timestamp_ms: int
    duplicate: bool = False


def append(state: State, action: AppendBatches) -> tuple[State, tuple[Appended, ...]]:
    """Offsets for all batches of all files, or for none.

    A request whose batches were all appended before is answered with their first offsets and changes
    nothing (KIP-98); one that repeats only some of them is out of order.
    """
    stamp = action.producer
    producer: Producer | None
    if stamp == NO_PRODUCER:
        producer = None
    elif stamp.number == NO_PRODUCER.number:
        producer = producers.require_idempotent(state, stamp)
    else:
        state, producer = producers.require_transaction(state, stamp)
    topics_by_name = {name: topics.require(state, name, topic_id) for name, topic_id in action.topics}
    for staged in action.files:
        _check_file(topics_by_name, staged)
    windows = {} if producer is None else _windows(producer, action, topics_by_name)
    if (
        producer is not None
        and any(windows.values())
        and (repeated := _repeated(producer, action, topics_by_name)) is not None
    ):
        return state, repeated
    # Not before the repetition is ruled out: a file that is in the log already is kept, however old it is.
    for staged in action.files:
        check_floor(state, staged.file.name)
    appended = []
    touched: dict[PartitionKey, bool] = {}
    opens: dict[int, Map[int, int]] = {}
    with state.partitions.mutate() as partitions:
        for staged in action.files:
            topic, file = topics_by_name[staged.topic], staged.file
            for batch in staged.batches:
                key = (topic.topic_id, batch.partition)
                before = partitions[key]
                if producer is not None and batch.base_sequence != NO_SEQUENCE:
                    windows[key] = producers.next_window(
                        producer, topic.name, windows[key], stamp.number, batch, before.end
                    )
                partitions[key] = _appended(before, stamp, file, batch, opens)
                appended.append(
                    Appended(topic.name, batch.partition, before.end, batch.count, batch.max_timestamp_ms)
                )
                touched[key] = True
        state = replace(state, partitions=partitions.finish())
    if producer is not None:
        if stamp.number != NO_PRODUCER.number:
            producer = replace(producer, touched=producer.touched.update(touched))
        producer = replace(producer, sequences=producer.sequences.update(windows), last_ms=state.timestamp_ms)
        state = replace(state, producers=state.producers.set(producer.producer_id, producer))
    return state, tuple(appended)


def _fate_of_append(state: State, action: AppendBatches) -> Fate:
    stamp = action.producer
    producer = state.producers.get(stamp.producer_id)
    if producer is None or producer.epoch != stamp.epoch:
        return Fate.UNKNOWN
    ids = dict(action.topics)
    for staged in action.files:
        for batch in staged.batches:
            if batch.base_sequence == NO_SEQUENCE:
                return Fate.UNKNOWN
            key = (ids.get(staged.topic, ""), batch.partition)
            duplicate = producers.find_duplicate(producer, key, stamp.number, batch)
            return Fate.APPLIED if duplicate is not None else Fate.UNKNOWN
    return Fate.UNKNOWN


def _effects_of_append(action: AppendBatches) -> Effects:
    stamp, ids = action.producer, dict(action.topics)
    keys = {(ids.get(file.topic, ""), batch.partition) for file in action.files for batch in file.batches}
    alone = stamp.number == NO_PRODUCER.number
    return Effects(stamp.producer_id, frozenset(keys), ended=(stamp, True) if alone else None)


def _shown_append(action: AppendBatches) -> dict[str, Any]:
    """The fields of each file beside its topic and batches."""
    files = [
        {**shown(staged.file), "topic": staged.topic, "batches": shown(staged.batches)}
        for staged in action.files
    ]
    return {"producer": shown(action.producer), "topics": shown(action.topics), "files": files}


declare(
    AppendBatches,
    number=5,
    fields=(Field("producer", STAMP), Field("topics", PAIRS), Field("files", STAGED_FILES)),
    rule=append,
    fate=_fate_of_append,
    # Rows without a producer are not recognised when they come again.
    is_repeatable=lambda action: action.producer != NO_PRODUCER,
    effects=_effects_of_append,
    show=_shown_append,
    answer=Answer(list, lambda told: tuple(Appended(*fields) for fields in told)),
)


def check_file_name(name: str) -> None:
    """Raise `InvalidRequestError` for the name of a file outside of the log, or of one of its entries."""
    parts = name.split("/")
    if len(name) > _FILE_NAME or "\\" in name or parts[0] == "_log" or not {"", ".", ".."}.isdisjoint(parts):
        raise InvalidRequestError(f"{name[:200]!r} is not the name of a data file of this log")


def staged_at(file_name: str) -> int:
    """The base seq in a data file's name, ``…/<base seq>-<id>.arrow``: the newest entry when its writer began."""
    digits, _, suffix = file_name.rpartition("/")[2].partition("-")
    if not suffix or not _BASE_SEQ.fullmatch(digits):
        raise InvalidRequestError(f"{file_name!r} is not the name of a data file: <base seq>-<id>.arrow")
    return int(digits)


def check_floor(state: State, name: str) -> None:
    """Raise `StagedFileExpiredError` if the file may have been removed before anything refers to it."""
    if staged_at(name) < state.staging_floor:
        if staged_at(name) <= state.encrypted_at:
            raise StagedFileExpiredError(
                f"file {name} was staged before entry {state.encrypted_at}, since which the data files of this log are "
                f"encrypted (key {state.encryption_key_id!r}): write the rows again, with the settings encryption.keys "
                "and encryption.key.id. Nothing of this request was committed"
            )
        if staged_at(name) <= state.data_placed_at:
            apart = state.data_url and not state.data_url.startswith("./")
            place = f"at {state.data_url}" if apart else "beside its entries"
            raise StagedFileExpiredError(
                f"file {name} was staged before entry {state.data_placed_at}, since which the data files of this log "
                f"are {place}: write the rows again. Nothing of this request was committed"
            )
        raise StagedFileExpiredError(
            f"file {name} was staged before entry {state.staging_floor}, the staging floor, "
            "and may have been removed by vacuum: write the rows again. Nothing of this request was committed. A Spark "
            "query writes them again when it is started again; if a batch takes longer than vacuum's --min-age, raise "
            "that"
        )


def _appended(
    partition: Partition,
    stamp: ProducerStamp,
    file: FileRef,
    batch: BatchRef,
    opens: dict[int, Map[int, int]],
) -> Partition:
    """The partition with one more batch. Partitions with the same end share a map of open transactions (``opens``)."""
    # Positional arguments, since they are quicker: this runs for every batch of every entry, in every process.
    start, base, index, opened, aborted = partition
    if stamp.number != NO_PRODUCER.number and stamp.producer_id not in opened:
        if opened:
            opened = opened.set(stamp.producer_id, base)
        elif base in opens:
            opened = opens[base]
        else:
            opened = opens[base] = opened.set(stamp.producer_id, base)
    row = IndexRow(base, batch.count, Kind.DATA, stamp, batch.max_timestamp_ms, file, batch)
    return Partition(start, base + batch.count, index.append(row), opened, aborted)


def _check_file(topics_by_name: dict[str, Topic], staged: StagedFile) -> None:
    topic = topics_by_name.get(staged.topic)
    if topic is None:
        raise InvalidRequestError(
            f"file {staged.file.name} names topic {staged.topic!r} without its topic id"
        )
    if not 0 <= staged.file.schema_version <= len(topic.schemas) or bool(topic.schemas) != bool(
        staged.file.schema_version
    ):
        raise InvalidRecordError(
            f"file {staged.file.name} has rows of schema version {staged.file.schema_version}; topic "
            f"{topic.name!r} has versions up to {len(topic.schemas)}"
        )
    if staged.file.is_parquet:
        raise InvalidRecordError(
            f"file {staged.file.name} is a Parquet file: rows are appended in Arrow files alone"
        )
    if _inside(staged, topic):
        return
    for batch in staged.batches:
        if not 0 <= batch.partition < topic.partitions:
            raise UnknownTopicOrPartitionError(
                f"topic {topic.name!r} has no partition {batch.partition}: it has {topic.partitions}"
            )
        inside = batch.position >= 0 <= batch.length and batch.position + batch.length <= staged.file.size
        if batch.count < 1 or not inside:
            raise InvalidRecordError(
                f"batch of {batch.count} records at byte {batch.position} (+{batch.length}) does not lie in "
                f"file {staged.file.name} of {staged.file.size} bytes"
            )


def _inside(staged: StagedFile, topic: Topic) -> bool:
    """Whether all batches are right. It looks at columns, which is quick: nearly always all are right."""
    if not staged.batches:
        return True
    partitions, counts, positions, lengths, *_ = zip(*staged.batches, strict=True)
    return bool(
        min(partitions) >= 0
        and max(partitions) < topic.partitions
        and min(counts) >= 1
        and min(positions) >= 0
        and min(lengths) >= 0
        and max(map(add, positions, lengths)) <= staged.file.size
    )


def _windows(
    producer: Producer, action: AppendBatches, topics_by_name: dict[str, Topic]
) -> dict[PartitionKey, tuple[int, ...]]:
    """The producer's last batches in each partition for which the action has sequence numbers."""
    keys = [
        (topics_by_name[staged.topic].topic_id, batch.partition)
        for staged in action.files
        for batch in staged.batches
        if batch.base_sequence != NO_SEQUENCE
    ]
    return {key: producer.sequences.get(key, ()) for key in keys}


def _repeated(
    producer: Producer, action: AppendBatches, topics_by_name: dict[str, Topic]
) -> tuple[Appended, ...] | None:
    """The answer for a request that was applied before, or None if it is new."""
    answers, fresh = [], 0
    for staged in action.files:
        topic = topics_by_name[staged.topic]
        for batch in staged.batches:
            duplicate = None
            if batch.base_sequence != NO_SEQUENCE:
                key = (topic.topic_id, batch.partition)
                duplicate = producers.find_duplicate(producer, key, action.producer.number, batch)
            if duplicate is None:
                fresh += 1
            else:
                answers.append(
                    Appended(
                        topic.name,
                        batch.partition,
                        duplicate.base_offset,
                        batch.count,
                        batch.max_timestamp_ms,
                        duplicate=True,
                    )
                )
    if not answers:
        return None
    if fresh:
        raise OutOfOrderSequenceError(
            f"{len(answers)} batches of producer {producer.producer_id} are in the log already and {fresh} "
            "are new: a request is repeated as a whole"
        )
    return tuple(answers)
