"""A mirror of Kafka at work: partitions come and go, records are gathered, and each batch is one entry of the log."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from spark_eos.errors import (
    CheckpointMismatchError,
    CommitOutcomeUnknownError,
    ConfigError,
    EosLogError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    RetriableError,
    UnknownTopicOrPartitionError,
)
from spark_eos.extensions.mirror.batch_writer import BatchWriter, Filled
from spark_eos.extensions.mirror.buffer import OpenPartition
from spark_eos.extensions.mirror.groups import translate
from spark_eos.extensions.mirror.kafka_source import GONE, KafkaSource, SourceTopic, Start, recreated
from spark_eos.extensions.mirror.left_out import LeftOut
from spark_eos.extensions.mirror.notes import check_no_loop, check_not_taken_over
from spark_eos.extensions.mirror.options import MirrorOptions
from spark_eos.extensions.mirror.plan import MAX_PARTITIONS, begin, is_current, take_over
from spark_eos.extensions.mirror.positions import (
    MirroredPartition,
    Position,
    last_batch,
    lost_offsets,
    map_topic,
    positions,
)
from spark_eos.extensions.mirror.targets import Target, check_continues, check_distinct, copied, prepare
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action
from spark_eos.protocol.state import State

_POLL_S = 0.1
_POLL_RECORDS = 5000
_AGAIN_S = 1.0

_GONE_S = 5.0
"""For so long a topic that a broker does not know is asked for again: it may be a broker that has just started."""


class Mirrored(NamedTuple):
    """What a mirror has done in this process. ``left_out`` are topics of Kafka that cannot be mirrored."""

    batches: int
    records: int
    left_out: tuple[str, ...] = ()


class Mirror:
    """One process of a mirror into a log. ``tell`` is called with what is worth knowing. For one thread."""

    def __init__(
        self, log: Log, source: KafkaSource, options: MirrorOptions, tell: Callable[[str], None]
    ) -> None:
        options.check()
        self._log = log
        self._source = source
        self._options = options
        self._tell = tell
        self._is_stopped: Callable[[], bool] = lambda: False
        self._writer = BatchWriter(log, options.name, lambda: not self._is_stopped())
        self._open: dict[tuple[str, int], OpenPartition] = {}
        self._topics: dict[str, SourceTopic] = {}
        self._left_out = LeftOut(tell)
        self._cluster = ""
        self._assigned = False
        self._since: float | None = None
        """Since when something waits."""
        self._refreshed = log.clock.monotonic()
        self._totals = Mirrored(0, 0)

    def run(self, is_stopped: Callable[[], bool], *, once: bool = False) -> Mirrored:
        """Mirror until ``is_stopped``, or, ``once``, until this process has mirrored all that is there."""
        self._is_stopped = is_stopped
        self._cluster = self._source.cluster_id()
        options = self._options
        try:
            if options.partitions is None:
                self._prepare_each(self._source.find(options.topics, options.pattern))
                self._subscribe()
            else:
                check_distinct({name: self._target(name) for name in options.partitions})
                self._prepare(self._source.find(options.partitions, None))
                places = [(name, at) for name, numbers in options.partitions.items() for at in numbers]
                self._source.assign(self._take(places))
            while not is_stopped():
                if not self._is_full:
                    self._read()
                if self._is_due(once=once):
                    self._commit_or_wait()
                if self._log.clock.monotonic() - self._refreshed >= options.refresh_s:
                    self._refresh()
                if once and self._is_at_end() and self._since is None:
                    break
            self._commit()
            self._translate()
        finally:
            self._source.close()
        return self._totals._replace(left_out=self._left_out.names)

    # -- Topics ------------------------------------------------------------------------------------------

    def _target(self, topic: str) -> str:
        return self._options.renamed.get(topic, topic)

    def _prepare_each(self, topics: Mapping[str, SourceTopic]) -> None:
        """Prepare them, but for those that cannot be mirrored."""
        check_distinct({name: self._target(name) for name in topics})
        self._left_out.prepare(topics, self._topics, self._prepare)

    def _prepare(self, topics: Mapping[str, SourceTopic]) -> None:
        """Make the log's topics what Kafka's are, and note where new ones begin."""
        options = self._options
        configs = self._source.configs(topics) if options.copies_settings else {}
        targets = [
            Target(topic, self._target(name), copied(configs[name]) if name in configs else None)
            for name, topic in topics.items()
        ]
        names = [name for target in targets for name in (target.name, map_topic(options.name, target.name))]
        ids = {name: str(uuid.UUID(bytes=self._log.clock.unique(), version=4)) for name in names}

        def propose(state: State) -> tuple[Action, ...]:
            check_not_taken_over(state, options.name)
            into = [
                (target.source.topic_id, state.topics[target.name].topic_id)
                for target in targets
                if target.name in state.topics
            ]
            check_no_loop(state, into=into)
            earlier = positions(state, options.name)
            for target in targets:
                if target.name in state.topics:
                    target_id = state.topics[target.name].topic_id
                    check_continues(earlier, target.source, target_id, self._cluster, self._source.address)
            return prepare(state, options.name, targets, ids, may_append=options.may_append)

        # All settings of a topic are in it, those that others change too.
        commit = self._log.commit(propose, writer="mirror in", alone=True)
        for target in targets:
            topic = target.source
            target_id = commit.state.topics[target.name].topic_id
            self._topics[topic.name] = topic
            first = MirroredPartition(options.name, topic.topic_id, target_id, 0)
            if last_batch(commit.state, first) is None:
                self._begin(topic, target.name, target_id)

    def _begin(self, topic: SourceTopic, target: str, target_id: str) -> None:
        first = [
            Position(
                self._cluster,
                topic.name,
                topic.topic_id,
                target,
                target_id,
                number,
                self._source.bounds(topic.name, number)[0],
            )
            for number in range(topic.partitions)
        ]
        self._check_topics([topic.name])
        run_id = str(uuid.uuid4())

        def propose(state: State) -> tuple[Action, ...]:
            check_no_loop(state, into=[(topic.topic_id, target_id)])
            return begin(state, first, self._options.name, run_id)

        self._log.commit(propose, writer="mirror in", alone=True)

    def _subscribe(self) -> None:
        self._assigned = bool(not self._topics)  # A pattern may match nothing yet.
        if self._topics:
            self._source.subscribe(sorted(self._topics), self._take, self._give_up)

    def _refresh(self) -> None:
        """Look for new topics, partitions and settings."""
        self._refreshed = self._log.clock.monotonic()
        options = self._options
        try:
            before = {*self._topics}
            topics = self._source.find(options.partitions or options.topics, options.pattern)
            (self._prepare_each if options.partitions is None else self._prepare)(topics)
            if {*self._topics} != before and options.partitions is None:
                self._subscribe()
        except KafkaTimeoutError as error:
            self._tell(f"{error}")
            return
        self._translate()

    def _translate(self) -> None:
        if self._options.groups is None:
            return
        try:
            offsets = self._source.group_offsets(self._options.groups)
        except KafkaTimeoutError as error:
            self._tell(f"{error}")
            return
        for line in translate(self._log, self._options.name, offsets):
            self._tell(line)

    def _check_topics(self, names: Sequence[str]) -> None:
        """Raise if a topic is another one now: what was read since the last check may be of either."""
        topics = self._source.described_patiently(names)
        deadline = self._log.clock.monotonic() + _GONE_S
        while not topics.keys() >= {*names} and self._log.clock.monotonic() < deadline:
            self._log.clock.sleep(_POLL_S)
            topics = self._source.described_patiently(names)
        for name in names:
            topic = topics.get(name)
            if topic is None or topic.topic_id != self._topics[name].topic_id:
                raise recreated(
                    name,
                    self._topics[name].topic_id,
                    None if topic is None else topic.topic_id,
                    self._source.address,
                )

    # -- Partitions --------------------------------------------------------------------------------------

    def _take(self, places: Sequence[tuple[str, int]]) -> list[Start]:
        """This process mirrors these partitions from now on: every other process is fenced, then it is read where."""
        self._assigned = True
        fresh = {
            name
            for name, number in places
            if name not in self._topics or number >= self._topics[name].partitions
        }
        if fresh:
            self._prepare(self._source.find(sorted(fresh), None))
        runs: dict[tuple[str, int], tuple[MirroredPartition, str]] = {}
        for name, number in places:
            topic = self._topics[name]
            if not 0 <= number < topic.partitions:
                raise UnknownTopicOrPartitionError(
                    f"topic {name!r} of Kafka has no partition {number}: it has {topic.partitions}"
                )
            target_id = self._log.topic(self._target(name)).topic_id
            partition = MirroredPartition(self._options.name, topic.topic_id, target_id, number)
            runs[name, number] = (partition, str(uuid.uuid4()))

        def propose(state: State) -> tuple[Action, ...]:
            check_not_taken_over(state, self._options.name)
            return take_over(state, list(runs.values()))

        commit = self._log.commit(propose, writer="mirror in", alone=True)
        starts = []
        for at, (partition, run_id) in runs.items():
            opened = self._open_partition(at, partition, run_id, last_batch(commit.state, partition))
            self._open[at] = opened
            starts.append(Start(*at, opened.next_offset, opened.epoch))
        self._check_topics(sorted({name for name, _ in places}))
        return starts

    def _open_partition(
        self, at: tuple[str, int], partition: MirroredPartition, run_id: str, last: Any
    ) -> OpenPartition:
        name, number = at
        if last is not None:
            start = last.position
        else:
            start = Position(
                self._cluster, name, partition.source_id, self._target(name), partition.target_id, number, 0
            )
        return OpenPartition(partition, run_id, last, self._readable(at, start))

    def _readable(self, at: tuple[str, int], start: Position) -> Position:
        """The position; with ``accept_loss`` where Kafka begins, if that is after it."""
        name, number = at
        low, high = self._source.bounds(name, number)
        if start.offset > high:
            raise OffsetOutOfRangeError(
                f"{name}-{number} of Kafka ends at offset {high}, and the mirror has read it up to {start.offset}: "
                "Kafka has lost records at its end. Nothing was written. The log has them; look for the broker that "
                "was elected without them (unclean.leader.election.enable), and mirror the topic under another --name"
            )
        if start.offset < low:
            if not self._options.accept_loss:
                raise lost_offsets(at, start.offset, low)
            self._tell(
                f"{name}-{number}: records {start.offset} to {low - 1} are gone from Kafka and are not mirrored"
            )
            start = start._replace(offset=low, leader_epoch=-1)
        return start

    def _give_up(self, partitions: Sequence[tuple[str, int]]) -> None:
        """These are another process's; what waits of them is read there."""
        for at in partitions:
            self._open.pop(at, None)

    # -- Records -----------------------------------------------------------------------------------------

    def _read(self) -> None:
        messages = self._source.poll(_POLL_RECORDS, _POLL_S)
        for message in messages:
            error = message.error()
            if error is not None:
                self._note_error(message, error)
                continue
            opened = self._open.get((message.topic(), message.partition()))
            if opened is not None:
                opened.add(message)
        if self._since is None and any(partition.is_new for partition in self._open.values()):
            self._since = self._log.clock.monotonic()

    def _note_error(self, message: Any, error: Any) -> None:
        at = (message.topic(), message.partition())
        opened = self._open.get(at)
        name = error.name()
        if name == "_PARTITION_EOF":
            if opened is not None:
                opened.reach_end(message.offset())
        elif name in {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION"}:
            if opened is not None:
                self._check_topics([at[0]])
                onward = self._readable(at, opened.share()[0].after)
                if onward.offset == opened.next_offset:
                    raise lost_offsets(at, opened.next_offset, None)
                opened.next_offset, opened.epoch = onward.offset, onward.leader_epoch
                self._source.go_on(Start(*at, onward.offset))
        elif name in GONE:
            self._check_topics([at[0]] if at[0] in self._topics else [])
        elif error.fatal() or not self._source.is_away(error):
            raise ConfigError(
                f"Kafka refuses {at[0]}: {error.str()} ({name}). Look at --kafka-config, and at the rights of its user"
            )
        else:
            self._tell(f"Kafka: {error.str()}")

    def _is_due(self, *, once: bool) -> bool:
        if self._since is None:
            return False
        waited = self._log.clock.monotonic() - self._since
        return self._is_full or waited >= self._options.interval_s or (once and self._is_at_end())

    @property
    def _is_full(self) -> bool:
        return sum(partition.bytes for partition in self._open.values()) >= self._options.batch_bytes

    def _is_at_end(self) -> bool:
        return self._assigned and all(partition.at_end for partition in self._open.values())

    def _commit_or_wait(self) -> None:
        """While Kafka or the store does not answer, what was read waits."""
        try:
            self._commit()
        except CommitOutcomeUnknownError:
            raise
        except RetriableError as error:
            self._tell(f"{error}; it is tried again")
            self._log.clock.sleep(_AGAIN_S)
            self._since = self._log.clock.monotonic()

    def _commit(self) -> None:
        """All that waits goes into one entry."""
        self._since = None
        due = [partition for partition in self._open.values() if partition.is_new][:MAX_PARTITIONS]
        if not due:
            return
        # After the records were read, and before they are written: an id never comes back.
        self._check_topics(sorted({partition.topic for partition in due}))
        filled = [Filled(*_first(partition)) for partition in due]
        try:
            batch = self._writer.write(filled)
        except (ProducerFencedError, CheckpointMismatchError) as error:
            self._drop_lost(due, error)
            return
        for partition, share, end in zip(due, batch.shares, batch.ends, strict=True):
            self._totals = Mirrored(self._totals.batches, self._totals.records + len(share.offsets))
            partition.committed(end, share.batch_id)
        self._totals = Mirrored(self._totals.batches + 1, self._totals.records)
        self._source.note({(end.topic, end.partition): end.offset for end in batch.ends})

    def _drop_lost(self, due: Sequence[OpenPartition], error: EosLogError) -> None:
        """Give up the partitions that another process has taken over; the others wait for the next batch."""
        state = self._log.follow()
        lost = [part for part in due if not is_current(state, part.partition, part.run_id)]
        if not lost:
            raise error
        if self._options.partitions is not None:
            raise ProducerFencedError(
                f"another process mirrors {', '.join(part.name for part in lost)} under "
                f"--name {self._options.name}: this one stops. Nothing of its last batch was written. Give each "
                "process partitions of its own, or none (--partitions), so that Kafka's group shares them out"
            ) from error
        for part in lost:
            self._open.pop((part.topic, part.partition.partition), None)
            self._tell(f"{part.name}: another process of this mirror has taken over")
        self._since = self._log.clock.monotonic()


def _first(partition: OpenPartition) -> tuple[Any, str, Any]:
    share, columns = partition.share()
    return share, partition.target, columns
