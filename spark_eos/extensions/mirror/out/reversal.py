"""A mirror to Kafka that takes over from one into the log: it sends what did not come from there."""

from __future__ import annotations

from collections.abc import Callable

from spark_eos.errors import InvalidRequestError, UnknownTopicOrPartitionError
from spark_eos.extensions.mirror.offset_map import OffsetMap, current
from spark_eos.extensions.mirror.out.covered import Covered
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
from spark_eos.extensions.mirror.out.options import OutOptions
from spark_eos.extensions.mirror.positions import Position
from spark_eos.log.log import Log
from spark_eos.protocol.state import State


class Reversal:
    """What is known of the mirror into the log that is taken over from. Without one, all of this is empty."""

    def __init__(
        self, log: Log, target: KafkaTarget, options: OutOptions, tell: Callable[[str], None]
    ) -> None:
        self._log = log
        self._target = target
        self._options = options
        self._tell = tell

    def _positions(self, state: State) -> list[Position]:
        return [] if self._options.reverses is None else current(state, self._options.reverses)

    def targets(self, state: State) -> dict[str, str]:
        """Kafka's topics, by the log's."""
        topics = {position.target: position.topic for position in self._positions(state)}
        if self._options.reverses is not None and not topics:
            raise UnknownTopicOrPartitionError(
                f"{self._log.url} has no mirror {self._options.reverses!r} into it, or none of its topics any more: "
                "--reverse is the --name of eoslog mirror in"
            )
        return topics

    def check_kafka(self, state: State, topic: str) -> None:
        """Raise if Kafka's topic is another one than the log's records came from."""
        for at in self._positions(state):
            if at.target != topic:
                continue
            cluster = self._target.cluster_id()
            if at.cluster != cluster:
                raise InvalidRequestError(
                    f"topic {topic!r} was mirrored from the Kafka cluster {at.cluster}, and {self._target.address} is "
                    f"cluster {cluster}: set --bootstrap-server to the first one"
                )
            kafka_topic = self._target.found(at.topic)
            if kafka_topic is None or kafka_topic.topic_id != at.source_id:
                problem = "was deleted" if kafka_topic is None else "was deleted and created again"
                raise UnknownTopicOrPartitionError(
                    f"topic {at.topic!r} of Kafka {problem} since it was mirrored into the log (topic id "
                    f"{at.source_id}): what came from there is not there any more. Send all of the log's topic to "
                    "another topic of Kafka, without --reverse"
                )
            return

    def check_drained(self, state: State, *, refuses: bool) -> None:
        """Kafka has no records that are not in the log: readers of the log would never see them.

        Raises if ``refuses``, while the mirror into the log can still bring them; else it is said.
        """
        for at in self._positions(state):
            _, end = self._target.bounds(at.topic, at.partition)
            if end <= at.offset:
                continue
            where = f"{at.topic}-{at.partition} of Kafka has records from offset {at.offset} to {end - 1}"
            if refuses and not self._options.accept_loss:
                raise InvalidRequestError(
                    f"{where}, which mirror in {self._options.reverses!r} has not brought into the log: once it has "
                    "ended, readers of the log never see them. Nothing was changed. Stop the producers of Kafka, let "
                    "it finish (eoslog mirror in --once), and start this again; with --accept-loss they stay in Kafka "
                    "alone"
                )
            self._tell(f"{where} that are not in the log, and stay in Kafka alone")

    def covered(self, state: State) -> Covered:
        """The records of the log that came from Kafka."""
        mirror = self._options.reverses
        if mirror is None:
            return Covered()
        return Covered(
            {
                (at.target_id, at.partition): [
                    (run.log, run.end[1]) for run in OffsetMap(self._log, state, mirror, at).runs()
                ]
                for at in self._positions(state)
            }
        )
