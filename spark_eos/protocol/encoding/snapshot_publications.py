"""The publications of a snapshot: each pinned page is a number in the list of its partition's pages.

Most pages that a version pins are in the partition's own index still. Only the others are stored once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from immutables import Map

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.encoding.avro import (
    LONG,
    LONGS,
    STRING,
    converted,
    keyed_by,
    map_of,
    optional_of,
    record_of,
)
from spark_eos.protocol.encoding.index_pages import PAGES, page_columns, read_pages
from spark_eos.protocol.encoding.offset_columns import read_runs, runs_of
from spark_eos.protocol.encoding.values import CONFIG, NUMBERS, PAIRS, RUNS
from spark_eos.protocol.index import IndexPage
from spark_eos.protocol.publication import Pin, Publication, PublicationVersion
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import Partition, PartitionKey


class Pins(NamedTuple):
    """The pins of a version. ``counts`` are the pinned pages of each partition, ``pages`` their numbers."""

    runs: list[dict[str, Any]]
    starts: list[int]
    ends: list[int]
    counts: list[int]
    pages: list[int]


class OtherPages(NamedTuple):
    """Pages of a partition that are not in its index any more. They have the numbers after those of the index."""

    pages: dict[str, Any]


class Publications(NamedTuple):
    """Publications whose pins have numbers of pages in the place of pages."""

    publications: Map[str, Publication]
    others: Map[PartitionKey, OtherPages]


def _columns(pins: Mapping[PartitionKey, Pin]) -> Pins:
    items = sorted(pins.items())
    return Pins(
        runs_of(key for key, _ in items),
        [pin.start for _, pin in items],
        [pin.end for _, pin in items],
        [len(pin.pages) for _, pin in items],
        [page for _, pin in items for page in pin.pages],  # type: ignore[misc]
    )


def _read_columns(columns: Pins) -> Map[PartitionKey, Pin]:
    keys = read_runs(columns.runs, len(columns.starts))
    at, pins = 0, {}
    for key, start, end, count in zip(keys, columns.starts, columns.ends, columns.counts, strict=True):
        pins[key] = Pin(start, end, tuple(columns.pages[at : at + count]))  # type: ignore[arg-type]
        at += count
    if at != len(columns.pages):
        raise CorruptRecordError("pinned pages that belong to no partition")
    return Map(pins)


_VERSION = record_of(
    PublicationVersion,
    sequence=LONG,
    entry=LONG,
    epoch=LONG,
    begun_seq=LONG,
    timestamp_ms=LONG,
    schemas=NUMBERS,
    pins=converted(
        record_of(Pins, runs=RUNS, starts=LONGS, ends=LONGS, counts=LONGS, pages=LONGS),
        _columns,
        _read_columns,
    ),
    natives=NUMBERS,
)

PUBLICATIONS = record_of(
    Publications,
    publications=keyed_by(
        "name",
        record_of(
            Publication,
            name=STRING,
            format=STRING,
            config=CONFIG,
            topics=PAIRS,
            epoch=LONG,
            first=LONG,
            published=optional_of(_VERSION),
            begun=optional_of(_VERSION),
        ),
    ),
    others=map_of(record_of(OtherPages, pages=PAGES), topic_id="string", partition="long"),
)
"""What `numbered` makes of all publications."""


def numbered(
    publications: Mapping[str, Publication], partitions: Mapping[PartitionKey, Partition]
) -> Publications:
    """All publications, with numbers for the pages that they pin."""
    pools: dict[PartitionKey, dict[IndexPage, int]] = {}

    def pin_of(key: PartitionKey, pin: Pin) -> Pin:
        if pin.pages and key not in pools:
            pools[key] = {page: number for number, page in enumerate(partitions[key].index.pages)}
        return pin._replace(pages=tuple([pools[key].setdefault(page, len(pools[key])) for page in pin.pages]))  # type: ignore[misc]

    by_name = {name: _with_pins(publication, pin_of) for name, publication in sorted(publications.items())}
    others = {}
    for key, pool in pools.items():
        if len(pool) > (own := len(partitions[key].index.pages)):
            others[key] = OtherPages(page_columns([*pool][own:]))
    return Publications(Map(by_name), Map(others))


def resolved(stored: Publications, partitions: Mapping[PartitionKey, Partition]) -> Map[str, Publication]:
    """The reverse of `numbered`. Raises `CorruptRecordError` for what does not fit together."""
    pools: dict[PartitionKey, list[IndexPage]] = {}

    def pin_of(key: PartitionKey, pin: Pin) -> Pin:
        if not pin.pages:
            return pin
        if key not in pools:
            other = stored.others.get(key)
            pools[key] = [*partitions[key].index.pages, *(read_pages(key, other.pages) if other else ())]
        numbers: Any = pin.pages
        if min(numbers) < 0:
            raise CorruptRecordError(f"a version pins no page of partition {key}")
        return pin._replace(pages=tuple([pools[key][number] for number in numbers]))

    return Map({name: _with_pins(publication, pin_of) for name, publication in stored.publications.items()})


def _with_pins(publication: Publication, pin_of: Any) -> Publication:
    """The publication with what ``pin_of`` makes of the pins of each partition."""
    changed = {
        name: replace(
            version, pins=Map([(key, pin_of(key, pin)) for key, pin in sorted(version.pins.items())])
        )
        for name in ("published", "begun")
        if (version := getattr(publication, name)) is not None
    }
    return replace(publication, **changed)
