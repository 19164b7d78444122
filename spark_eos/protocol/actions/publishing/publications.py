"""Publications: which topics are published together, and which publisher may write now."""

from __future__ import annotations

import re
from typing import NamedTuple

from immutables import Map

from spark_eos.errors import InvalidRequestError, ProducerFencedError
from spark_eos.protocol.actions.data_place import check_not_moving
from spark_eos.protocol.actions.declaration import SETTINGS, Bounds, Fate, Field, declare
from spark_eos.protocol.actions.encryption import check_publishable
from spark_eos.protocol.actions.topics import require
from spark_eos.protocol.encoding.avro import LONG, STRING, optional_of
from spark_eos.protocol.encoding.values import PAIRS
from spark_eos.protocol.publication import Publication
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TrailNote

MAX_TOPICS = 10_000
PUBLICATION_CREATED = "publication created"
"""What the trail says of it."""
_LEGAL_NAME = re.compile(r"(?!\.\.?$)[a-zA-Z0-9._-]{1,249}")
_FORMAT = re.compile(r"[a-z][a-z0-9-]{0,31}")
_NUMERIC = re.compile(r"[0-9]{1,18}", re.ASCII)


def require_publication(state: State, name: str) -> Publication:
    """The publication, which must be there."""
    publication = state.publications.get(name)
    if publication is None:
        names = ", ".join(sorted(state.publications)) or "none"
        raise InvalidRequestError(f"the log has no publication {name!r}; its publications are: {names}")
    return publication


def require_publisher(state: State, name: str, epoch: int) -> Publication:
    """The publication, whose newest publisher must have this epoch."""
    publication = require_publication(state, name)
    if publication.epoch != epoch:
        raise ProducerFencedError(
            f"this publisher of {name!r} has epoch {epoch}, and the newest one has {publication.epoch}: another "
            "publisher has taken over"
        )
    return publication


def with_publication(state: State, publication: Publication) -> State:
    """The state with this publication in place of the one of its name."""
    return replace(state, publications=state.publications.set(publication.name, publication))


class CreatePublication(NamedTuple):
    """Topics (names with ids) that are published together as tables of one format. ``config`` are its settings."""

    name: str
    format: str
    config: tuple[tuple[str, str], ...]
    topics: tuple[tuple[str, str], ...]


def create(state: State, action: CreatePublication) -> tuple[State, None]:
    """A publication without versions. Two of one format cannot have tables of one topic at one place."""
    check_publishable(state, action.name)
    if action.name in state.publications:
        raise InvalidRequestError(f"publication {action.name!r} is there already")
    config = Map(action.config)
    check_not_moving(state, action.name, config)
    for name, topic_id in action.topics:
        require(state, name, topic_id)
        for other in state.publications_of(topic_id):
            if other.format == action.format and _place(other.config) == _place(config):
                raise InvalidRequestError(
                    f"publication {action.name!r}: publication {other.name!r} has a {action.format} table of topic "
                    f"{name!r} at the same place; give this one a place of its own: --mode copied with a "
                    "--location, or another namespace of the catalog"
                )
    first = state.publication_floor
    publication = Publication(action.name, action.format, config, action.topics, first, first)
    return replace(state, publications=state.publications.set(action.name, publication)), None


def _place(config: Map[str, str]) -> list[str | None]:
    """The settings that say where the tables are."""
    return [config.get(name) for name in ("location", "catalog", "namespace")]


def _check_new(action: CreatePublication) -> None:
    if not _LEGAL_NAME.fullmatch(action.name):
        raise InvalidRequestError(
            f"illegal name of a publication {action.name[:80]!r}: 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' "
            "and '-', and neither '.' nor '..'"
        )
    if not _FORMAT.fullmatch(action.format):
        raise InvalidRequestError(
            f"publication {action.name!r}: {action.format[:80]!r} is no name of a format"
        )
    names = [name for name, _ in action.topics]
    if not names or len({*names}) < len(names):
        raise InvalidRequestError(f"publication {action.name!r} needs one topic or more, each of them once")
    settings = [name for name, _ in action.config]
    if len({*settings}) < len(settings):
        raise InvalidRequestError(f"publication {action.name!r}: a setting is given twice")
    for name, value in action.config:
        if name.endswith(".ms") and not _NUMERIC.fullmatch(value):
            raise InvalidRequestError(
                f"publication {action.name!r}: setting {name!r} must be a whole number from 0 up, not {value[:80]!r}"
            )


declare(
    CreatePublication,
    number=23,
    fields=(
        Field("name", STRING),
        Field("format", STRING),
        Field("config", PAIRS, bounds=SETTINGS),
        Field("topics", PAIRS, bounds=Bounds(items=MAX_TOPICS)),
    ),
    rule=create,
    check=_check_new,
    tell=lambda _before, _after, action, _writer: [
        TrailNote(PUBLICATION_CREATED, action.name, ", ".join(name for name, _ in action.topics))
    ],
)


class FencePublisher(NamedTuple):
    """A publisher takes over: all earlier ones are refused. The result is its epoch."""

    name: str


def fence(state: State, action: FencePublisher) -> tuple[State, int]:
    """The publication at its next epoch. An intent of an earlier publisher stays, for this one to finish."""
    publication = require_publication(state, action.name)
    publication = replace(publication, epoch=publication.epoch + 1)
    return with_publication(state, publication), publication.epoch


declare(FencePublisher, number=24, fields=(Field("name", STRING),), rule=fence)


class DropPublication(NamedTuple):
    """The publication is gone, and pins nothing any more. ``epoch``: only if this publisher may still write."""

    name: str
    epoch: int | None = None


def drop(state: State, action: DropPublication) -> tuple[State, None]:
    """The log forgets the publication. A new one of this name goes on with later epochs and sequences.

    Else a publisher of the old one could write to the new one, and a table that was left behind would pass for a
    version of it.
    """
    publication = (
        require_publication(state, action.name)
        if action.epoch is None
        else require_publisher(state, action.name, action.epoch)
    )
    floor = max(state.publication_floor, publication.epoch + 1, publication.sequence)
    publications = state.publications.delete(action.name)
    return replace(state, publications=publications, publication_floor=floor), None


def _fate_of_drop(state: State, action: DropPublication) -> Fate:
    publication = state.publications.get(action.name)
    if action.epoch is None or publication is None or publication.epoch > action.epoch:
        return Fate.UNKNOWN
    return Fate.NOT_APPLIED


declare(
    DropPublication,
    number=27,
    fields=(Field("name", STRING), Field("epoch", optional_of(LONG))),
    rule=drop,
    fate=_fate_of_drop,
    is_repeatable=lambda action: action.epoch is not None,
    tell=lambda _before, _after, action, _writer: [TrailNote("publication dropped", action.name)],
)
