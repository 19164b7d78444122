"""What actors of an exploration do: real clients and real requests, in as few calls of the store as possible.

They note what they were told of every value (``value <text>``) and of every batch and decision they asked for.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from spark_eos.clients.producer.producer import Producer
from spark_eos.clients.producer.producer_session import init_producer_id
from spark_eos.clients.producer.sender import Sender
from spark_eos.errors import (
    AbortableError,
    CommitOutcomeLostError,
    CommitOutcomeUnknownError,
    EosLogError,
    FatalError,
    InvalidTxnStateError,
    RetriableError,
    StorageError,
)
from spark_eos.log.commit.loop import Committed, Propose
from spark_eos.log.log import Log
from spark_eos.protocol.actions import (
    AppendBatches,
    CommitOffsets,
    EndTransaction,
    JoinGroup,
    Membership,
    PartitionOffset,
    RaiseStagingFloor,
    SyncGroup,
)
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import Member
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp, StagedFile
from verification.explorer.actor import (
    COMMITTED,
    REFUSED,
    TRIES,
    UNKNOWN,
    Actor,
    Body,
)

__all__ = [
    "GROUP",
    "ID",
    "SOURCE",
    "TOPIC",
    "append",
    "appended",
    "cleaner",
    "ender",
    "expirer",
    "idempotent",
    "member",
    "plain",
    "producer_of",
    "repeating",
    "request",
    "staged",
    "transactional",
    "visitor",
]

TOPIC, SOURCE, ID, GROUP = "t", "source", "tx", "g"


# -- Producers ------------------------------------------------------------------------------------------


class _ThreadlessSender(Sender):
    """Sends when it is flushed: a thread of its own would be no actor."""

    def wake(self, *, urgent: bool) -> bool:
        return True


class _ThreadlessProducer(Producer):
    """Records wait for `flush`."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self._sender = _ThreadlessSender(self._log, self._drain, self._settings)


def producer_of(log: Log, transactional_id: str = ID) -> Producer:
    """A transactional producer."""
    return Producer(log, {"transactional.id": transactional_id, "transaction.timeout.ms": 1000})


def transactional(*, flushes: bool = False, partitions: int = 1) -> Body:
    """One transaction of a real producer, repeated where the answer allows, else given back."""

    def body(actor: Actor) -> None:
        log = actor.open()
        producer = producer_of(log)
        value = f"{actor.name}{actor.life}"
        names = [f"value {value}/{number}" for number in range(partitions + flushes)]
        for name in names:
            actor.note(name, UNKNOWN)
        try:
            actor.patiently(producer.init_transactions)
        except (FatalError, RetriableError):
            told = REFUSED
        else:
            told = _transaction(
                actor, producer, [name.removeprefix("value ") for name in names], flushes=flushes
            )
        for name in names:
            actor.note(name, told)

    return body


def _transaction(actor: Actor, producer: Producer, values: list[str], *, flushes: bool) -> str:
    producer.begin_transaction()
    try:
        if flushes:
            producer.send(TOPIC, values[0], partition=0)
            producer.flush()
        for number, value in enumerate(values[flushes:]):
            producer.send(TOPIC, value, partition=number)
        return _committed(actor, producer)
    except CommitOutcomeLostError:
        return UNKNOWN
    except FatalError:
        return REFUSED  # Whatever was flushed is aborted by who fenced this one.
    except (AbortableError, RetriableError) as error:
        actor.story.append(f"aborts: {type(error).__name__}")
        return _given_back(actor, producer)


def _committed(actor: Actor, producer: Producer) -> str:
    told = UNKNOWN
    for _ in range(TRIES):
        try:
            producer.commit_transaction()
        except CommitOutcomeUnknownError:
            told = UNKNOWN
        except RetriableError as error:
            actor.story.append(f"commit: {type(error).__name__}")
            told = REFUSED  # Certainly not in; but what was flushed waits for an end.
        else:
            return COMMITTED
    if told == REFUSED:
        return _given_back(actor, producer)
    return told


def _given_back(actor: Actor, producer: Producer) -> str:
    with suppress(FatalError, RetriableError):
        actor.patiently(producer.abort_transaction)
    return REFUSED


def idempotent(actor: Actor) -> None:
    """Two records, one after the other, of a producer without transactions."""
    producer = _ThreadlessProducer(actor.open())
    for number in range(2):
        name = f"value {actor.name}{actor.life}/{number}"
        actor.note(name, UNKNOWN)
        try:
            future = producer.send(TOPIC, name.removeprefix("value "), partition=0)
            producer.flush()
            future.result(0)
        except CommitOutcomeUnknownError:
            continue
        except EosLogError:
            actor.note(name, REFUSED)
        else:
            actor.note(name, COMMITTED)


def repeating(actor: Actor) -> None:
    """An idempotent producer that trusts nothing: it sends its batch again as another request (KIP-98)."""
    log = actor.open()
    name = f"value {actor.name}{actor.life}"
    actor.note(name, UNKNOWN)
    try:
        begun = log.clock.unique()
        made = actor.patiently(lambda: init_producer_id(log, None, 1000, writer=actor.name, request_id=begun))
        stamp: ProducerStamp = made.results[0]
        (file,) = staged(log, name.removeprefix("value "))
        batches = tuple(batch._replace(base_sequence=0) for batch in file.batches)
        append = AppendBatches(stamp, _topics(log), (file._replace(batches=batches),))
        for _ in range(2):
            request(actor, log, lambda _state: (append,))
    except RetriableError:
        return
    except EosLogError:
        actor.note(name, REFUSED)
    else:
        actor.note(name, COMMITTED)


