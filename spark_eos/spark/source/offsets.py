"""Offsets as Spark sees them: the streaming source's JSON, what a user asks for, and where reading starts.

Both JSON forms are those of Spark's Kafka connector, ``{"<topic>": {"<partition>": offset}}``. The streaming
source adds one key, ``@eoslog`` (no topic can be called so): it names the log and the incarnations of the
topics, so that a checkpoint that is pointed at another log is refused instead of skipping rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from spark_eos.errors import CheckpointMismatchError, ConfigError, UnsupportedVersionError
from spark_eos.protocol.types import TopicPartition

if TYPE_CHECKING:
    from spark_eos.protocol.state import State

META_KEY = "@eoslog"
"""The key beside the topics; ``@`` is not legal in a topic's name."""

FORMAT_VERSION = 1
"""Version of the streaming offset that this code writes, and the newest it reads."""

EARLIEST = -2
"""In a user's offsets: where the partition starts now."""

LATEST = -1
"""In a user's offsets: where the partition ends now."""

Kind: TypeAlias = Literal["earliest", "latest", "committed", "specific", "timestamp", "table"]
Strategy: TypeAlias = Literal["error", "latest"]

_EXAMPLE = '{"flights": {"0": 23, "1": -2}}'
_TIMES_EXAMPLE = '{"flights": {"0": 1700000000000, "1": 1700000000000}}'
_MAX_INT = 2**63 - 1
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_LINEAGE = re.compile(r"[0-9a-f]{32}", re.ASCII)
_META_KEYS = {"version", "log", "topics", "initial", "group", "begins", "read"}


@dataclass(frozen=True)
class OffsetSpec:
    """Where reading starts, or ends.

    ``kind`` decides: ``earliest``, ``latest`` and ``committed`` (the offsets of the group) need nothing more;
    ``specific`` has ``offsets`` (`EARLIEST` and `LATEST` among them); ``timestamp`` has ``timestamp_ms`` for
    every partition, or else ``timestamps_ms`` by partition (milliseconds since 1970, UTC): the first record
    at or after it. ``strategy`` says what a start is where there is no such record: ``error`` or ``latest``;
    an end is then the end of the partition. ``table`` has the table, and its version (None: the newest).
    """

    kind: Kind
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    timestamp_ms: int | None = None
    timestamps_ms: dict[TopicPartition, int] = field(default_factory=dict)
    strategy: Strategy = "error"
    table: str | None = None
    table_version: int | None = None

    @property
    def text(self) -> str:
        """The same text for the same start, however the user wrote it."""
        if self.kind == "specific":
            return json.dumps(_nested(self.offsets))
        if self.kind == "timestamp":
            times = self.timestamp_ms if self.timestamps_ms == {} else _nested(self.timestamps_ms)
            return json.dumps({"strategy": self.strategy, "timestamp": times})
        if self.kind == "table":
            return json.dumps({"table": self.table, "version": self.table_version})
        return self.kind


class HistoryPoint(NamedTuple):
    """An entry of a log, and its lineage: a digest of all entries up to it, in hexadecimal (`State.lineage`)."""

    entry: int
    lineage: str

    @classmethod
    def of(cls, state: State) -> HistoryPoint:
        """The newest entry of the state."""
        return cls(state.seq, state.lineage.hex())


