"""Topics that cannot be mirrored do not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping

from spark_eos.errors import InvalidRequestError
from spark_eos.extensions.mirror.kafka_source import SourceTopic


class LeftOut:
    """The topics that are left out, each with what is wrong: ``tell`` is called with it once. See `prepare`."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._why: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Their names in Kafka."""
        return tuple(sorted(self._why))

    def prepare(
        self,
        topics: Mapping[str, SourceTopic],
        begun_topics: MutableMapping[str, SourceTopic],
        prepare: Callable[[Mapping[str, SourceTopic]], None],
    ) -> None:
        """Prepare the topics, those that can be: one of them has to be. ``prepare`` adds them to ``begun_topics``.

        Raises what is wrong with a topic that is being mirrored already: it was mirrored, and is not any more.
        """
        before, wrong = {*begun_topics}, {}
        try:
            prepare(topics)
        except InvalidRequestError:
            for name, topic in topics.items():
                try:
                    prepare({name: topic})
                except InvalidRequestError as error:
                    if name in before:
                        raise
                    begun_topics.pop(name, None)
                    wrong[name] = str(error)
            if len(wrong) == len(topics):
                raise
        for name, why in wrong.items():
            if self._why.get(name) != why:
                self._tell(f"topic {name} of Kafka is left out: {why}")
        self._why = wrong