def plain(*, repeats: bool = True, times: int = 1) -> Body:
    """Rows without a producer: only the request's id keeps them from coming twice."""

    def body(actor: Actor) -> None:
        for number in range(times):
            value = f"{actor.name}{actor.life}" + f"/{number}" * (times > 1)
            appended(actor, actor.open(), value, repeats=repeats)

    return body


def appended(actor: Actor, log: Log, value: str, *, repeats: bool) -> None:
    """One row without a producer; what came of it is noted."""
    name = f"value {value}"
    actor.note(name, UNKNOWN)
    try:
        action = AppendBatches(NO_PRODUCER, _topics(log), staged(log, value))
        if repeats:
            request(actor, log, lambda _state: (action,))
        else:
            log.commit(lambda _state: (action,), writer=actor.name)
    except CommitOutcomeUnknownError:
        return
    except EosLogError:
        actor.note(name, REFUSED)
    else:
        actor.note(name, COMMITTED)


def append(log: Log, value: str) -> None:
    """A plain row, sent by none of the actors."""
    action = AppendBatches(NO_PRODUCER, _topics(log), staged(log, value))
    log.commit(lambda _state: (action,))


def staged(log: Log, value: str) -> tuple[StagedFile, ...]:
    """A file with a row, in no entry yet."""
    with log.stage(log.topic(TOPIC)) as writer:
        writer.append(pa.table({"value": pa.array([value.encode()])}), 0)
        return tuple(writer.finish())


def _topics(log: Log) -> tuple[tuple[str, str], ...]:
    return ((TOPIC, log.topic(TOPIC).topic_id),)


def request(actor: Actor, log: Log, wanted: Propose) -> Committed:
    """One request, the same one again after an answer that allows it."""
    request_id = log.clock.unique()
    return actor.patiently(lambda: log.commit(wanted, writer=actor.name, request_id=request_id))


# -- Timeouts and ends ----------------------------------------------------------------------------------


def two_phase_producer(log: Log) -> Producer:
    """A producer that may prepare its transactions."""
    settings = {"transactional.id": ID, "transaction.timeout.ms": 1000}
    return Producer(log, {**settings, "transaction.two.phase.commit.enable": True})


def completing(token: str) -> Body:
    """Takes over a prepared transaction, and completes it as the database has decided. It repeats what is in doubt."""
    called = f"complete {token}"

    def body(actor: Actor) -> None:
        producer = two_phase_producer(actor.open())
        actor.note(called, UNKNOWN)
        try:
            actor.patiently(lambda: producer.init_transactions(keep_prepared_transaction=True))
            actor.patiently(lambda: producer.complete_transaction(token))
        except InvalidTxnStateError:
            actor.note(called, REFUSED)
        except (FatalError, RetriableError):
            return  # The one that took over does it.
        else:
            actor.note(called, COMMITTED)

    return body


def expirer(actor: Actor) -> None:
    """Watches open transactions for longer than they may be open."""
    log = actor.open()
    with suppress(RetriableError):
        for _ in range(2):
            log.follow()
            log.expire_overdue()
            actor.clock.sleep(60)


def visitor(actor: Actor) -> None:
    """Looks at the log once and ends: only the store can tell how long a transaction has been open."""
    log = actor.open()
    with suppress(RetriableError):
        log.follow()
        log.expire_overdue()


def ender(*, commit: bool) -> Body:
    """Decides the open transaction, and knows nothing of others that decide it, too."""

    def body(actor: Actor) -> None:
        log = actor.open()
        producer = log.state.producer_of(ID)
        assert producer is not None
        end = EndTransaction(producer.stamp, commit=commit)
        try:
            request(actor, log, lambda _state: (end,))
        except RetriableError:
            actor.told[f"commit={commit}"] = UNKNOWN
        except FatalError:
            actor.told[f"commit={commit}"] = REFUSED
        else:
            actor.told[f"commit={commit}"] = COMMITTED

    return body


# -- Groups ---------------------------------------------------------------------------------------------


def member(actor: Actor) -> None:
    """Joins, lets go when others come, and commits offsets of what it holds; one commit comes too late (KIP-447)."""
    log, me = actor.open(), f"{actor.name}{actor.life}"
    with suppress(RetriableError):
        request(actor, log, lambda _state: (JoinGroup(GROUP, me, (TOPIC,), ("range",), 10_000),))
        before = log.state.groups[GROUP].members[me]
        _offsets(actor, log, before)
        group = log.follow().groups[GROUP]
        if group.members[me].generation != group.generation:
            with suppress(AbortableError):
                request(actor, log, lambda _state: (SyncGroup(GROUP, me, group.generation),))
            now = log.state.groups[GROUP].members[me]
            _offsets(actor, log, replace(before, held=now.held))
            _offsets(actor, log, now)


def _offsets(actor: Actor, log: Log, known: Member) -> None:
    """Commit as ``known``, which may be what the member was some time ago."""
    places = tuple(PartitionOffset(TOPIC, *at, known.generation, known.member_id) for at in known.held)
    commit = CommitOffsets(GROUP, places, None, Membership(known.member_id, known.generation))
    if places:
        with suppress(AbortableError):
            request(actor, log, lambda _state: (commit,))


# -- Deleting -------------------------------------------------------------------------------------------


def cleaner(actor: Actor) -> None:
    """Raises the staging floor to where the log is, then deletes what is below it and in no entry."""
    log = actor.open()
    try:
        floor = log.follow().seq + 1
        request(actor, log, lambda _state: (RaiseStagingFloor(floor),))
        state = log.state
        kept = {
            row.file.name
            for one in state.partitions.values()
            for row in one.index.scan(0)
            if row.file is not None
        }
        for info in actor.store.list("data/"):
            if staged_at(info.name) < floor and info.name not in kept:
                actor.store.delete(info.name)
    except (RetriableError, StorageError):
        return
