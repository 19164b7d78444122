"""What a mirror to Kafka sends, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_eos.errors import ConfigError
from spark_eos.extensions.mirror.positions import check_name


@dataclass(frozen=True)
class OutOptions:
    """What a mirror to Kafka sends, and how.

    ``reverses`` is the mirror into the log that it takes over from. ``groups`` is a pattern of groups whose offsets are
    translated. ``may_append``: Kafka's topics may have other records. ``accept_loss``: go on though records have gone
    from the log before they were mirrored. A Kafka transaction has ``batch_records`` if the log's transactions are
    smaller, and those with more than ``limit_records`` are torn.
    """

    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    reverses: str | None = None
    groups: str | None = None
    copies_settings: bool = True
    replication: int = -1
    may_append: bool = False
    accept_loss: bool = False
    interval_s: float = 1.0
    batch_records: int = 50_000
    limit_records: int = 1_000_000
    refresh_s: float = 30.0

    def check(self) -> None:
        """Raise `ConfigError` for options that do not fit together."""
        check_name(self.name)
        if self.reverses is not None:
            check_name(self.reverses)
            if self.topics or self.pattern is not None or self.renamed:
                raise ConfigError(
                    "--reverse takes all topics of that mirror, under the names they have there: leave out --topic, "
                    "--topic-pattern and --rename"
                )
        elif not self.topics and self.pattern is None:
            raise ConfigError("the mirror has nothing to send: set --topic, --topic-pattern or --reverse")
        for option, pattern in (("--topic-pattern", self.pattern), ("--groups", self.groups)):
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise ConfigError(f"{option} {pattern!r} is no regular expression: {error}") from error

    def wants(self, topic: str) -> bool:
        """Whether a topic of the log is mirrored, by its name. Those of the log's mirrors are not."""
        if topic in self.topics:
            return True
        return (
            self.pattern is not None
            and not topic.startswith("__")
            and bool(re.fullmatch(self.pattern, topic))
        )
