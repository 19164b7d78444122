"""The publications of a snapshot: each pinned page is a number in the list of its partition's pages.

Most pages that a version pins are in the partition's own index still. Only the others are stored once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from immutables import Map

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.encoding.avro import array, record
from spark_eos.protocol.encoding.index_pages import page_columns, read_pages
from spark_eos.protocol.encoding.offset_columns import read_runs, runs_of
from spark_eos.protocol.index import IndexPage
from spark_eos.protocol.publication import Pin, Publication, PublicationVersion
from spark_eos.protocol.state import Partition, PartitionKey

__all__ = ["PUBLICATIONS", "publication_columns", "read_publications"]


def _schema() -> dict[str, Any]:
    """``versions`` are the published one and the begun one, as far as there are any; ``is_published`` tells them apart.

    ``counts`` are the pinned pages of each partition, ``pages`` their numbers: first come the pages of the partition's
    index, then its ``others``.
    """
    longs = array("long")
    version = record(
        "PublicationVersion",
        is_published="boolean",
        **dict.fromkeys(("sequence", "entry", "epoch", "begun_seq", "timestamp_ms"), "long"),
        schemas=array(record("NumberedTopic", name="string", value="long")),
        natives=array("NumberedTopic"),
        runs=array("Run"),
        **dict.fromkeys(("starts", "ends", "counts", "pages"), longs),
    )
    publication = record(
        "Publication",
        name="string",
        format="string",
        config=array("Pair"),
        topics=array("Pair"),
        epoch="long",
        first="long",
        versions=array(version),
    )
    others = record("OtherPages", topic_id="string", partition="long", pages="Pages")
    return record("Publications", publications=array(publication), others=array(others))


PUBLICATIONS = _schema()
"""Avro's schema of all publications, inside of that of a snapshot."""


def publication_columns(
    publications: Mapping[str, Publication], partitions: Mapping[PartitionKey, Partition]
) -> dict[str, Any]:
    """All publications as `PUBLICATIONS`."""
    pools: dict[PartitionKey, dict[IndexPage, int]] = {}
    shown = [
        {
            "name": name,
            "format": one.format,
            "config": [{"name": key, "value": value} for key, value in sorted(one.config.items())],
            "topics": [{"name": topic, "value": topic_id} for topic, topic_id in one.topics],
            "epoch": one.epoch,
            "first": one.first,
            "versions": [
                _version(version, partitions, pools, is_published=version is one.published)
                for version in one.versions
            ],
        }
        for name, one in sorted(publications.items())
    ]
    others = []
    for key, pool in sorted(pools.items()):
        own = len(partitions[key].index.pages)
        if len(pool) > own:
            pages = page_columns([*pool][own:])
            others.append({"topic_id": key[0], "partition": key[1], "pages": pages})
    return {"publications": shown, "others": others}


def _version(
    version: PublicationVersion,
    partitions: Mapping[PartitionKey, Partition],
    pools: dict[PartitionKey, dict[IndexPage, int]],
    *,
    is_published: bool,
) -> dict[str, Any]:
    pins = sorted(version.pins.items())
    pages: list[int] = []
    for key, pin in pins:
        if pin.pages and key not in pools:
            pools[key] = {page: number for number, page in enumerate(partitions[key].index.pages)}
        pages += [pools[key].setdefault(page, len(pools[key])) for page in pin.pages]
    plain = ("sequence", "entry", "epoch", "begun_seq", "timestamp_ms")
    return {
        "is_published": is_published,
        **{name: getattr(version, name) for name in plain},
        "schemas": _numbered(version.schemas),
        "natives": _numbered(version.natives),
        "runs": runs_of(key for key, _ in pins),
        "starts": [pin.start for _, pin in pins],
        "ends": [pin.end for _, pin in pins],
        "counts": [len(pin.pages) for _, pin in pins],
        "pages": pages,
    }


def _numbered(topics: Map[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in sorted(topics.items())]


def read_publications(
    fields: dict[str, Any], partitions: Mapping[PartitionKey, Partition]
) -> dict[str, Publication]:
    """The publications that `publication_columns` wrote. Raises `CorruptRecordError` for what does not fit together."""
    others = {
        key: [*read_pages(key, one["pages"])]
        for one in fields["others"]
        if (key := (one["topic_id"], one["partition"]))
    }
    pools: dict[PartitionKey, list[IndexPage]] = {}

    def pool(key: PartitionKey) -> list[IndexPage]:
        if key not in pools:
            pools[key] = [*partitions[key].index.pages, *others.get(key, ())]
        return pools[key]

    found = {}
    for one in fields["publications"]:
        versions = {each.pop("is_published"): _read_version(each, pool) for each in one.pop("versions")}
        found[one["name"]] = Publication(
            **{
                **one,
                "config": Map({pair["name"]: pair["value"] for pair in one["config"]}),
                "topics": tuple((pair["name"], pair["value"]) for pair in one["topics"]),
            },
            published=versions.get(True),
            begun=versions.get(False),
        )
    return found


def _read_version(fields: dict[str, Any], pool: Any) -> PublicationVersion:
    pages = fields.pop("pages")
    columns = [fields.pop(name) for name in ("starts", "ends", "counts")]
    at, pins = 0, {}
    for key, start, end, count in zip(read_runs(fields.pop("runs"), len(columns[0])), *columns, strict=True):
        numbers = pages[at : at + count]
        if any(number < 0 for number in numbers):
            raise CorruptRecordError(f"a version pins no page of partition {key}")
        pins[key] = Pin(start, end, tuple([pool(key)[number] for number in numbers]) if numbers else ())
        at += count
    if at != len(pages):
        raise CorruptRecordError("pinned pages that belong to no partition")
    return PublicationVersion(
        **{
            **fields,
            "schemas": _read_numbered(fields["schemas"]),
            "natives": _read_numbered(fields["natives"]),
        },
        pins=Map(pins),
    )


def _read_numbered(topics: Iterable[dict[str, Any]]) -> Map[str, int]:
    return Map({one["name"]: one["value"] for one in topics})