@dataclass(frozen=True)
class SourceOffset:
    """A position of the streaming source in a log.

    ``topic_ids`` are the incarnations of the topics by name, ``positions`` the next offset to read of each
    partition. ``initial`` is where each partition was first read; ``group`` is the consumer group, None without
    one. ``begins`` is the starting option with which the query began (`OffsetSpec.text`). ``read`` is the entry up to
    which the query had read all that there was, the last time that it had; None if it never had.
    """

    log_id: str
    topic_ids: dict[str, str]
    positions: dict[TopicPartition, int]
    initial: dict[TopicPartition, int]
    begins: str
    group: str | None = None
    read: HistoryPoint | None = None

    def to_json_dict(self) -> dict[str, Any]:
        """What Spark is given. Keys are sorted as text, because Spark compares offsets as JSON text."""
        meta: dict[str, Any] = {
            "begins": self.begins,
            "initial": _nested(self.initial),
            "log": self.log_id,
            "topics": dict(sorted(self.topic_ids.items())),
            "version": FORMAT_VERSION,
        }
        if self.group is not None:
            meta["group"] = self.group
        if self.read is not None:
            meta["read"] = {"entry": self.read.entry, "lineage": self.read.lineage}
        return dict(sorted({META_KEY: dict(sorted(meta.items())), **_nested(self.positions)}.items()))

    @staticmethod
    def from_json_dict(obj: object) -> SourceOffset:
        """The offset that `to_json_dict` gave.

        Raises `UnsupportedVersionError` for a newer format, `CheckpointMismatchError` for anything else that
        is not an offset of this source.
        """
        fields = _object(obj, "the offset")
        meta = _object(fields.get(META_KEY), f"its {META_KEY!r}")
        _check_version(meta)
        unknown_keys = sorted(set(meta) - _META_KEYS)
        if unknown_keys:
            raise _malformed(f"{META_KEY!r} has the unknown keys {unknown_keys}")
        topic_ids = _object(meta.get("topics"), f"'topics' of {META_KEY!r}")
        for topic, topic_id in topic_ids.items():
            _string(topic_id, f"the id of topic {topic!r}")
        group = meta.get("group")
        offset = SourceOffset(
            log_id=_string(meta.get("log"), f"'log' of {META_KEY!r}"),
            topic_ids=dict(topic_ids),
            positions=_flat({key: value for key, value in fields.items() if key != META_KEY}),
            initial=_flat(_object(meta.get("initial"), f"'initial' of {META_KEY!r}")),
            begins=_string(meta.get("begins"), f"'begins' of {META_KEY!r}"),
            group=None if group is None else _string(group, f"'group' of {META_KEY!r}"),
            read=_history_point(meta["read"]) if "read" in meta else None,
        )
        nameless = sorted({at.topic for at in (*offset.positions, *offset.initial)} - set(topic_ids))
        if nameless:
            raise _malformed(f"'topics' of {META_KEY!r} has no id for {nameless}")
        return offset

    @staticmethod
    def is_ours(text: str | None) -> bool:
        """Whether ``text``, a line of a checkpoint, was written by this source (of whatever version)."""
        if text is None or META_KEY not in text:
            return False
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return False
        return isinstance(value, dict) and isinstance(value.get(META_KEY), dict)


def beginning(start: OffsetSpec) -> dict[str, Any]:
    """What the source answers to Spark's question where a query begins: that it is not decided yet.

    Spark asks when the first micro-batch is prepared, again when that is planned, and again after every restart
    until that is done, and writes down none of the answers. A position would move from one answer to the next. So
    this names the starting option alone, and the end of the first micro-batch, which Spark does write down, says
    where the query began.
    """
    return {META_KEY: {"begins": start.text, "version": FORMAT_VERSION}}


def is_beginning(obj: object) -> bool:
    """Whether ``obj`` is what `beginning` gave."""
    meta = obj.get(META_KEY) if isinstance(obj, dict) and len(obj) == 1 else None
    return isinstance(meta, dict) and set(meta) == {"begins", "version"}


def parse_offsets_json(
    option: str, text: str, *, earliest_allowed: bool = True, latest_allowed: bool = True
) -> dict[TopicPartition, int]:
    """The offsets of a user's JSON, in the order of topics and partitions.

    -2 (`EARLIEST`) is allowed for starts only, -1 (`LATEST`) for ends and for the starts of streams only. The
    offset of a streaming query may be given as it is: its ``@eoslog`` is checked and left out. Raises
    `ConfigError`, naming ``option`` and an example, or `UnsupportedVersionError`.
    """
    by_topic = _user_json(option, text, _EXAMPLE)
    if META_KEY in by_topic:
        try:
            SourceOffset.from_json_dict(by_topic)
        except CheckpointMismatchError as error:
            raise ConfigError(f"option {option}: {error}") from error
        del by_topic[META_KEY]
    offsets = _by_partition(option, by_topic, _EXAMPLE, lowest=EARLIEST)
    for at, offset in offsets.items():
        if (offset == EARLIEST and not earliest_allowed) or (offset == LATEST and not latest_allowed):
            meaning = "-2 (earliest)" if offset == EARLIEST else "-1 (latest)"
            raise ConfigError(
                f"option {option}: partition {at.partition} of topic {at.topic!r} has {meaning}, which is "
                "not allowed here; give the offset itself"
                + (" or -2 (earliest)" if earliest_allowed else " or -1 (latest)")
            )
    return offsets


