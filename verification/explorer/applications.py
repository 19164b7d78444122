"""Applications that break a rule, start over, share their log between threads, or read and write as a group.

Like `verification.explorer.actor_programs`, they note what they were told, and what they concluded from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from spark_eos.clients.producer.producer import Producer
from spark_eos.clients.records import ConsumerGroupMetadata
from spark_eos.errors import (
    AbortableError,
    CommitOutcomeLostError,
    CommitOutcomeUnknownError,
    EosLogError,
    FatalError,
    IllegalStateError,
    InvalidTxnStateError,
    RetriableError,
)
from spark_eos.log.topics import unless_exists
from spark_eos.protocol.actions import Action, CreateTopic, EndTransaction, JoinGroup, SyncGroup
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import Member, State
from spark_eos.protocol.types import ProducerStamp, TopicPartition
from verification.explorer.actor import COMMITTED, REFUSED, UNKNOWN, Actor, Body
from verification.explorer.actor_programs import GROUP, ID, TOPIC, producer_of, request

__all__ = ["SEEN", "asking", "asking_unless", "copier", "heir", "impatient", "recovering", "wanting"]

SEEN = "seen"
"""``seen 1 7``: who took the id over at epoch 1 found the group at offset 7."""


# -- After an unknown commit ----------------------------------------------------------------------------


def impatient(*, flushes: bool, by_hand: bool) -> Body:
    """A producer whose application wants to abort once the outcome of its commit is unknown.

    It calls `abort_transaction`, which must refuse, and then the same verb again; or, ``by_hand``, it puts the
    opposite decision into the log itself, past the producer.
    """

    def body(actor: Actor) -> None:
        log = actor.open()
        producer = producer_of(log)
        value = f"{actor.name}{actor.life}"
        name = f"value {value}"
        actor.note(name, UNKNOWN)
        try:
            actor.patiently(producer.init_transactions)
            producer.begin_transaction()
            _sent(producer, value, 1, flushes=flushes)
            actor.note(name, _ended(actor, producer, by_hand=by_hand))
        except (CommitOutcomeUnknownError, CommitOutcomeLostError):
            return  # Of a flush, or of the same verb again: the application gives up.
        except (AbortableError, FatalError, RetriableError):
            actor.note(name, REFUSED)
        finally:
            with suppress(FatalError, RetriableError):
                producer.close()

    return body


def _sent(producer: Producer, value: str, offset: int, *, flushes: bool) -> None:
    """A record, and how far the application has come with it."""
    producer.send(TOPIC, value, partition=0)
    producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): offset}, GROUP)
    if flushes:
        producer.flush()


def _ended(actor: Actor, producer: Producer, *, by_hand: bool) -> str:
    stamp = _stamp(producer)
    try:
        producer.commit_transaction()
    except CommitOutcomeUnknownError:
        if by_hand:
            return _aborted(actor, stamp)
    else:
        return COMMITTED
    try:
        producer.abort_transaction()
    except IllegalStateError:
        producer.commit_transaction()
        return COMMITTED
    return REFUSED


def _stamp(producer: Producer) -> ProducerStamp:
    transactions = producer._transactions  # noqa: SLF001  (what no application can get at)
    assert transactions is not None
    return transactions.stamp


def _aborted(actor: Actor, stamp: ProducerStamp) -> str:
    """The transaction is aborted, or it is too late for that."""
    try:
        request(actor, actor.open(), lambda _state: (EndTransaction(stamp, commit=False),))
    except InvalidTxnStateError:
        return COMMITTED  # Only this application can have decided it.
    except (FatalError, RetriableError):
        return UNKNOWN
    return REFUSED


def heir(actor: Actor) -> None:
    """Takes the id over, and looks what its predecessor has left: from then on nothing of that may change."""
    log = actor.open()
    with suppress(FatalError, RetriableError):
        producer = producer_of(log)
        actor.patiently(producer.init_transactions)
        epoch = _stamp(producer).epoch
        known = log.state.producer_of(ID)
        if known is not None and known.epoch == epoch:
            actor.note(f"{SEEN} {epoch} {_offset(log.state)}", COMMITTED)


def recovering(*, flushes: bool) -> Body:
    """An application that starts over when it does not know, in this life or the next.

    It makes a new producer of the same id, which fences the old one, and learns from the group's offset what has
    become of its records.
    """

    def body(actor: Actor) -> None:
        log = actor.open()
        for attempt in range(2):
            number = 10 * actor.life + attempt
            producer = producer_of(log)
            try:
                actor.patiently(producer.init_transactions)
                done = _offset(log.state)
                for name in [name for name, told in actor.told.items() if told == UNKNOWN]:
                    if name.startswith("value "):
                        actor.note(name, COMMITTED if int(name[7:]) == done else REFUSED)
                if any(told == COMMITTED for name, told in actor.told.items() if name.startswith("value ")):
                    return
                actor.note(f"value {actor.name}{number}", UNKNOWN)
                producer.begin_transaction()
                _sent(producer, f"{actor.name}{number}", number, flushes=flushes)
                producer.commit_transaction()
            except (AbortableError, RetriableError):
                continue
            actor.note(f"value {actor.name}{number}", COMMITTED)
            return

    return body


def _offset(state: State) -> int:
    known = state.offset_of(GROUP, TOPIC, 0)
    return -1 if known is None else known.offset


# -- Threads --------------------------------------------------------------------------------------------


def asking(*topics: str) -> Body:
    """A thread that creates topics, and repeats its requests if that is allowed."""

    def body(actor: Actor) -> None:
        for topic in topics:
            _ask(actor, CreateTopic(topic, f"id-of-{topic}", 1))

    return body


def _ask(actor: Actor, action: Action) -> None:
    with suppress(EosLogError):
        request(actor, actor.open(), lambda _state: (action,))


def asking_unless(topic: str, there: str) -> Body:
    """Creates a topic unless another one exists: nothing else would refuse it."""

    def body(actor: Actor) -> None:
        def wanted(state: State) -> Sequence[Action]:
            if there in state.topics:
                raise IllegalStateError(f"{there} is there")
            return (CreateTopic(topic, f"id-of-{topic}", 1),)

        with suppress(EosLogError):
            actor.open().commit(wanted, writer=actor.name)

    return body


def wanting(topic: str, unique: str) -> Body:
    """A thread that needs a topic, created by any process: there may be nothing to do."""

    def body(actor: Actor) -> None:
        action = CreateTopic(topic, f"{actor.name}{unique}", 1)
        with suppress(RetriableError):
            actor.open().commit(lambda state: unless_exists(state, action), writer=actor.name)
            actor.note(f"topic {topic}", COMMITTED)

    return body


# -- Groups ---------------------------------------------------------------------------------------------


def copier(actor: Actor) -> None:
    """A member of a group that copies with its own transactional id (KIP-447).

    Once as what it was before a rebalance, and once as what it is now.
    """
    log, me = actor.open(), f"{actor.name}{actor.life}"
    with suppress(AbortableError, RetriableError, FatalError):
        request(actor, log, lambda _state: (JoinGroup(GROUP, me, (TOPIC,), ("range",), 10_000),))
        known = log.state.groups[GROUP].members[me]
        producer = producer_of(log, f"{ID}-{actor.name}")
        actor.patiently(producer.init_transactions)
        group = log.follow().groups[GROUP]
        now = group.members[me]
        if now.generation != group.generation:
            request(actor, log, lambda _state: (SyncGroup(GROUP, me, group.generation),))
            now = log.state.groups[GROUP].members[me]
        if not _copied(actor, producer, replace(known, held=now.held), 0):
            _copied(actor, producer, now, 1)


def _copied(actor: Actor, producer: Producer, known: Member, number: int) -> bool:
    """One transaction; False if the group has moved on."""
    value = f"{actor.name}{actor.life}/{number}"
    actor.note(f"value {value}", UNKNOWN)
    producer.begin_transaction()
    try:
        producer.send(TOPIC, value, partition=0)
        producer.send_offsets_to_transaction(
            {TopicPartition(TOPIC, partition): number + 1 for _, partition in sorted(known.held)},
            ConsumerGroupMetadata(GROUP, known.generation, known.member_id),
        )
        actor.patiently(producer.commit_transaction)
    except (CommitOutcomeUnknownError, CommitOutcomeLostError):
        raise
    except (AbortableError, RetriableError, FatalError) as error:
        actor.note(f"value {value}", REFUSED)
        if not isinstance(error, AbortableError):
            raise
        producer.abort_transaction()
        return False
    actor.note(f"value {value}", COMMITTED)
    return True
