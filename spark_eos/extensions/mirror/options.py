"""What a mirror reads, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spark_eos.errors import ConfigError
from spark_eos.extensions.mirror.positions import check_name


@dataclass(frozen=True)
class MirrorOptions:
    """What a mirror reads, and how.

    ``partitions`` are those that this process mirrors, by topic; None: Kafka's group shares them out. ``groups`` is a
    pattern of groups whose offsets are translated. ``may_append``: the log's topics may have other records.
    ``accept_loss``: go on though records have gone from Kafka before they were mirrored.
    """

    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, Sequence[int]] | None = None
    groups: str | None = None
    copies_settings: bool = True
    may_append: bool = False
    accept_loss: bool = False
    interval_s: float = 1.0
    batch_bytes: int = 32 << 20
    refresh_s: float = 30.0

    def check(self) -> None:
        """Raise `ConfigError` for options that do not fit together."""
        check_name(self.name)
        if not self.topics and self.pattern is None and not self.partitions:
            raise ConfigError("the mirror has nothing to read: set --topic, --topic-pattern or --partitions")
        for option, pattern in (("--topic-pattern", self.pattern), ("--groups", self.groups)):
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise ConfigError(f"{option} {pattern!r} is no regular expression: {error}") from error
        if self.partitions is not None and (self.topics or self.pattern):
            raise ConfigError("--partitions names the topics as well: leave out --topic and --topic-pattern")
