"""What a log knows of its mirrors to Kafka, and that no two mirrors send the same records round and round. Pure.

A mirror to Kafka has its position in Kafka. Its note in the log says in which cluster and topic that is, so that a
position that is lost is missed; which topics it sends where; and whose mirror into the log it has taken over from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from spark_eos.errors import CorruptRecordError, InvalidRequestError, ProducerFencedError
from spark_eos.extensions.mirror.positions import MirroredPartition, position_of, positions
from spark_eos.protocol.actions import Action, CommitMicroBatch, InitProducer, SourceProgress
from spark_eos.protocol.actions.queries.microbatch import ONE_SHOT_TIMEOUT_MS
from spark_eos.protocol.state import State

_PREFIX = "mirror-out/"
_IN_PREFIX = "mirror/"


class Pair(NamedTuple):
    """A topic of the log and the one of Kafka that gets its records, by their ids."""

    topic_id: str
    kafka_id: str
    topic: str
    kafka: str


class Note(NamedTuple):
    """A mirror to Kafka. ``positions_id`` is the topic id of its topic of positions.

    ``reverses`` is the mirror into the log that it has taken over from, if there is one.
    """

    mirror: str
    cluster: str
    positions_id: str
    reverses: str | None = None
    pairs: tuple[Pair, ...] = ()

    @property
    def text(self) -> str:
        """As the log stores it: canonical JSON."""
        return json.dumps(self._asdict(), separators=(",", ":"), sort_keys=True)


def note_of(state: State, mirror: str) -> Note | None:
    """The note of a mirror to Kafka; None if there is none. Raises `CorruptRecordError`."""
    text = _text(state, _PREFIX + mirror)
    if text is None:
        return None
    try:
        note = Note(**json.loads(text))
        return note._replace(pairs=tuple(Pair(*pair) for pair in note.pairs))
    except (ValueError, TypeError) as error:
        raise CorruptRecordError(
            f"transactional.id {_PREFIX + mirror!r} is one of a mirror, but does not say what it mirrors ({error}): "
            "another program has used the id. Mirror under another --name"
        ) from error


def notes(state: State) -> list[Note]:
    """The notes of all mirrors to Kafka, by name."""
    names = sorted(name.removeprefix(_PREFIX) for name in state.queries if name.startswith(_PREFIX))
    return [note for name in names if (note := note_of(state, name)) is not None]


def _text(state: State, name: str) -> str | None:
    query = state.queries.get(name)
    return query.sources[0].end if query is not None and query.sources else None


def write_note(state: State, note: Note, run_id: str, *, new: int = 0) -> tuple[Action, ...]:
    """What brings the note into the log; nothing if it is there. ``new`` producers are made earlier in the request."""
    name = _PREFIX + note.mirror
    before = _text(state, name)
    if before == note.text:
        return ()
    query, producer = state.queries.get(name), state.producer_of(name)
    runs: tuple[Action, ...] = ()
    if producer is None:
        runs = (InitProducer(state.next_producer_id + new, 0, name, ONE_SHOT_TIMEOUT_MS, run_id),)
    elif producer.run_id != run_id:
        runs = (InitProducer(producer.producer_id, producer.epoch + 1, name, ONE_SHOT_TIMEOUT_MS, run_id),)
    source = SourceProgress(before, note.text)
    number = 0 if query is None else query.batch_id + 1
    return *runs, CommitMicroBatch(name, name, run_id, number, (source,))


def check_not_taken_over(state: State, mirror: str) -> None:
    """Raise if a mirror to Kafka has taken over from this mirror into the log: it never writes again."""
    for note in notes(state):
        if note.reverses == mirror:
            raise ProducerFencedError(
                f"mirror {mirror!r} into the log has ended: mirror out {note.mirror!r} has taken over from it, and "
                "sends the log's own records to the same topics of Kafka (eoslog mirror out --reverse). Stop this "
                "one. To go the other way again, mirror under another --name into other topics of the log (--rename)"
            )


def check_no_loop(
    state: State,
    *,
    into: Iterable[tuple[str, str]] = (),
    out: Iterable[tuple[str, str]] = (),
    ended: str | None = None,
) -> None:
    """Raise if records would go round between the log and Kafka, with all mirrors of this log.

    ``into`` are pairs (Kafka's topic id, the log's topic id) of a mirror into the log, ``out`` are pairs (the log's
    topic id, Kafka's) of one to Kafka, which are new. ``ended`` is a mirror into the log that this one ends.
    """
    edges: dict[str, set[str]] = {}
    labels: dict[tuple[str, str], str] = {}
    all_notes = notes(state)
    ended_mirrors = {ended, *(note.reverses for note in all_notes)}
    for name in state.queries:
        if name.startswith(_IN_PREFIX):
            at = position_of(_text(state, name), name)
            if name.split("/")[1] not in ended_mirrors:
                edges.setdefault(at.source_id, set()).add(at.target_id)
                labels[at.source_id, at.target_id] = f"mirror in {name.split('/')[1]!r}"
    for note in all_notes:
        for pair in note.pairs:
            edges.setdefault(pair.topic_id, set()).add(pair.kafka_id)
            labels[pair.topic_id, pair.kafka_id] = f"mirror out {note.mirror!r}"
    for first, last in (*into, *out):
        edges.setdefault(first, set()).add(last)
    for first, last in (*into, *out):
        path = _path(edges, last, first)
        if path is not None:
            mirror_labels = sorted({labels[step] for step in pairwise(path) if step in labels})
            topics = sorted({topic.name for topic in state.topics.values() if topic.topic_id in path})
            raise InvalidRequestError(
                f"records of topic {', '.join(topics)} would go round between the log and Kafka for ever: "
                f"{', '.join(mirror_labels) or 'this mirror'} brings them back. Nothing was written. Mirror into "
                "another topic (--rename). To send to Kafka only what did not come from there, end the mirror into the "
                "log: eoslog mirror out --reverse NAME"
            )


def _path(edges: dict[str, set[str]], first: str, last: str) -> list[str] | None:
    """A way from ``first`` to ``last``."""
    paths = [[first]]
    visited = {first}
    while paths:
        path = paths.pop()
        if path[-1] == last:
            return path
        for node in sorted(edges.get(path[-1], ())):
            if node not in visited:
                visited.add(node)
                paths.append([*path, node])
    return None


def partitions_of(state: State, mirror: str) -> Sequence[MirroredPartition]:
    """The partitions of a mirror into the log."""
    return [
        MirroredPartition(mirror, at.source_id, at.target_id, at.partition) for at in positions(state, mirror)
    ]
