"""All troubles that a log's state tells, with the limits that are set for the log. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from spark_eos.log.timekeeping import is_ahead
from spark_eos.monitoring.activity import open_transactions
from spark_eos.monitoring.lag import Lag, limit_ms
from spark_eos.monitoring.members import SilentMember
from spark_eos.monitoring.troubles import readers
from spark_eos.monitoring.troubles.fenced import of_fencings
from spark_eos.monitoring.troubles.rebalances import of_rebalances
from spark_eos.monitoring.troubles.retention import of_retention
from spark_eos.monitoring.troubles.transactions import of_transactions
from spark_eos.monitoring.troubles.trouble import LOG, Command, Trouble, age, at_most, worst_first
from spark_eos.protocol.actions.publishing.publications import PUBLICATION_CREATED
from spark_eos.protocol.rules.notes import BACKUP, VERIFY, is_damaged, noted_ms
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import PartitionKey, State

CLOCK_MS = 60_000
"""Clocks that differ by more are not of one time."""


UNSEALED = 1000
"""So many entries after the newest snapshot are too many: opening the log reads them."""


UNFINISHED_MS = 1_800_000
"""A version of tables that was begun so long ago is not under way any more."""


_WHY = "see whether the job that does it runs, how it ended, and whether it has --note"
_DUTIES: tuple[tuple[str, str, tuple[Command, ...], str], ...] = (
    (BACKUP, "health.backup.age.max.ms", (), f"eoslog backup --note, to where its backups are; {_WHY}"),
    (VERIFY, "health.verify.age.max.ms", (("verify", LOG, "--note"),), _WHY),
)
"""Jobs that leave notes: each with the setting of how long ago it may be, and what to do."""


class LogView(NamedTuple):
    """What one look at a log has found, all of one moment."""

    state: State
    now_ms: int
    """The log, and the time: by this machine's clock, or by the store's where that contradicts it."""
    lags: Sequence[Lag]
    """How far its readers are behind."""
    small: Mapping[PartitionKey, int]
    """Batches that rolling would save, by partition."""
    silent: Sequence[SilentMember] = ()
    """Members of groups without a sign of life."""
    machine_ms: int | None = None
    """The time by this machine's clock; None if that is the time."""
    store_ms: int | None = None
    """The time by the store's clock; None if it was not asked, or cannot tell."""


def _of_fast_clock(lead_ms: int) -> Trouble:
    return Trouble(
        "warning",
        "clock",
        f"this machine's clock is wrong: it is {age(lead_ms)} ahead of the store's, by which the ages below are",
        "runbooks/clock-trouble.md",
        (("clock", LOG),),
        (),
        "set this machine's clock, and change nothing from here before that: other commands take its time for true",
    )


def troubles_of(view: LogView) -> list[Trouble]:
    """What is wrong, the worst first. A log that is used as it should be has none."""
    state, now_ms, lags = view.state, view.now_ms, view.lags
    transactions = of_transactions(
        open_transactions(state, now_ms), lags, setting(state, "health.transaction.max.ms")
    )
    totals: Command = ("lag", LOG, "--totals")
    return worst_first(
        [
            *_clock(view),
            *at_most(transactions, "transactions", ("transactions", "list", LOG)),
            *at_most(readers.lost(state, lags), "readers", totals),
            *at_most(readers.deleted(state, now_ms), "queries", ("audit", LOG)),
            *at_most(readers.silent(state, view.silent), "groups", ("groups", "list", LOG)),
            *at_most(of_rebalances(state, now_ms), "groups", ("audit", LOG)),
            *at_most(readers.behind(state, lags, now_ms, view.silent), "readers", totals),
            *at_most(readers.unknown(lags), "readers", totals),
            *at_most(readers.silent_queries(state, now_ms), "queries", ("history", LOG)),
            *_of_notes(view),
            *_publications(view),
            *_small(view),
            *of_retention(state, now_ms),
            *at_most(of_fencings(state, now_ms), "transactional.ids", ("audit", LOG)),
        ]
    )


def _of_notes(view: LogView) -> Iterator[Trouble]:
    """What the notes of verifications and backups say."""
    state, now_ms = view.state, view.now_ms
    if is_damaged(state):
        found_ms = now_ms - (noted_ms(state, VERIFY) or 0)
        yield Trouble(
            "critical",
            "damage",
            f"eoslog verify has found damage {age(found_ms)} ago, and no later one has found the log sound",
            "runbooks/damaged-file.md",
            (("verify", LOG),),
            (),
            "put the files that it names back from a backup or a copy, then: eoslog verify --note",
        )
    # Whether a log without notes is backed up by other means is not known: it is none of its troubles.
    for job, limit, cure, advice in _DUTIES:
        name, last_ms = job.removeprefix("eoslog "), noted_ms(state, job)
        if last_ms is None and limit in state.config:
            text = f"{limit} is set, and no {job} --note has ended yet"
        elif last_ms is not None and now_ms - last_ms > setting(state, limit):
            text = f"the last {job} --note has ended {age(now_ms - last_ms)} ago"
        else:
            continue
        page = f"runbooks/{name}-old.md"
        yield Trouble("warning", f"no {name}", text, page, (("configs", LOG),), cure, advice)


