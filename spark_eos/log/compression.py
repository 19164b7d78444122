"""Codecs of record batches and their levels, by the names that Kafka gives them (KIP-390).

The text for a compression is a codec, ``zstd``, or a codec and a level, ``zstd:3``; None is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from spark_eos.errors import ConfigError

__all__ = ["LEVELS", "Levels", "chosen", "level_setting", "write_options"]


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


def level_setting(codec: str) -> str:
    """The name of the setting: ``compression.zstd.level``."""
    return f"compression.{codec}.level"


def chosen(codec: str | None, settings: Mapping[str, object]) -> str | None:
    """The compression for a codec (None, ``none``: none), at its level in ``settings``, by `level_setting`."""
    if codec is None or codec == "none":
        return None
    level = settings.get(level_setting(codec))
    return codec if level is None else f"{codec}:{level}"


def write_options(compression: str | None) -> pa.ipc.IpcWriteOptions:
    """How Arrow writes record batches. Raises `ConfigError` for a compression that is not known."""
    if compression is None:
        return pa.ipc.IpcWriteOptions()
    codec, _, level = compression.partition(":")
    if codec not in LEVELS:
        raise ConfigError(f"compression {compression!r} is not known; use None, 'lz4' or 'zstd'")
    levels = LEVELS[codec]
    number = int(level) if level else levels.default
    if not levels.lowest <= number <= levels.highest:
        raise ConfigError(
            f"compression {compression!r}: the levels of {codec} are {levels.lowest} to {levels.highest}"
        )
    return pa.ipc.IpcWriteOptions(compression=pa.Codec(codec, compression_level=number))
