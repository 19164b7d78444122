"""How a mirror to Kafka begins or goes on: whose position it is, and that none was lost."""

from __future__ import annotations

import uuid

from spark_eos.errors import ConfigError, InvalidRequestError, OffsetOutOfRangeError
from spark_eos.extensions.mirror.kafka_source import SourceTopic
from spark_eos.extensions.mirror.notes import (
    Note,
    Pair,
    check_no_loop,
    note_of,
    notes,
    partitions_of,
    write_note,
)
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
from spark_eos.extensions.mirror.out.options import OutOptions
from spark_eos.extensions.mirror.out.position import Head, Sent, parsed, position_topic
from spark_eos.extensions.mirror.out.producer import TransactionalProducer
from spark_eos.extensions.mirror.plan import take_over
from spark_eos.extensions.mirror.positions import MirroredPartition
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action
from spark_eos.protocol.state import State

_WRITER = "mirror out"
_GONE_S = 5.0
_CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "3600000"}


class Opening:
    """Opens the position of a mirror. `note` writes into the log what the log has to know of the mirror."""

    def __init__(self, log: Log, target: KafkaTarget, options: OutOptions) -> None:
        self._log = log
        self._target = target
        self._options = options
        self._run_id = str(uuid.uuid4())
        self.cluster = ""
        self.positions_id = ""

    @property
    def topic(self) -> str:
        """The topic of positions."""
        return position_topic(self._options.name)

    def open(self, producer: TransactionalProducer) -> tuple[Head | None, dict[str, Sent]]:
        """Fence all earlier processes, and read how far they came. None: none of them has sent anything."""
        self.cluster = self._target.cluster_id()
        note = note_of(self._log.follow(), self._options.name)
        self._check_note(self._log.state)  # What is refused makes no topic of positions.
        positions_topic = self._positions_topic(note)
        self.positions_id = positions_topic.topic_id
        # Before `start` fences the mirror of this name: if that is another log's, this call refuses.
        self._read(waits=False)
        producer.start()
        if self._positions_topic(note).topic_id != self.positions_id:
            raise self._positions_lost("deleted and created again")
        return self._read(waits=True)

    def _positions_topic(self, note: Note | None) -> SourceTopic:
        """The topic of positions. It is created if the log has no note of it."""
        if note is not None and note.cluster != self.cluster:
            raise InvalidRequestError(
                f"mirror out {note.mirror!r} sends to the Kafka cluster {note.cluster}, and {self._target.address} is "
                f"cluster {self.cluster}. Set --bootstrap-server to the first one, or choose another --name"
            )
        topic = self._target.found(self.topic)
        deadline = self._log.clock.monotonic() + _GONE_S
        while topic is None and note is not None and self._log.clock.monotonic() < deadline:
            self._log.clock.sleep(0.1)  # A broker that has just started may not know it yet.
            topic = self._target.found(self.topic)
        if note is not None:
            if topic is None:
                raise self._positions_lost("deleted")
            if topic.topic_id != note.positions_id:
                raise self._positions_lost("deleted and created again")
        if topic is None:
            self._target.create(self.topic, 1, _CONFIG, self._options.replication)
            topic = self._target.found(self.topic)
            if topic is None:
                raise self._positions_lost("deleted")
        return topic

    def _positions_lost(self, change: str) -> OffsetOutOfRangeError:
        return OffsetOutOfRangeError(
            f"topic {self.topic!r} of Kafka at {self._target.address}, which says how far mirror out "
            f"{self._options.name!r} is, was {change}: what was sent is not known any more, and to begin again would "
            "send it twice. Nothing was written. Mirror under another --name to other topics (--rename), or to the "
            "same ones once they were deleted"
        )

    def _read(self, *, waits: bool) -> tuple[Head | None, dict[str, Sent]]:
        policy = self._target.configs([self.topic])[self.topic].get("cleanup.policy")
        if policy != "compact":
            raise ConfigError(
                f"topic {self.topic!r} of Kafka has cleanup.policy={policy}: positions that are deleted are lost. Set "
                "it to compact"
            )
        where = f"topic {self.topic!r} of Kafka at {self._target.address}"
        head, topics = parsed(self._target.committed(self.topic, waits=waits), where)
        if head is None:
            if topics or self._target.bounds(self.topic, 0)[0]:
                raise self._positions_lost("emptied")
            return None, {}
        if head.log_id != self._log.log_id:
            raise InvalidRequestError(
                f"mirror out {self._options.name!r} of this Kafka cluster sends another log (log id {head.log_id}), "
                f"and {self._log.url} is log {self._log.log_id}: choose another --name"
            )
        self._check_log(self._log.follow(), head, topics)
        return head, topics

    def _check_log(self, state: State, head: Head, topics: dict[str, Sent]) -> None:
        """Raise if the log was set back: records sent before would be taken for those that it has now."""
        behind = head.seq > state.seq
        for sent in topics.values():
            for number, offset in enumerate(sent.next):
                partition = state.partitions.get((sent.topic_id, number))
                behind = behind or (partition is not None and offset > partition.end)
        if behind:
            raise OffsetOutOfRangeError(
                f"{self._log.url} has less than was sent to Kafka: it ends at entry {state.seq}, and was restored from "
                f"a backup, or set back. Nothing was written. Kafka's topics have records that the log has not: "
                "mirror under another --name to other topics"
            )

    def _check_note(self, state: State) -> None:
        for note in notes(state):
            if note.mirror == self._options.name and note.reverses != self._options.reverses:
                option = "without --reverse" if note.reverses is None else f"with --reverse {note.reverses}"
                raise ConfigError(
                    f"mirror out {note.mirror!r} was begun {option}: start it so, or choose another --name"
                )
            reversed_ = note.reverses is not None and note.reverses == self._options.reverses
            if reversed_ and note.mirror != self._options.name:
                raise InvalidRequestError(
                    f"mirror out {note.mirror!r} has taken over from mirror in {note.reverses!r}: start that one"
                )

    # -- The note ----------------------------------------------------------------------------------------

    def note(self, pairs: tuple[Pair, ...]) -> State:
        """Note in the log which topics are sent where; with ``reverses``, end the mirror into the log."""

        def propose(state: State) -> tuple[Action, ...]:
            self._check_note(state)
            before = note_of(state, self._options.name)
            earlier_pairs = () if before is None else before.pairs
            check_no_loop(
                state,
                out=[(pair.topic_id, pair.kafka_id) for pair in pairs if pair not in earlier_pairs],
                ended=self._options.reverses,
            )
            topic_ids = {topic.topic_id for topic in state.topics.values()}
            merged = sorted({*(pair for pair in earlier_pairs if pair.topic_id in topic_ids), *pairs})
            note = Note(
                self._options.name, self.cluster, self.positions_id, self._options.reverses, tuple(merged)
            )
            fenced: tuple[Action, ...] = ()
            if self._options.reverses is not None and before is None:
                runs = [(partition, self._run_id) for partition in self._partitions(state)]
                fenced = take_over(state, runs)
            new = sum(
                state.producer_of(partition.transactional_id) is None for partition in self._partitions(state)
            )
            return (*fenced, *write_note(state, note, self._run_id, new=new if fenced else 0))

        return self._log.commit(propose, writer=_WRITER, alone=True).state

    def _partitions(self, state: State) -> list[MirroredPartition]:
        return [] if self._options.reverses is None else list(partitions_of(state, self._options.reverses))