def _publications(view: LogView) -> Iterator[Trouble]:
    for name in sorted(view.state.publications):
        publication = view.state.publications[name]
        publish: Command = ("tables", "publish", LOG, "--name", name)
        look: Command = ("tables", "versions", LOG, "--name", name)
        behind_ms = max(
            (lag.time_ms or 0 for lag in view.lags if (lag.kind, lag.name) == ("publication", name)),
            default=0,
        )
        # Records may have times of long ago. A transaction that keeps some out of it is a trouble of its own.
        if publication.published is not None:
            since_ms = view.now_ms - publication.published.timestamp_ms
            newest = f"the newest version is of {age(since_ms)} ago"
        else:
            since_ms = view.now_ms - _created_ms(view.state, name)
            newest = "none was published yet"
        behind_ms = min(behind_ms, since_ms)
        begun = publication.begun
        if begun is not None and view.now_ms - begun.timestamp_ms > UNFINISHED_MS:
            text = f"version {begun.sequence:,} of publication {name!r} was begun, and is not in all tables"
            page = "runbooks/publication-unfinished.md"
            yield Trouble("warning", "publication unfinished", text, page, (look,), (publish,), about=name)
        if behind_ms > limit_ms(view.state, "publication", name):
            text = f"the tables of publication {name!r} are {age(behind_ms)} behind: {newest}"
            page = "runbooks/publication-behind.md"
            yield Trouble("warning", "publication behind", text, page, (look,), (publish,), about=name)


def _created_ms(state: State, publication: str) -> int:
    """When it was created, as long as the trail has that; 0 for one of long ago."""
    events = [
        event for event in state.trail if (event.what, event.name) == (PUBLICATION_CREATED, publication)
    ]
    return events[-1].timestamp_ms if events else 0


def _clock(view: LogView) -> Iterator[Trouble]:
    """Which of the three clocks is wrong, as far as the store's is known."""
    state, store_ms = view.state, view.store_ms
    now_ms = view.now_ms if view.machine_ms is None else view.machine_ms
    if now_ms > view.now_ms:
        yield _of_fast_clock(now_ms - view.now_ms)
    if not is_ahead(state, now_ms):
        return
    text = f"the log's time is {age(state.timestamp_ms - now_ms)} ahead of this machine's clock"
    cure: tuple[Command, ...] = ()
    if store_ms is None:
        text += "; which of them is wrong is not known, since the store does not tell its time"
        advice = "compare the clocks; then set this machine's, or mend the log's time"
    else:
        is_slow, is_driven = store_ms - now_ms > CLOCK_MS, is_ahead(state, store_ms)
        if is_slow:
            text += f". This machine's clock is wrong: the store's is {age(store_ms - now_ms)} ahead of it"
            advice = "set this machine's clock"
        else:
            advice = "find the writer whose clock was wrong"
        if is_driven:
            text += ". The log's time is wrong: it is ahead of the store's clock, too"
        if is_driven and not is_slow:  # A machine with a wrong clock does not mend it.
            cure = (("clock", LOG, "--mend"),)
    yield Trouble("warning", "clock", text, "runbooks/clock-trouble.md", (("clock", LOG),), cure, advice)


def _small(view: LogView) -> Iterator[Trouble]:
    most = setting(view.state, "health.small.batches.max")
    for name in sorted(view.state.topics):
        topic = view.state.topics[name]
        count = sum(view.small.get((topic.topic_id, number), 0) for number in range(topic.partitions))
        if count > most:
            yield Trouble(
                "warning",
                "small batches",
                f"topic {name!r} has {count:,} small batches that could be joined",
                "runbooks/small-batches.md",
                (("maintain", LOG, "--only", "roll", "--dry-run"),),
                (("maintain", LOG, "--only", "roll"),),
                about=name,
            )


def of_snapshots(state: State, newest: int) -> Iterator[Trouble]:
    """``newest``: the entry of the newest snapshot, 0 if there is none."""
    unsealed = state.seq - newest
    if unsealed > UNSEALED:
        yield Trouble(
            "warning",
            "no snapshot",
            f"{unsealed:,} entries came after the newest snapshot: opening the log reads all of them",
            "runbooks/snapshots-missing.md",
            (("maintain", LOG, "--only", "snapshot,retire", "--dry-run"),),
            (("maintain", LOG, "--only", "snapshot,retire"),),
        )
