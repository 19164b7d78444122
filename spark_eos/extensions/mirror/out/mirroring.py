"""A mirror to Kafka at work: it follows the log, and each whole cut of it becomes one Kafka transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from spark_eos.errors import (
    CommitOutcomeUnknownError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    RetriableError,
    UnknownTopicOrPartitionError,
)
from spark_eos.extensions.mirror.notes import Pair, check_no_loop, note_of
from spark_eos.extensions.mirror.out.covered import Covered
from spark_eos.extensions.mirror.out.cut import next_cut
from spark_eos.extensions.mirror.out.feed import Feed
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
from spark_eos.extensions.mirror.out.opening import Opening
from spark_eos.extensions.mirror.out.options import OutOptions
from spark_eos.extensions.mirror.out.position import Head, Sent, transactional_id
from spark_eos.extensions.mirror.out.producer import AbortedError, TransactionalProducer
from spark_eos.extensions.mirror.out.reversal import Reversal
from spark_eos.extensions.mirror.out.sender import Sender
from spark_eos.extensions.mirror.out.topics import OutTopics
from spark_eos.extensions.mirror.out.translation import Translation
from spark_eos.log.log import Log
from spark_eos.log.selection.whole_transactions import Cut, Unit, most, torn
from spark_eos.protocol.state import PartitionKey, State

_AGAIN_S = 1.0


class MirroredOut(NamedTuple):
    """What a mirror has done in this process. ``torn`` are transactions of the log in several ones of Kafka."""

    transactions: int
    records: int
    torn: int


class MirrorOut:
    """The process of a mirror to Kafka. ``tell`` is called with what is worth knowing. For one thread."""

    def __init__(
        self, log: Log, target: KafkaTarget, options: OutOptions, tell: Callable[[str], None]
    ) -> None:
        options.check()
        self._log = log
        self._target = target
        self._options = options
        self._tell = tell
        self._is_stopped: Callable[[], bool] = lambda: False
        self._producer = TransactionalProducer(target, transactional_id(options.name), self._has_to_end, tell)
        self._opening = Opening(log, target, options)
        self._kafka_topics = OutTopics(target, options, tell)
        self._sender = Sender(log, self._producer, self._opening, self._kafka_topics)
        self._reversal = Reversal(log, target, options, tell)
        self._covered = Covered()
        self._torn: set[object] = set()
        self._refreshed = log.clock.monotonic()
        self._totals = MirroredOut(0, 0, 0)
        self._feed: Feed

    def _has_to_end(self) -> bool:
        return self._is_stopped()

    def run(self, is_stopped: Callable[[], bool], *, once: bool = False) -> MirroredOut:
        """Mirror until ``is_stopped``, or, ``once``, until all is sent that was there and may be."""
        self._is_stopped = is_stopped
        options = self._options
        try:
            self._open()
            while not is_stopped():
                try:
                    at_end = self._feed.advance(options.batch_records)
                    moved = self._step()
                except CommitOutcomeUnknownError:
                    raise
                except (AbortedError, RetriableError) as error:
                    self._wait(error)
                    continue
                if once and at_end and not moved:
                    break
                if at_end and not once:
                    self._rest()
                if self._log.clock.monotonic() - self._refreshed >= options.refresh_s:
                    self._refresh()
            self._translate()
        finally:
            self._producer.close()
            self._target.close()
        return self._totals

    def _wait(self, error: Exception) -> None:
        """Nothing of the transaction is in Kafka: the same is sent again."""
        self._tell(f"{error}; it is tried again")
        self._log.clock.sleep(_AGAIN_S)
        if isinstance(error, AbortedError):
            self._sender.check_kafka({*self._sender.topics})

    def _rest(self) -> None:
        end = self._log.clock.monotonic() + self._options.interval_s
        while not self._is_stopped() and (remaining_s := end - self._log.clock.monotonic()) > 0:
            self._log.clock.sleep(min(remaining_s, 0.1))

    # -- Beginning ---------------------------------------------------------------------------------------

    def _open(self) -> None:
        state = self._log.follow()
        names = [*self._reversal.targets(state)] if self._options.reverses else self._topic_names(state)
        is_new = note_of(state, self._options.name) is None
        if is_new:
            self._check_new(state, names)
        head, sent_topics = self._opening.open(self._producer)
        state = self._opening.note(())  # From now on a lost position is missed, and the mirror in has ended.
        if is_new:
            self._reversal.check_drained(state, refuses=False)
        self._covered = self._reversal.covered(state)
        for name in {*sent_topics} - {*names}:
            self._tell(f"topic {name} was mirrored under this --name, and is not any more")
        sent: dict[PartitionKey, int] = {}
        for name in names:
            sent.update(self._take(state, name, sent_topics.get(name), is_first=head is None))
        self._note()
        self._configure()
        if head is None or any(name not in sent_topics for name in names):
            self._begin(head, sent)
        seq = -1 if head is None else head.seq
        self._feed = Feed(self._log, seq, sent, self._covered.count, self._options.wants, self._tell)
        self._feed.add_unknown()

    def _check_new(self, state: State, names: list[str]) -> None:
        """Raise what can be known before anything is written on either side."""
        pairs = []
        for name in names:
            self._reversal.check_kafka(state, name)
            topic = state.topics[name]
            kafka_topic = self._kafka_topics.check(
                topic, self._kafka_name(name), None, may_have=self._may_have
            )
            if kafka_topic is not None:
                pairs.append((topic.topic_id, kafka_topic.topic_id))
        check_no_loop(state, out=pairs, ended=self._options.reverses)
        self._reversal.check_drained(state, refuses=True)

    @property
    def _may_have(self) -> bool:
        return self._options.may_append or self._options.reverses is not None

    def _topic_names(self, state: State) -> list[str]:
        for name in self._options.topics:
            if name not in state.topics:
                raise UnknownTopicOrPartitionError(f"{self._log.url} has no topic {name!r}")
        return sorted(filter(self._options.wants, state.topics))

    def _kafka_name(self, topic: str) -> str:
        if self._options.reverses is not None:
            return self._reversal.targets(self._log.state)[topic]
        return self._options.renamed.get(topic, topic)

    def _take(
        self, state: State, name: str, sent: Sent | None, *, is_first: bool = False
    ) -> dict[PartitionKey, int]:
        """Prepare a topic. Returns up to where its partitions are sent."""
        topic, kafka = state.topics[name], self._kafka_name(name)
        other_topics = [
            out_topic.topic
            for out_topic in self._sender.topics.values()
            if out_topic.kafka == kafka and out_topic.topic != name
        ]
        if other_topics:
            raise UnknownTopicOrPartitionError(
                f"topics {other_topics[0]!r} and {name!r} would both become {kafka!r}"
            )
        self._reversal.check_kafka(state, name)
        prepared = self._kafka_topics.prepare(topic, kafka, sent, may_have=self._may_have)
        self._sender.topics[topic.topic_id] = prepared
        offsets = {}
        for number in range(topic.partitions):
            key = (topic.topic_id, number)
            start = state.partitions[key].start
            if sent is None:
                offsets[key] = 0 if self._options.reverses is not None else start
                if start and not is_first and self._options.reverses is None:
                    self._tell(f"{name}-{number} begins at offset {start} of the log")
            else:
                offsets[key] = sent.next[number] if number < len(sent.next) else 0
                self._sender.ends[key] = sent.ends[number] if number < len(sent.ends) else -1
        return offsets

    def _note(self) -> None:
        pairs = {
            Pair(out_topic.topic_id, out_topic.kafka_id, out_topic.topic, out_topic.kafka)
            for out_topic in self._sender.topics.values()
        }
        self._opening.note(tuple(sorted(pairs)))

    def _begin(self, head: Head | None, sent: Cut) -> None:
        """Write down where all topics begin: records that go before they are sent are missed from now on."""
        while not self._is_stopped():
            try:
                self._sender.begin(head or Head(self._log.log_id, -1), sent)
            except AbortedError as error:
                self._wait(error)
            else:
                return

    # -- Sending -----------------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Send the next cut. Returns whether there was one."""
        feed, options = self._feed, self._options
        self._see_topics()
        self._check_starts()
        end = most(feed.sent, feed.stops, feed.units)
        cut = next_cut(feed.sent, end, feed.units, options.batch_records, options.limit_records)
        if cut == feed.sent:
            return False
        fetches = self._sender.fetches(feed.sent, cut, self._covered)
        if fetches:
            head = Head(self._log.log_id, feed.seq_after(cut))
            count = self._sender.send(head, feed.sent, cut, fetches)
            self._totals = self._totals._replace(
                transactions=self._totals.transactions + 1, records=self._totals.records + count
            )
            self._count_torn(feed.units, cut)
        feed.move(cut)
        return True

    def _count_torn(self, units: list[Unit], cut: Cut) -> None:
        for unit in torn(units, cut):
            name = (unit.seq, tuple(sorted((*key, part.end) for key, part in unit.parts.items())))
            if name not in self._torn:
                self._torn.add(name)
                self._totals = self._totals._replace(torn=self._totals.torn + 1)
                size = sum(part.records for part in unit.parts.values())
                self._tell(
                    f"what was written up to entry {unit.seq} and belongs together has {size} records, more than "
                    f"--transaction-records {self._options.limit_records}: it is torn over several transactions of "
                    "Kafka"
                )

    # -- What changes ------------------------------------------------------------------------------------

    def _see_topics(self) -> None:
        """Topics and partitions that the feed has met are made in Kafka before anything of them is sent."""
        state = self._log.state
        for out_topic in [*self._sender.topics.values()]:
            topic = state.topics.get(out_topic.topic)
            if topic is None or topic.topic_id != out_topic.topic_id:
                problem = "was deleted" if topic is None else "was deleted and created again"
                raise UnknownTopicOrPartitionError(
                    f"topic {out_topic.topic!r} of {self._log.url} {problem} since it was mirrored (topic id "
                    f"{out_topic.topic_id}). To go on without it, leave it out of --topic; to mirror the new one, use "
                    "another --name and another topic of Kafka (--rename)"
                )
        numbers: dict[str, int] = {}
        for topic_id, number in self._feed.sent:
            numbers[topic_id] = max(numbers.get(topic_id, 0), number + 1)
        names = {topic.topic_id: topic.name for topic in state.topics.values()}
        fresh = []
        for topic_id, count in numbers.items():
            if topic_id not in self._sender.topics and topic_id not in names:  # Created and deleted since.
                for key in [key for key in self._feed.sent if key[0] == topic_id]:
                    del self._feed.sent[key]
            elif topic_id not in self._sender.topics or self._sender.topics[topic_id].partitions < count:
                fresh.append(names[topic_id])
        for name in fresh:
            topic_id = state.topics[name].topic_id
            is_known = topic_id in self._sender.topics
            sent = self._sender.sent(topic_id, self._feed.sent, self._sender.ends) if is_known else None
            self._take(state, name, sent)
        if fresh:
            self._note()

    def _check_starts(self) -> None:
        """Records that went from the log before they were sent are never skipped in silence."""
        state = self._log.state
        for key, sent in self._feed.sent.items():
            partition = state.partitions.get(key)
            if partition is None or partition.start <= sent:
                continue
            start, name = partition.start, f"{self._sender.topics[key[0]].topic}-{key[1]}"
            if self._covered.count(key, sent, start) < start - sent:
                if not self._options.accept_loss:
                    raise OffsetOutOfRangeError(
                        f"the mirror is at offset {sent} of {name}, which begins at offset {start}: retention has "
                        "deleted records that were not sent to Kafka. Nothing was skipped. To go on without them, "
                        "start the mirror with --accept-loss; raise retention.ms of the topic before"
                    )
                self._tell(f"{name}: records {sent} to {start - 1} are gone from the log and are not sent")
            self._feed.sent[key] = start

    def _refresh(self) -> None:
        """Follow the settings of topics, and the offsets of groups."""
        self._refreshed = self._log.clock.monotonic()
        try:
            self._configure()
        except KafkaTimeoutError as error:
            self._tell(f"{error}")
            return
        self._translate()

    def _configure(self) -> None:
        topics = self._log.state.topics
        out_topics = self._sender.topics.values()
        self._kafka_topics.configure(
            {
                out_topic.kafka: topics[out_topic.topic]
                for out_topic in out_topics
                if out_topic.topic in topics
            }
        )

    def _translate(self) -> None:
        if self._options.groups is None:
            return
        try:
            state = self._log.follow()
            topics = [*self._sender.topics.values()]
            groups = Translation(self._log, state, self._target, self._options, topics)
            for line in groups.commit(self._feed.sent, self._sender.ends):
                self._tell(line)
        except RetriableError as error:
            self._tell(f"{error}")
