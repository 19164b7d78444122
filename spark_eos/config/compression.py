"""How record batches are compressed: a codec and a level, by the names that Kafka gives them (KIP-390).

``auto`` is ours: each file tries zstd on its first rows, and stays plain where that does not pay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from spark_eos.config.option import Option, Use
from spark_eos.config.values import Choice, Integer, NotAllowedError
from spark_eos.errors import ConfigError


class Levels(NamedTuple):
    """The levels that a codec has: Kafka's range, our default."""

    lowest: int
    highest: int
    default: int


LEVELS: dict[str, Levels] = {"lz4": Levels(1, 17, 1), "zstd": Levels(-131_072, 22, 1)}
"""By codec. The range is Kafka's; above 12, lz4 does what it does at 12.

The defaults are the fast ones. zstd saves no more at 3 than at 1, at 8 a fifth for seven times the work; lz4 saves a
third at 3 for five times the work. benchmarks/journal/speed.md has the measurements. Kafka's defaults, 9 and 3, would
say something else here: its lz4 at 9 is the fast compressor.
"""

AUTO = "auto"
"""The name of what decides by the rows."""

OF_AUTO = "zstd"
"""The codec that it tries."""

CODECS = (AUTO, "none", *LEVELS)
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
    """A codec and its level. No compression at all is None. Where it `may_stay_plain`, the rows decide."""

    codec: str
    level: int
    may_stay_plain: bool = False

    @classmethod
    def of(cls, codec: str, level: int | None = None) -> Compression | None:
        """That codec (``none``: None), at its default level unless one is given. Raises `ConfigError`."""
        if codec == "none":
            return None
        is_auto = codec == AUTO
        codec = OF_AUTO if is_auto else codec
        levels = LEVELS.get(codec)
        if levels is None:
            raise ConfigError(f"compression {codec!r} is not known; use {', '.join(CODECS)}")
        level = levels.default if level is None else level
        if not levels.lowest <= level <= levels.highest:
            raise ConfigError(
                f"compression {codec!r} at level {level}: its levels are {levels.lowest} to {levels.highest}"
            )
        return cls(codec, level, is_auto)

    @classmethod
    def chosen(cls, codec: str, values: Mapping[str, Any]) -> Compression | None:
        """That codec, at the level that ``values`` has for it, by the name of its `level_option`."""
        level = values.get(level_option(codec))
        return cls.of(codec, None if level is None else int(level))


BY_DEFAULT = Compression.of(AUTO)
"""How producers and sinks compress."""


def level_option(codec: str) -> str:
    """The name of the option: ``compression.zstd.level``; that is the one of ``auto``, too."""
    return f"compression.{OF_AUTO if codec == AUTO else codec}.level"


def level_options(used_in: str, *, uses: frozenset[Use] = frozenset()) -> tuple[Option, ...]:
    """The rows about levels, one for each codec, for the tables that have ``compression.type``."""
    return tuple(
        Option(
            level_option(codec),
            Integer(levels.lowest, levels.highest),
            levels.default,
            f"The level of `{codec}`, if that is the codec{', or `auto` chooses it' * (codec == OF_AUTO)}. Kafka's "
            "default is another one.",
            used_in,
            uses=uses,
        )
        for codec, levels in LEVELS.items()
    )
