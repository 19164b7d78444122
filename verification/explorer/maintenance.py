"""Actors who keep a log quick and small, and those who must not notice: writers that slept, and readers."""

from __future__ import annotations

from contextlib import suppress

from spark_eos.clients.consumer.consumer import Consumer
from spark_eos.config.isolation import Isolation
from spark_eos.errors import CommitOutcomeUnknownError, EosLogError, RetriableError
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.log.data.records import read
from spark_eos.log.log import Log
from spark_eos.maintenance import copying
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.rolling import Roller
from spark_eos.protocol.actions import CreateTopic
from spark_eos.protocol.types import TopicPartition
from verification.explorer.actor import COMMITTED, Actor, Body
from verification.explorer.actor_programs import TOPIC, append, appended, staged
from verification.explorer.history import ROWS

__all__ = [
    "CLOSED",
    "ROLLED",
    "closer",
    "consumer",
    "keeping",
    "left_behind",
    "maintainer",
    "newcomer",
    "roller",
    "rows_of",
    "who_planned",
]

CLOSED = "closed"
"""Told to who closed the log."""

ROLLED = "rolled "
"""``rolled 0 4``: who wrote offsets 0 to 3 again."""

_AT = TopicPartition(TOPIC, 0)
_LEVEL = Isolation.READ_COMMITTED


# -- Writers --------------------------------------------------------------------------------------------


def keeping(times: int, *, rows: bool = True) -> Body:
    """Plain rows, or new topics, one after the other, with so much time between them that all maintenance gets done."""

    def body(actor: Actor) -> None:
        log = actor.open()
        for number in range(times):
            actor.clock.sleep(60)
            if rows:
                appended(actor, log, f"{actor.name}{actor.life}/{number}", repeats=False)
            else:
                _created(actor, log, f"{actor.name}{number}")

    return body


def rows_of(log: Log, *values: str) -> None:
    """Plain rows, each in an entry and a file of its own."""
    for value in values:
        append(log, value)


def left_behind(log: Log) -> None:
    """A file of a writer that has died; no entry refers to it."""
    staged(log, "left behind")


def _created(actor: Actor, log: Log, topic: str) -> None:
    with suppress(EosLogError):
        log.commit(lambda _state: (CreateTopic(topic, f"id-of-{topic}", 1),), writer=actor.name)


# -- Maintenance ----------------------------------------------------------------------------------------


def roller(actor: Actor) -> None:
    """Rewrites one range of offsets, unless another actor does."""
    try:
        done = Roller(actor.open()).step()
    except (CommitOutcomeUnknownError, RetriableError):
        return
    if done is not None:
        actor.note(f"{ROLLED}{done.base_offset} {done.next_offset}", COMMITTED)


def maintainer(*steps: str) -> Body:
    """A pass of `eoslog maintain`, of these steps; files that no entry refers to are old enough at once."""

    def body(actor: Actor) -> None:
        with suppress(RetriableError):
            for done in Maintainer(actor.open(), only=steps, min_age_s=0).run():
                actor.story.append(f"{done.step}: {done.text}")

    return body


def closer(actor: Actor) -> None:
    """What `eoslog copy --close` does when all files are copied."""
    with suppress(RetriableError):
        copying.close_log(actor.store, actor.clock)
        actor.note(CLOSED, COMMITTED)


# -- Readers --------------------------------------------------------------------------------------------


def newcomer(actor: Actor) -> None:
    """Opens the log, from a snapshot if there is one, and reads all that is committed."""
    with suppress(RetriableError):
        _reads(actor, Log.open(actor.store, actor.clock))


def who_planned(actor: Actor) -> None:
    """Reads all that was committed when everything began, by a plan of that time."""
    with suppress(RetriableError):
        _reads(actor, actor.open())


def _reads(actor: Actor, log: Log) -> None:
    state = log.state
    topic = state.topics[TOPIC]
    partition = state.partitions[topic.topic_id, 0]
    values: list[str] = []
    for fetch in plan(state, _AT, partition.start, end_offset(partition, _LEVEL), _LEVEL, log.load):
        values += [value.decode() for value in read(log.store, topic, fetch).column("value").to_pylist()]
    actor.note(f"{ROWS}{state.seq} {' '.join(values)}".rstrip(), COMMITTED)


def consumer(actor: Actor) -> None:
    """A consumer that takes record by record until there are no more, whatever is deleted meanwhile."""
    log = actor.open()
    reader = Consumer(log, {"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    values: list[str] = []
    with suppress(RetriableError):
        reader.assign([_AT])
        while records := reader.poll(0, 1):
            values += [record.value.decode() for record in records if record.value is not None]
        actor.note(f"{ROWS}{log.state.seq} {' '.join(values)}".rstrip(), COMMITTED)
