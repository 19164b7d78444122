"""What a step of maintenance leaves as it is: it goes on with the rest (KIP-346), and says it at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from spark_eos.errors import ConfigError, EosLogError
from spark_eos.protocol.state import PartitionKey, Topic

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

_WHOLE = -1
"""In place of a partition: the topic."""


class Unreadable:
    """Partitions whose rows cannot be read, and topics with a stored setting that is none; since it was said last."""

    def __init__(self) -> None:
        self._errors: dict[PartitionKey, EosLogError] = {}

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._errors

    def add(self, topic: Topic, number: int, error: EosLogError) -> None:
        """Leave this partition out until `say`."""
        _LOG.warning("%s-%d is left as it is, the others go on: %s", topic.name, number, error)
        self._errors.setdefault((topic.topic_id, number), error)

    def leave(self, topic: Topic, error: ConfigError) -> None:
        """Leave this topic out until `say`: a newer version, or another program, has stored a setting."""
        key = topic.topic_id, _WHOLE
        if key not in self._errors:
            _LOG.warning("topic %s is left as it is, the others go on: %s", topic.name, error)
            self._errors[key] = error

    def each(self, topics: Iterable[Topic], look: Callable[[Topic], Iterable[T]]) -> Iterator[T]:
        """What ``look`` finds of the topics; one with a setting that ``look`` needs and that is none is left out."""
        for topic in topics:
            try:
                yield from look(topic)
            except ConfigError as error:
                self.leave(topic, error)

    def say(self) -> None:
        """Raise the first error, if there is one. The next look is at all of them again."""
        errors, self._errors = [*self._errors.values()], {}
        if errors:
            raise errors[0]
