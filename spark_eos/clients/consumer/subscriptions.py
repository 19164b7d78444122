"""What a consumer subscribes to, and the listener that is called when its partitions change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from spark_eos.clients.validation import check_callback
from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.actions.topics import check_name
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition

Callback = Callable[[list[TopicPartition]], object]


class Listener(NamedTuple):
    """Kafka's ConsumerRebalanceListener. Partitions that were lost count as revoked where ``lost`` is None."""

    assigned: Callback | None = None
    revoked: Callback | None = None
    lost: Callback | None = None

    @staticmethod
    def of(listener: object) -> Listener:
        """Any of the methods ``on_partitions_assigned``, ``on_partitions_revoked``, ``on_partitions_lost``."""
        if listener is None:
            return Listener()
        calls = Listener(*(getattr(listener, f"on_partitions_{name}", None) for name in Listener._fields))
        if not any(calls):
            raise InvalidRequestError(
                f"{listener!r} is no listener: it has none of on_partitions_assigned, on_partitions_revoked and "
                "on_partitions_lost"
            )
        for name, call in zip(Listener._fields, calls, strict=True):
            check_callback(call, f"on_partitions_{name} of the listener")
        return calls


class Subscription:
    """Topics by name, and patterns that stand for all topics whose whole name they match."""

    def __init__(
        self,
        topics: Iterable[str] | re.Pattern[str],
        pattern: str | re.Pattern[str] | None = None,
        listener: Listener | None = None,
    ) -> None:
        if not isinstance(topics, Iterable) and not isinstance(topics, re.Pattern):
            raise InvalidRequestError(
                f"{topics!r} are no topics: give a list of names, or a compiled pattern"
            )
        selectors: list[str | re.Pattern[str]] = (
            [topics] if isinstance(topics, (str, re.Pattern)) else list(topics)
        )
        self.names: list[str] = []
        self.patterns: list[re.Pattern[str]] = [] if pattern is None else [_compiled(pattern)]
        for selector in selectors:
            if isinstance(selector, str) and not selector.startswith("^"):
                self.names.append(_possible(selector))
            else:
                self.patterns.append(_compiled(selector))
        self.listener = listener or Listener()
        self._cache: tuple[object, tuple[str, ...]] | None = None

    def __bool__(self) -> bool:
        return bool(self.names or self.patterns)

    def topics(self, state: State) -> tuple[str, ...]:
        """The names that it stands for now, sorted; named topics need not be there yet."""
        if self._cache is None or self._cache[0] is not state.topics:
            matched = (
                topic
                for topic in state.topics
                if any(self._matches(pattern, topic) for pattern in self.patterns)
            )
            self._cache = (state.topics, tuple(sorted({*self.names, *matched})))
        return self._cache[1]

    def together(self, topic: str, other: str) -> bool:
        """Whether one of the patterns stands for both."""
        return any(
            self._matches(pattern, topic) and self._matches(pattern, other) for pattern in self.patterns
        )

    def _matches(self, pattern: re.Pattern[str], topic: str) -> bool:
        return pattern.fullmatch(topic) is not None


def _possible(name: str) -> str:
    """The name. Raises `InvalidRequestError` for one that no topic will ever have: a poll would wait for ever."""
    try:
        check_name(name)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{error}. Text that is a pattern begins with ^") from None
    return name


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise InvalidRequestError(f"{pattern!r} is no topic and no regular expression: {error}") from None
