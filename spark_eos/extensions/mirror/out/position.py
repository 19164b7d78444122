"""How far a mirror to Kafka is, as records of its topic of positions in Kafka. Pure.

The topic is compacted. Each Kafka transaction writes the record of the mirror, and one for each topic that it has
records of. So what is sent and how far that is are committed together, and it never expires.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from spark_eos.errors import CorruptRecordError, UnsupportedVersionError
from spark_eos.extensions.mirror.positions import own_topic

FORMAT = 1
MIRROR_KEY = b"mirror"
_TOPIC = "topic/"
_OWN = "__eoslog.mirror"


class Head(NamedTuple):
    """The mirror itself: of which log, and up to which entry all that ended is in Kafka."""

    log_id: str
    seq: int

    @property
    def record(self) -> tuple[bytes, bytes]:
        """Key and value."""
        return MIRROR_KEY, _json({"format": FORMAT, **self._asdict()})


class Sent(NamedTuple):
    """Up to where a topic of the log is in Kafka, by partition: ``next`` are offsets of the log.

    ``ends`` are the offsets in Kafka after the last record that was sent; -1: none was.
    """

    topic: str
    topic_id: str
    kafka: str
    kafka_id: str
    next: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def record(self) -> tuple[bytes, bytes]:
        """Key and value."""
        return f"{_TOPIC}{self.topic}".encode(), _json(self._asdict())


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()


def parsed(
    records: Iterable[tuple[bytes | None, bytes | None]], where: str
) -> tuple[Head | None, dict[str, Sent]]:
    """What the records say, the last one of each key. Raises `CorruptRecordError`, `UnsupportedVersionError`."""
    head, topics = None, {}
    for key, value in dict(records).items():
        try:
            fields = json.loads(value or b"")
            if key == MIRROR_KEY:
                if fields["format"] != FORMAT:
                    raise UnsupportedVersionError(
                        f"{where} has the format {fields['format']}, and this version of the mirror knows {FORMAT}: "
                        "use the newer version"
                    )
                head = Head(str(fields["log_id"]), int(fields["seq"]))
            else:
                sent = Sent(**fields)
                topics[sent.topic] = sent._replace(next=tuple(sent.next), ends=tuple(sent.ends))
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptRecordError(
                f"{where} has a record that is no position of a mirror (key {key!r}: {error}): another program has "
                "written to it. Mirror under another --name into other topics"
            ) from error
    return head, topics


def transactional_id(mirror: str) -> str:
    """What the mirror's producer is known by in Kafka."""
    return f"eoslog-mirror/{mirror}"


def position_topic(mirror: str) -> str:
    """The topic of Kafka with the positions."""
    return own_topic(_OWN, mirror)


def map_topic(mirror: str, kafka: str) -> str:
    """The topic of Kafka with the offset map of a topic: its partitions are numbered as those of that topic."""
    return own_topic(_OWN, mirror, kafka)
