"""Settings of the whole log: what Kafka has as settings of its brokers."""

from __future__ import annotations

from spark_eos.protocol.state import State

__all__ = ["LOG_CONFIGS", "is_setting", "setting"]

LOG_CONFIGS: dict[str, int] = {
    "entry.timestamp.after.max.ms": 3_600_000,
    "offsets.retention.minutes": 10_080,
    "producer.id.expiration.ms": 86_400_000,
    "transactional.id.expiration.ms": 604_800_000,
}
"""Settings and their defaults (Kafka's): whole numbers from 1 up.

``entry.timestamp.after.max.ms`` is for the times of entries what message.timestamp.after.max.ms is for records.
"""


def setting(state: State, name: str) -> int:
    """What is set for the log, or the default."""
    text = state.config.get(name)
    return LOG_CONFIGS[name] if text is None else int(text)


def is_setting(text: str) -> bool:
    """Whether ``text`` is a whole number from 1 up, as all settings are."""
    # Not int() alone: it takes signs, spaces, underscores and the digits of other scripts.
    return text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= 1
