"""Versions of a publication: begun, with what they pin, and ended once all tables have them."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from immutables import Map

from spark_eos.errors import InvalidRequestError, SegmentsReplacedError
from spark_eos.protocol.actions.declaration import Bounds, Fate, Field, declare
from spark_eos.protocol.actions.publishing.publications import (
    MAX_TOPICS,
    require_publisher,
    with_publication,
)
from spark_eos.protocol.actions.topics import require
from spark_eos.protocol.encoding.avro import LONG, STRING, array_of
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.encoding.values import NUMBERED_TOPICS, PINNED_RANGES
from spark_eos.protocol.index import IndexPage
from spark_eos.protocol.publication import Pin, Publication, PublicationVersion
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.sealing import sealed_to
from spark_eos.protocol.state import Partition, PartitionKey, State
from spark_eos.protocol.types import PinnedRange

_TOPICS = Bounds(items=MAX_TOPICS)
_INT64 = Bounds(least=-1, most=2**63 - 1, items=MAX_TOPICS)
"""Iceberg numbers its snapshots by random numbers of 63 bits."""


class BeginPublish(NamedTuple):
    """The intent to make version ``sequence``, which has the topics as they were after ``entry``.

    ``ranges`` are those of the partitions; one that is not named has the same offsets, and the same pages, as in the
    version before. ``timestamp_ms`` is the log's time at that entry. ``schemas`` says how many versions the schema of a
    topic had then; for a topic that is not named, as many as there are now.
    """

    name: str
    epoch: int
    sequence: int
    entry: int
    ranges: tuple[PinnedRange, ...]
    timestamp_ms: int = 0
    schemas: tuple[tuple[str, int], ...] = ()


def pages_of(
    key: PartitionKey, partition: Partition, start: int, end: int
) -> tuple[Partition, tuple[IndexPage, ...]]:
    """The index pages that hold offsets from ``start`` to ``end - 1``, and the partition with its rows sealed so far.

    A publisher calls it for the checksum of its range, and the rule once more. It may return pages that lack some of
    the offsets: they are not there any more, or not stable.
    """
    if start >= end:
        return partition, ()
    pages = partition.index.pages
    if end > (pages[-1].next_offset if pages else -1):
        partition = sealed_to(key, partition, end)
        pages = partition.index.pages
    first = max(bisect_right(pages, start, key=lambda page: page.base_offset) - 1, 0)
    return partition, tuple(
        [page for page in pages[first:] if page.base_offset < end and page.next_offset > start]
    )


def begin(state: State, action: BeginPublish) -> tuple[State, None]:
    """The version is pinned; that before it stays as it is.

    Raises `SegmentsReplacedError` if what is to be pinned is not there any more: retention, or another process that
    rewrites, was faster. Then a new plan is needed, for a newer entry.
    """
    publication = require_publisher(state, action.name, action.epoch)
    where = f"version {action.sequence} of publication {action.name!r}"
    if publication.begun is not None:
        raise InvalidRequestError(f"{where}: version {publication.begun.sequence} has to be finished before")
    if action.sequence != publication.sequence + 1:
        raise InvalidRequestError(f"{where}: the next one is {publication.sequence + 1}")
    last = publication.published
    if not (0 if last is None else last.entry) <= action.entry <= state.seq:
        raise InvalidRequestError(
            f"{where} is for entry {action.entry}: it must be from {0 if last is None else last.entry}, that of the "
            f"version before, to {state.seq}, the newest one"
        )
    pins, partitions = Map() if last is None else last.pins, state.partitions
    changed: dict[PartitionKey, Pin] = {}
    for range_ in action.ranges:
        key = (range_.topic_id, range_.partition)
        if key in changed or key not in partitions or all(key[0] != id_ for _, id_ in publication.topics):
            raise InvalidRequestError(
                f"{where}: partition {key[1]} of topic id {key[0]} is named twice, or not there, or not published"
            )
        partition, changed[key] = _pin(key, partitions[key], range_, pins.get(key), where)
        if partition is not partitions[key]:
            partitions = partitions.set(key, partition)
    pins = pins.update(changed)
    _check_all(state, publication, pins, changed, where)
    version = PublicationVersion(
        *(action.sequence, action.entry, action.epoch, state.seq + 1, action.timestamp_ms),
        schemas=_schemas(state, publication, action, where),
        pins=pins,
    )
    return with_publication(replace(state, partitions=partitions), replace(publication, begun=version)), None


def _pin(
    key: PartitionKey, partition: Partition, range_: PinnedRange, before: Pin | None, where: str
) -> tuple[Partition, Pin]:
    where = f"{where}: offsets {range_.start} to {range_.end} of partition {key[1]} of topic id {key[0]}"
    start, end = range_.start, range_.end
    if not 0 <= start <= end <= partition.last_stable_offset:
        raise InvalidRequestError(
            f"{where} are no range up to the last stable offset {partition.last_stable_offset}"
        )
    if before is not None and (start < before.start or end < before.end):
        raise InvalidRequestError(
            f"{where} lie before those of the last version, {before.start} to {before.end}"
        )
    if start > partition.start:
        raise InvalidRequestError(f"{where} lack records: the partition starts at {partition.start}")
    if start < partition.start:
        raise SegmentsReplacedError(
            f"{where}: records before {partition.start} were deleted meanwhile; plan again"
        )
    partition, pages = pages_of(key, partition, start, end)
    whole = (
        not pages
        if start == end
        else pages and pages[0].base_offset <= start and end <= pages[-1].next_offset
    )
    if not whole or checksum(pages) != range_.pages:
        raise SegmentsReplacedError(
            f"{where}: other segments are there by now, another process was faster; plan again"
        )
    return partition, Pin(start, end, pages)


def _check_all(
    state: State,
    publication: Publication,
    pins: Map[PartitionKey, Pin],
    changed: dict[PartitionKey, Pin],
    where: str,
) -> None:
    """Each partition is in the version, and no range that is kept from the one before has lost records since."""
    for name, topic_id in publication.topics:
        for number in range(require(state, name, topic_id).partitions):
            key = (topic_id, number)
            if key in changed:
                continue
            pin = pins.get(key)
            if pin is None or not pin.is_whole or pin.start != state.partitions[key].start:
                raise SegmentsReplacedError(
                    f"{where}: partition {name}-{number} is not named, and is not as in the version before; plan again"
                )


def _schemas(state: State, publication: Publication, action: BeginPublish, where: str) -> Map[str, int]:
    counts = {name: len(state.topics[name].schemas) for name, _ in publication.topics}
    schemas = dict(action.schemas)
    last = publication.published
    for name, count in action.schemas:
        least = 0 if last is None else last.schemas.get(name, 0)
        if name not in counts or not least <= count <= counts[name]:
            raise InvalidRequestError(f"{where}: topic {name!r} cannot have {count} versions of its schema")
    if len(schemas) < len(action.schemas):
        raise InvalidRequestError(f"{where}: the schema of a topic is named twice")
    return Map({**counts, **schemas})


def _fate_of_begin(state: State, action: BeginPublish) -> Fate:
    publication = state.publications.get(action.name)
    if publication is None:
        return Fate.UNKNOWN  # Dropped since, with what it had begun.
    for version in publication.versions:
        if version.sequence == action.sequence:  # No two intents are accepted for one sequence.
            return Fate.APPLIED if version.epoch == action.epoch else Fate.NOT_APPLIED
    return Fate.NOT_APPLIED if publication.sequence < action.sequence else Fate.UNKNOWN


declare(
    BeginPublish,
    number=25,
    fields=(
        Field("name", STRING),
        Field("epoch", LONG),
        Field("sequence", LONG),
        Field("entry", LONG),
        Field("ranges", PINNED_RANGES),
        Field("timestamp_ms", LONG),
        Field("schemas", NUMBERED_TOPICS, bounds=_TOPICS),
    ),
    rule=begin,
    fate=_fate_of_begin,
)


class EndPublish(NamedTuple):
    """All tables have version ``sequence``. ``versions`` are by topic what it is called in the table's own format.

    ``released`` are the topics whose tables have copies of the records: the log's files need not stay for them.
    """

    name: str
    epoch: int
    sequence: int
    versions: tuple[tuple[str, int], ...]
    released: tuple[str, ...] = ()


def end(state: State, action: EndPublish) -> tuple[State, None]:
    """The pins of the version before are gone. The same request again changes nothing."""
    publication = require_publisher(state, action.name, action.epoch)
    where = f"version {action.sequence} of publication {action.name!r}"
    ids = dict(publication.topics)
    natives = Map(action.versions)
    if {*natives} != {*ids} or len(action.versions) != len(ids) or not {*action.released} <= {*ids}:
        raise InvalidRequestError(f"{where}: the topics of the publication must be named, each of them once")
    version = publication.begun
    if version is None or version.sequence != action.sequence:
        published = publication.published
        if (
            version is None
            and published is not None
            and (published.sequence, published.natives) == (action.sequence, natives)
        ):
            return state, None
        raise InvalidRequestError(f"{where} cannot end: it was not begun")
    gone = {ids[name] for name in action.released}
    if gone:
        pins = {key: replace(pin, pages=()) if key[0] in gone else pin for key, pin in version.pins.items()}
        version = replace(version, pins=Map(pins))
    version = replace(version, natives=natives)
    return with_publication(state, replace(publication, published=version, begun=None)), None


def _fate_of_end(state: State, action: EndPublish) -> Fate:
    publication = state.publications.get(action.name)
    if publication is None:
        return Fate.UNKNOWN
    if publication.published is None or publication.published.sequence < action.sequence:
        return Fate.NOT_APPLIED
    alone = publication.published.sequence == action.sequence and publication.epoch == action.epoch
    return Fate.APPLIED if alone else Fate.UNKNOWN  # A publisher after this one may have ended it.


declare(
    EndPublish,
    number=26,
    fields=(
        Field("name", STRING),
        Field("epoch", LONG),
        Field("sequence", LONG),
        Field("versions", NUMBERED_TOPICS, bounds=_INT64),
        Field("released", array_of(STRING), bounds=_TOPICS),
    ),
    rule=end,
    fate=_fate_of_end,
)