def parse_timestamps_json(option: str, text: str) -> dict[TopicPartition, int]:
    """Milliseconds since 1970 by partition, of a user's JSON. Raises `ConfigError`, naming ``option``."""
    return _by_partition(option, _user_json(option, text, _TIMES_EXAMPLE), _TIMES_EXAMPLE, lowest=0)


def partition_number(text: str) -> int | None:
    """The partition that ``text`` names, digits without a leading zero; None if it names none."""
    if _PARTITION.fullmatch(text) and int(text) < 2**31:
        return int(text)
    return None


def loads(text: str) -> Any:
    """The value of a JSON text. Raises `ValueError`, also for a name that stands twice and for NaN."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _user_json(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        value = loads(text)
    except ValueError as error:
        raise ConfigError(
            f"option {option}={text!r} is not JSON: {error}; write it like {example}"
        ) from error
    if not isinstance(value, dict) or not value:
        raise ConfigError(f"option {option}={text!r} names no topic; write it like {example}")
    return value


def _by_partition(
    option: str, by_topic: Mapping[str, Any], example: str, *, lowest: int
) -> dict[TopicPartition, int]:
    values: dict[TopicPartition, int] = {}
    for topic in sorted(by_topic):
        partitions = by_topic[topic]
        if not isinstance(partitions, dict) or not partitions:
            raise ConfigError(f"option {option}: topic {topic!r} has no partitions; write it like {example}")
        for key, value in partitions.items():
            number = partition_number(key)
            if number is None:
                raise ConfigError(
                    f"option {option}: {key!r} of topic {topic!r} is not a partition; write it like {example}"
                )
            if type(value) is not int or not lowest <= value <= _MAX_INT:
                raise ConfigError(
                    f"option {option}: partition {key} of topic {topic!r} has {json.dumps(value)}; expected "
                    f"an integer from {lowest}; write it like {example}"
                )
            values[TopicPartition(topic, number)] = value
    return dict(sorted(values.items()))


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """By topic and partition, both sorted as text."""
    by_topic: dict[str, dict[str, int]] = {}
    for topic, partition, offset in sorted(
        (at.topic, str(at.partition), offset) for at, offset in offsets.items()
    ):
        by_topic.setdefault(topic, {})[partition] = int(offset)
    return by_topic


def _flat(by_topic: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """By topic and partition, the partitions sorted as numbers."""
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in by_topic.items():
        for key, offset in _object(partitions, f"topic {topic!r}").items():
            number = partition_number(key)
            if number is None:
                raise _malformed(f"{key!r} of topic {topic!r} is not a partition")
            if type(offset) is not int or not 0 <= offset <= _MAX_INT:
                raise _malformed(f"partition {key} of topic {topic!r} has {offset!r}, which is not an offset")
            offsets[TopicPartition(topic, number)] = offset
    return dict(sorted(offsets.items()))


def _check_version(meta: Mapping[str, Any]) -> None:
    version = meta.get("version")
    if type(version) is not int or version < 1:
        raise _malformed(f"its version is {version!r}")
    if version > FORMAT_VERSION:
        raise UnsupportedVersionError(
            f"the offset of the streaming source has format version {version}, this spark_eos reads up to "
            f"{FORMAT_VERSION}; use the version that wrote the checkpoint, or a newer one"
        )


def _history_point(value: object) -> HistoryPoint:
    point = _object(value, f"'read' of {META_KEY!r}")
    entry, lineage = point.get("entry"), point.get("lineage")
    if len(point) != 2 or type(entry) is not int or not 0 <= entry <= _MAX_INT:
        raise _malformed(f"'read' of {META_KEY!r} is {value!r}, which names no entry")
    if not isinstance(lineage, str) or not _LINEAGE.fullmatch(lineage):
        raise _malformed(f"'read' of {META_KEY!r} has the lineage {lineage!r}")
    return HistoryPoint(entry, lineage)


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _malformed(f"{name} is {value!r}, not a JSON object")
    return value


def _string(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise _malformed(f"{name} is {value!r}, not a text")
    return value


def _malformed(why: str) -> CheckpointMismatchError:
    return CheckpointMismatchError(
        f"this is not an offset of an eoslog source: {why}; use the checkpoint that this query wrote, or a "
        "new one"
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands in it twice")
    return members


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")
