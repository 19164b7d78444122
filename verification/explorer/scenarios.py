"""Small casts whose every interleaving is explored: actors, what each one does, and what must be true at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from immutables import Map

from spark_eos.clients.admin import Admin
from spark_eos.log.commit.outcomes import with_entry
from spark_eos.log.log import Log
from spark_eos.protocol.state import TransactionState
from verification.explorer.actor import (
    COMMITTED,
    REFUSED,
    UNKNOWN,
    Role,
)
from verification.explorer.actor_programs import (
    GROUP,
    ID,
    SOURCE,
    TOPIC,
    cleaner,
    completing,
    ender,
    expirer,
    idempotent,
    member,
    plain,
    producer_of,
    repeating,
    transactional,
    two_phase_producer,
    visitor,
)
from verification.explorer.applications import (
    SEEN,
    asking,
    asking_unless,
    copier,
    heir,
    impatient,
    recovering,
    wanting,
)
from verification.explorer.children import child
from verification.explorer.group_channel import ExploredGroupChannel, ReportingGroupChannel
from verification.explorer.history import Chain
from verification.explorer.maintenance import (
    CLOSED,
    ROLLED,
    closer,
    consumer,
    keeping,
    left_behind,
    maintainer,
    newcomer,
    roller,
    rows_of,
    who_planned,
)
from verification.explorer.queries import run
from verification.explorer.scenario import Scenario
from verification.explorer.state_fingerprint import Position
from verification.explorer.store import GROUP_CHANNEL
from verification.explorer.two_logs import as_the_other_log_decided, coordinator, helper, prepared_in_both

__all__ = ["SCENARIOS", "Scenario"]


PREPARED = "0:1"
"""Of the prepared transaction: the first epoch after that of its producer."""


def _open_transaction(log: Log) -> None:
    producer = producer_of(log)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(TOPIC, "open", partition=0)
    producer.flush()


def _prepared_transaction(log: Log) -> None:
    producer = two_phase_producer(log)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(TOPIC, "prepared", partition=0)
    assert str(producer.prepare_transaction()) == PREPARED


def _as_decided(actors: Sequence[Position], chain: Chain) -> Iterator[str]:
    """It stays prepared, or is committed; a process that was told that it is complete is right."""
    prepared = chain.state.producers[0].prepared
    committed = None if prepared is None else prepared.committed
    if committed is False:
        yield "the prepared transaction was aborted, though the database has committed it"
    for actor in actors:
        told = actor.told.get(f"complete {PREPARED}")
        if told == REFUSED or (told == COMMITTED and not committed):
            yield f"{actor.name} was told {told}, and the prepared transaction is committed={committed}"


def _source(log: Log) -> None:
    Admin(log).create_topic(SOURCE)


def _one_end(actors: Sequence[Position], chain: Chain) -> Iterator[str]:
    """Who wanted what was decided is told so, however late; who wanted the opposite is refused."""
    producer = chain.state.producer_of(ID)
    assert producer is not None
    for actor in actors:
        for commit in (True, False):
            told = actor.told.get(f"commit={commit}")
            as_wanted = producer.transaction is (
                TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
            )
            if (told == COMMITTED and not as_wanted) or (told == REFUSED and as_wanted):
                end = producer.transaction.value
                yield f"{actor.name} wanted commit={commit} and was told {told}, but it is {end}"


def _batches_once(actors: Sequence[Position], chain: Chain) -> Iterator[str]:
    """As many rows as batches, and each starts where the one before it ended."""
    rows = sum(partition.end for partition in chain.state.partitions.values())
    if rows != 2 * len(chain.batches):  # Each with its control batch.
        yield f"{len(chain.batches)} batches have {rows} rows and control batches"
    for before, after in zip(chain.batches, chain.batches[1:], strict=False):
        if after.sources[0].start != before.sources[0].end:
            yield f"batch {after.batch_id} starts at {after.sources[0].start}, not {before.sources[0].end}"
    there = {f"batch {one.batch_id} {one.sources[0].start} {one.sources[0].end}" for one in chain.batches}
    for actor in actors:
        for name in actor.told:
            if name.startswith("batch ") and name not in there:
                yield f"{actor.name} was told that {name} is in the log; there are {sorted(there)}"


def _nothing_changes(actors: Sequence[Position], chain: Chain) -> Iterator[str]:
    """What the successor that took the id over has seen is there at the end, unless the successor was replaced, too."""
    offset, producer = chain.state.offset_of(GROUP, TOPIC, 0), chain.state.producer_of(ID)
    now = f"{-1 if producer is None else producer.epoch} {-1 if offset is None else offset.offset}"
    for actor in actors:
        for name in actor.told:
            kind, _, seen = name.partition(" ")
            if kind == SEEN and seen.split()[0] == now.split(maxsplit=1)[0] and seen != now:
                yield f"{actor.name} took over, and saw (epoch, offset) {seen}; now it is {now}"


def _offsets_with_values(actors: Sequence[Position], chain: Chain) -> Iterator[str]:
    """Offsets are in with the records they belong to, or neither."""
    wanted = set()
    for actor in actors:
        for name, told in actor.told.items():
            if name.startswith("value ") and told == COMMITTED:
                wanted.add(int(name[-1]) + 1)
    found = {one.offset for one in chain.state.offsets.get(GROUP, Map()).values()}
    certain = not any(told == UNKNOWN for actor in actors for told in actor.told.values())
    if certain and not found <= wanted:
        yield f"offsets {sorted(found)} are in, of values that are not: {sorted(wanted)}"


def _reported(log: Log) -> None:
    """Another process has led, and has reported so: all others lag."""
    state = log.state
    log.store.overwrite(f"{GROUP_CHANNEL}outcomes", with_entry(b"", state.seq, state.lineage, (), 1))


def _rows(log: Log) -> None:
    rows_of(log, "a", "b", "c")


def _garbage(log: Log) -> None:
    rows_of(log, "a", "b")
    left_behind(log)
    rows_of(log, "c")


def _one_winner(actors: Sequence[Position], _chain: Chain) -> Iterator[str]:
    """No two were told that they have written the same stretch again."""
    told = Counter(name for actor in actors for name in actor.told if name.startswith(ROLLED))
    for name, times in told.items():
        if times > 1:
            yield f"{times} were told that they {name}"


def _nothing_after_it(actors: Sequence[Position], chain: Chain) -> Iterator[str]:
    """A process that was told that the log is closed is right, for ever: `Chains` finds an entry after the mark."""
    if not chain.is_closed and any(CLOSED in actor.told for actor in actors):
        yield "a process was told that the log is closed, and it is not"


SCENARIOS: dict[str, Scenario] = {
    one.name: one
    for one in (
        Scenario(
            "zombies",
            "two transactional producers under one transactional.id, one-shot transactions in two partitions",
            (Role("A", transactional(partitions=2)), Role("B", transactional(partitions=2))),
            faults=2,
            partitions=2,
        ),
        Scenario(
            "streamed-zombies",
            "the same, but each flushes inside of its transaction",
            (Role("A", transactional(flushes=True)), Role("B", transactional(flushes=True))),
            faults=1,
        ),
        Scenario(
            "idempotent",
            "two idempotent producers, two records each, one partition",
            (Role("A", idempotent), Role("B", idempotent)),
        ),
        Scenario(
            "repeated",
            "an idempotent producer that sends its batch twice, beside a plain one",
            (Role("A", repeating), Role("B", plain(repeats=False))),
            faults=2,
        ),
        Scenario(
            "expiry",
            "a streamed transaction, and somebody who expires it",
            (Role("A", transactional(flushes=True)), Role("E", expirer)),
            faults=2,
        ),
        Scenario(
            "visitors",
            "a streamed transaction, and two visitors who stay for a moment; by the clock of the store it is over",
            (Role("A", transactional(flushes=True)), Role("V", visitor), Role("W", visitor)),
            faults=1,
            ages=True,
        ),
        Scenario(
            "ends",
            "one open transaction, two who commit it and one who aborts it",
            (
                Role("A", ender(commit=True)),
                Role("B", ender(commit=True)),
                Role("C", ender(commit=False)),
            ),
            faults=3,
            before=_open_transaction,
            check=_one_end,
        ),
        Scenario(
            "prepared",
            "a prepared transaction, two processes that take it over and complete it, and one that expires what is old",
            (
                Role("A", completing(PREPARED), lives=2),
                Role("B", completing(PREPARED)),
                Role("E", expirer),
            ),
            faults=2,
            before=_prepared_transaction,
            check=_as_decided,
        ),
        Scenario(
            "two-logs",
            "a transaction that is prepared in two logs: its coordinator, and a helper that comes again",
            (Role("A", coordinator), Role("H", helper, lives=2)),
            faults=2,
            before=prepared_in_both,
            check=as_the_other_log_decided,
            ages=True,
        ),
        Scenario(
            "group",
            "two members of a group join, sync, and commit offsets of two partitions",
            (Role("A", member), Role("B", member)),
            partitions=2,
            faults=2,
        ),
        Scenario(
            "same-batch",
            "two runs of a query on one micro-batch, with one restart each",
            (Role("A", run((0, 0, 5), (1, 5, 9)), lives=2), Role("B", run((0, 0, 5)), lives=2)),
            before=_source,
            check=_batches_once,
            faults=2,
        ),
        Scenario(
            "other-batch",
            "two runs of a query that cut their micro-batches differently (an older checkpoint)",
            (Role("A", run((0, 0, 5), (1, 5, 9)), lives=2), Role("B", run((0, 0, 7)), lives=2)),
            before=_source,
            check=_batches_once,
            faults=2,
        ),
        Scenario(
            "floor",
            "a writer whose staged file is old when it commits, and who deletes such files",
            (Role("A", plain()), Role("C", cleaner), Role("B", plain(repeats=False))),
            deletes=True,
            faults=2,
        ),
        Scenario(
            "appenders",
            "three writers of plain rows, one partition; one of them never repeats a request",
            (Role("A", plain()), Role("B", plain(repeats=False)), Role("C", plain())),
            faults=2,
        ),
        Scenario(
            "undecided",
            "a one-shot commit in doubt, whose application then wants to abort, and who takes the id over",
            (Role("A", impatient(flushes=False, by_hand=False)), Role("B", heir)),
            faults=2,
            check=_nothing_changes,
        ),
        Scenario(
            "undecided-streamed",
            "the same, but it flushed before",
            (Role("A", impatient(flushes=True, by_hand=False)), Role("B", heir)),
            faults=2,
            check=_nothing_changes,
        ),
        Scenario(
            "both-ways",
            "a one-shot commit in doubt, whose application then asks the log for the opposite",
            (Role("A", impatient(flushes=False, by_hand=True)), Role("B", heir)),
            faults=2,
            check=_nothing_changes,
        ),
        Scenario(
            "both-ways-streamed",
            "the same, but it flushed before",
            (Role("A", impatient(flushes=True, by_hand=True)), Role("B", heir)),
            faults=2,
            check=_nothing_changes,
        ),
        Scenario(
            "recovery",
            "who does not know whether his commit is in starts over and finds out, beside a plain writer",
            (Role("A", recovering(flushes=False), lives=2), Role("B", plain(repeats=False))),
            faults=2,
        ),
        Scenario(
            "recovery-streamed",
            "the same, but it flushes before it commits",
            (Role("A", recovering(flushes=True), lives=2), Role("B", plain(repeats=False))),
            faults=1,
        ),
        Scenario(
            "copiers",
            "two members of a group that copy, each with a transactional id of its own",
            (Role("A", copier), Role("B", copier)),
            partitions=2,
            check=_offsets_with_values,
        ),
        Scenario(
            "threads",
            "two threads of one process that may share a slot, and another process",
            (Role("A", asking("a"), others=(asking("b"),)), Role("B", asking("c"))),
            faults=1,
        ),
        Scenario(
            "forked",
            "a process that forks at any step of its commit, and its child, which commits, too",
            (Role("A", asking("a"), others=(child("b"),)),),
        ),
        Scenario(
            "threads-at-odds",
            "two threads of one process and another process that want the same topic, whoever creates it",
            (Role("A", wanting("x", "0"), others=(wanting("x", "1"),)), Role("B", wanting("x", "0"))),
            faults=2,
        ),
        Scenario(
            "group-commit",
            "two processes that share entries, one of which writes twice; the other one never repeats a request",
            (Role("A", plain(times=2)), Role("B", plain(repeats=False))),
            meets=ExploredGroupChannel,
        ),
        Scenario(
            "group-commit-at-odds",
            "two processes that share entries; what one writes is a reason for the other not to write any more",
            (Role("A", asking("x", "y")), Role("B", asking_unless("b", "x"))),
            meets=ExploredGroupChannel,
        ),
        Scenario(
            "lagging",
            "two processes that share entries, and take the outcomes of their requests from reports",
            (Role("A", plain()), Role("B", plain())),
            meets=ReportingGroupChannel,
            before=_reported,
        ),
        Scenario(
            "retired",
            "a process that stores snapshots and retires entries, and one that slept before it wrote",
            (Role("A", keeping(2, rows=False)), Role("B", asking("b"))),
            interval=1,
        ),
        Scenario(
            "snapshots",
            "the same with rows, of which pieces of indexes are sealed",
            (Role("A", keeping(2)), Role("B", plain())),
            interval=1,
        ),
        Scenario(
            "newcomer",
            "a writer who stores snapshots and retires entries, and who opens the log meanwhile",
            (Role("A", keeping(2)), Role("R", newcomer)),
            faults=2,
            interval=1,
        ),
        Scenario(
            "rolling",
            "who writes small batches again, beside a writer and a reader who has planned before",
            (Role("A", roller), Role("B", plain()), Role("R", who_planned)),
            faults=2,
            interval=2,
            before=_rows,
        ),
        Scenario(
            "rollers",
            "two who want to write the same batches again, and a reader",
            (Role("A", roller), Role("B", roller), Role("R", who_planned)),
            faults=2,
            interval=2,
            before=_rows,
            check=_one_winner,
        ),
        Scenario(
            "vacuum",
            "who writes small batches again and deletes the old files, beside a writer whose file is old by then",
            (Role("A", maintainer("roll", "vacuum")), Role("B", plain())),
            deletes=True,
            interval=2,
            before=_garbage,
        ),
        Scenario(
            "closed",
            "who closes the log, as it moves, beside two writers, one of which never repeats a request",
            (Role("M", closer, lives=2), Role("A", plain()), Role("B", plain(repeats=False))),
            faults=2,
            check=_nothing_after_it,
        ),
        Scenario(
            "outrun",
            "a consumer whose files are rewritten, and deleted, while it reads",
            (Role("A", maintainer("roll", "vacuum")), Role("R", consumer)),
            deletes=True,
            interval=2,
            before=_garbage,
        ),
    )
}
"""By name."""
