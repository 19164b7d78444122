"""Invariants of publications."""

from __future__ import annotations

from spark_eos.protocol.invariants.comparing import ensure, other
from spark_eos.protocol.publication import Pin, Publication
from spark_eos.protocol.state import Partition, State


def check_later_publications(before: State, after: State) -> None:
    """What was published stays so."""
    for name, publication in other(before.publications, after.publications):
        later = after.publications.get(name)
        floor = after.publication_floor
        if later is None or later.first > publication.first:
            dropped = floor > publication.epoch and floor >= publication.sequence
            ensure(dropped, f"publication {name!r} is gone, and its epochs may come again")
            continue
        ensure(publication.epoch <= later.epoch, f"the epoch of publication {name!r} went back")
        ensure(publication.sequence <= later.sequence, f"the versions of publication {name!r} went back")
        published = publication.published, later.published
        ensure(
            published[0] is None
            or (published[1] is not None and published[0].sequence <= published[1].sequence),
            f"a version of publication {name!r} is not published any more",
        )
        again = {version.sequence: version for version in later.versions}
        for version in publication.versions:
            now = again.get(version.sequence, version)
            is_same = all(now.pins[key][:2] == pin[:2] for key, pin in version.pins.items())
            ensure(
                is_same
                and (now.entry, now.epoch, now.begun_seq)
                == (version.entry, version.epoch, version.begun_seq),
                f"version {version.sequence} of publication {name!r} changed",
            )


def check_publication(state: State, publication: Publication) -> None:
    """Its versions follow one another, and what they pin is there."""
    name, last = publication.name, None
    ids = {topic_id for _, topic_id in publication.topics}
    ensure(
        all(
            topic in state.topics and state.topics[topic].topic_id == id_ for topic, id_ in publication.topics
        ),
        f"publication {name!r} has a topic that is gone",
    )
    for version in publication.versions:
        where = f"version {version.sequence} of publication {name!r}"
        ensure(version.epoch <= publication.epoch, f"{where} has a later epoch")
        ensure(0 <= version.entry < version.begun_seq <= state.seq + 1, f"{where} is of a later entry")
        ensure(last is None or version.sequence == last.sequence + 1, f"{where} does not follow the last one")
        for key, pin in version.pins.items():
            partition = state.partitions.get(key)
            ensure(partition is not None and key[0] in ids, f"{where} has a partition {key} that is gone")
            before = None if last is None else last.pins.get(key)
            ensure(
                before is None or (before.start <= pin.start and before.end <= pin.end), f"{where} went back"
            )
            _check_pin(f"{where}, partition {key}", pin, partition)
        ensure(last is None or set(last.pins) <= set(version.pins), f"{where} lacks partitions")
        last = version


def _check_pin(where: str, pin: Pin, partition: Partition | None) -> None:
    stable = -1 if partition is None else partition.last_stable_offset
    ensure(0 <= pin.start <= pin.end <= stable, f"{where}: no range of stable offsets")
    if not pin.pages:
        return
    at = pin.pages[0].base_offset
    ensure(at <= pin.start, f"{where}: the first offsets are not pinned")
    for page in pin.pages:
        ensure(page.base_offset == at, f"{where}: offset {at} is not pinned")
        at = page.next_offset
    ensure(at >= pin.end, f"{where}: the last offsets are not pinned")
