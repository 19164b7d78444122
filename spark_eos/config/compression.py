"""How record batches are compressed: a codec and a level, by the names that Kafka gives them (KIP-390)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from spark_eos.config.option import Option, Use
from spark_eos.config.values import Choice, Integer, NotAllowedError
from spark_eos.errors import ConfigError

__all__ = ["CODECS", "LEVELS", "Codec", "Compression", "Levels", "level_option", "level_options"]


class Levels(NamedTuple):
    """The levels that a codec has: Kafka's range, our default."""

    lowest: int
    highest: int
    default: int


LEVELS: dict[str, Levels] = {"lz4": Levels(1, 17, 3), "zstd": Levels(-131_072, 22, 8)}
"""By codec. The range is Kafka's; above 12, lz4 does what it does at 12.

Kafka's defaults, 9 and 3, would say something else here. Its lz4 at 9 is the fast compressor: ours at 9 takes
five times as long as at 3 and saves 8 % more. zstd at 3 saves no more than at 1 in batches of megabytes; 8 is the
lowest level that is worth its time. benchmarks/journal/speed.md has the measurements.
"""

CODECS = ("none", *LEVELS)
"""What ``compression.type`` may name."""

_INSTEAD = {"gzip": "zstd", "snappy": "lz4"}
"""Kafka's other codecs, and what to use for them."""

_UNCOMPRESSED = "uncompressed"
"""What Kafka calls ``none`` in a topic's settings."""


class Codec(Choice):
    """A codec by Kafka's name. Of a topic, ``producer`` is one as well, and ``uncompressed`` is ``none``."""

    def __init__(self, *, of_topic: bool = False, any_case: bool = False) -> None:
        super().__init__(*(("producer",) if of_topic else ()), *CODECS, any_case=any_case)
        self._of_topic = of_topic

    def parse(self, value: object) -> str:
        text = str(value).lower() if self.any_case else str(value)
        if text in _INSTEAD:
            raise NotAllowedError(f"there is no {text} here: use {_INSTEAD[text]}")
        return super().parse("none" if self._of_topic and text == _UNCOMPRESSED else text)

    def stored(self, value: object) -> str:
        return self.parse(value)


class Compression(NamedTuple):
    """A codec and its level. No compression at all is None."""

    codec: str
    level: int

    @classmethod
    def of(cls, codec: str, level: int | None = None) -> Compression | None:
        """That codec (``none``: None), at its default level unless one is given. Raises `ConfigError`."""
        if codec == "none":
            return None
        levels = LEVELS.get(codec)
        if levels is None:
            raise ConfigError(f"compression {codec!r} is not known; use {', '.join(CODECS)}")
        level = levels.default if level is None else level
        if not levels.lowest <= level <= levels.highest:
            raise ConfigError(
                f"compression {codec!r} at level {level}: its levels are {levels.lowest} to {levels.highest}"
            )
        return cls(codec, level)

    @classmethod
    def chosen(cls, codec: str, values: Mapping[str, Any]) -> Compression | None:
        """That codec, at the level that ``values`` has for it, by the name of its `level_option`."""
        level = values.get(level_option(codec))
        return cls.of(codec, None if level is None else int(level))


def level_option(codec: str) -> str:
    """The name of the option: ``compression.zstd.level``."""
    return f"compression.{codec}.level"


def level_options(used_in: str, *, uses: frozenset[Use] = frozenset()) -> tuple[Option, ...]:
    """The rows about levels, one for each codec, for the tables that have ``compression.type``."""
    return tuple(
        Option(
            level_option(codec),
            Integer(levels.lowest, levels.highest),
            levels.default,
            f"The level of `{codec}`, if that is the codec. Kafka's default is another one.",
            used_in,
            uses=uses,
        )
        for codec, levels in LEVELS.items()
    )
