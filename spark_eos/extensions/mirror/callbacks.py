"""What librdkafka calls. It knows nothing of the clients, which would be in a cycle with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Heard:
    """Tells an error once, until Kafka answers."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.error_names: set[str] = set()
        """Errors that were told, by name, since Kafka last answered."""

    def __call__(self, error: Any) -> None:
        # It comes again with every attempt to connect, many times a second.
        if error.name() not in self.error_names:
            self.error_names.add(error.name())
            self._tell(f"Kafka: {error.str()}")


class Quiet:
    """librdkafka's own log lines are no output of a command."""

    def log(self, *_: object, **__: object) -> None:
        """Drop the line."""
