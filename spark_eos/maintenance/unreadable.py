"""Partitions whose rows cannot be read: those who rewrite go on with the others (KIP-346), and say it at the end."""

from __future__ import annotations

import logging

from spark_eos.errors import EosLogError
from spark_eos.protocol.state import PartitionKey

__all__ = ["Unreadable"]

_LOG = logging.getLogger(__name__)


class Unreadable:
    """What was met since it was said last, by partition."""

    def __init__(self) -> None:
        self._errors: dict[PartitionKey, EosLogError] = {}

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._errors

    def add(self, key: PartitionKey, error: EosLogError) -> None:
        """Leave this partition out until `say`."""
        _LOG.warning("partition %d of topic %s is left as it is, the others go on: %s", key[1], key[0], error)
        self._errors.setdefault(key, error)

    def say(self) -> None:
        """Raise the first error, if there is one. The next look is at all partitions again."""
        errors, self._errors = [*self._errors.values()], {}
        if errors:
            raise errors[0]
