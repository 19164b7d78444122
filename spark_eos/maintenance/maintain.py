"""Maintenance: one pass of everything that keeps a log quick and small, for all who use it.

Nothing needs it to be correct. Each step may be stopped anywhere, and be done by several processes at once,
beside readers and writers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from spark_eos.errors import EosLogError, NotALogError
from spark_eos.errors.counting import counted
from spark_eos.extending import needed
from spark_eos.log.deciding.outcome import followers
from spark_eos.log.log import Log
from spark_eos.log.time_travel import iso
from spark_eos.log.timekeeping import MEND, is_ahead
from spark_eos.maintenance.compaction import Compactor
from spark_eos.maintenance.name_deletion import RetiredNames
from spark_eos.maintenance.retention import Retention
from spark_eos.maintenance.rolling import TAIL_ROWS, Roller
from spark_eos.maintenance.steps import MIN_AGE_S, STEPS, check_steps
from spark_eos.maintenance.vacuum import HeartbeatName, Tell, Vacuum, silent

NOTHING = "nothing to do"

_RETIRED_AT_ONCE = 256
_NAMED = 5
"""Partitions that a line of the report names."""

Step = Callable[..., str]
"""``step(log, *, dry_run: bool, tell: Tell)``: does its work, and says in a line what it did."""


@dataclass(frozen=True)
class StepResult:
    """A step of a pass, and what it did or would do; ``error`` is what ended it."""

    step: str
    text: str
    error: EosLogError | None = None


class Maintainer:
    """Maintains one log. Keep one for all passes: it remembers what it waits for.

    ``only`` are the steps to do. ``min_age_s`` is how long a writer has from its start to its commit before it
    may be refused, ``tail_rows`` how many of the newest batches there must be to roll them, ``trust_clock`` lets
    retention and expiry believe this machine's clock whatever it says, and ``heartbeat_name`` comes from who knows the
    clients (see `spark_eos.maintenance.vacuum.Vacuum`). ``delete_names_s`` is after how long the names of retired
    entries are deleted (see `spark_eos.maintenance.name_deletion`); None: never.
    """

    def __init__(
        self,
        log: Log,
        *,
        only: Iterable[str] = STEPS,
        dry_run: bool = False,
        min_age_s: float = MIN_AGE_S,
        trust_clock: bool = False,
        heartbeat_name: HeartbeatName | None = None,
        tail_rows: int = TAIL_ROWS,
        delete_names_s: float | None = None,
        tell: Tell = silent,
        more: Mapping[str, Step] | None = None,
    ) -> None:
        """``more`` stands in for the steps that write segments again."""
        self._log = log
        self._only = check_steps(only)
        self._dry_run = dry_run
        self._tell = tell
        self._trust_clock = trust_clock
        self._retention = Retention(log, trust_clock=trust_clock)
        self._vacuum = Vacuum(log, min_age_s=min_age_s, heartbeat_name=heartbeat_name, tell=tell)
        self._names = None
        if delete_names_s is not None:
            self._names = RetiredNames(log, after_s=delete_names_s, tell=tell)
        self._publisher: Step | None = None
        rewriters = {
            "roll": _rewriter(Roller(log, tail_rows=tail_rows)),
            "compact": _rewriter(Compactor(log)),
        }
        steps: dict[str, Step] = {
            "snapshot": self._snapshot,
            "retire": self._retire,
            "names": self._delete_names,
            "retention": self._retain,
            "publish": self._publish,
            "vacuum": self._delete,
            "expire": self._expire,
        }
        self._steps = {**rewriters, **(more or {}), **steps}
        self._wait = True

    def run(self, *, wait: bool = True) -> Iterator[StepResult]:
        """One pass, step by step: each is done when the next one is asked for.

        ``wait`` stays until the delays of the files to be deleted are over; without it a later pass deletes
        them. An error ends its step, not the pass. Raises `NotALogError` if the log is not there any more.
        """
        self._wait = wait
        if not self._log.is_same():
            raise NotALogError(
                f"{self._log.url} does not hold log {self._log.log_id} any more: it was removed or replaced"
            )
        for name in self._only:
            try:
                self._log.follow()
                text = self._steps[name](self._log, dry_run=self._dry_run, tell=self._tell)
            except EosLogError as error:
                yield StepResult(name, f"failed: {error}", error)
            else:
                yield StepResult(name, text)

    def _snapshot(self, log: Log, *, dry_run: bool, tell: Tell) -> str:
        tell("storing a snapshot")
        after = log.maintenance.look(log.state)[0] if dry_run else log.maintenance.snapshot()
        return NOTHING if after is None else f"{_did(dry_run, 'store')} the state after entry {after}"

    def _retire(self, log: Log, *, dry_run: bool, tell: Tell) -> str:
        count = log.maintenance.look(log.state)[1] if dry_run else 0
        while not dry_run and (some := log.maintenance.retire(log.state, _RETIRED_AT_ONCE)):
            count += some
            tell(f"{count} entries retired")
        return f"{_did(dry_run, 'retire')} {counted(count, 'entry', 'entries')}" if count else NOTHING

    def _delete_names(self, _log: Log, *, dry_run: bool, tell: Tell) -> str:
        if self._names is None:
            return "kept"
        count = self._names.look() if dry_run else self._names.run()
        return f"{_did(dry_run, 'delete')} {counted(count, 'name')}" if count else NOTHING

    def _retain(self, _log: Log, *, dry_run: bool, tell: Tell) -> str:
        tell("looking for records past their time or size")
        due = self._retention.look() if dry_run else self._retention.run()
        descriptions = [f"{move.at} from {move.start} to {move.offset}" for move in due[:_NAMED]]
        if len(due) > _NAMED:
            descriptions.append(f"and {len(due) - _NAMED} more")
        text = f"{_did(dry_run, 'move')} log starts: {', '.join(descriptions)}" if due else NOTHING
        held = self._retention.held_back_ms
        return f"{text} (clock held back by {held / 3_600_000:.1f} h: see --trust-clock)" if held else text

    def _publish(self, log: Log, *, dry_run: bool, tell: Tell) -> str:
        if not log.state.publications:
            return NOTHING
        if self._publisher is None:
            # Tables need libraries that a log does not.
            self._publisher = needed("maintenance", "publish", f"{log.url}: the step publish")(log)
        return self._publisher(log, dry_run=dry_run, tell=tell)

    def _delete(self, _log: Log, *, dry_run: bool, tell: Tell) -> str:
        objects: dict[str, int] = {}
        if dry_run:
            left = self._vacuum.look()
            for leftover in left:
                objects[leftover.kind] = objects.get(leftover.kind, 0) + 1
            size, waiting, promised = sum(leftover.size for leftover in left), 0, self._vacuum.promised
        else:
            vacuumed = self._vacuum.run(wait=self._wait)
            objects, size, waiting, promised = (
                vacuumed.objects,
                vacuumed.size,
                vacuumed.waiting,
                vacuumed.promised,
            )
        kinds = ", ".join(counted(number, *_KINDS[kind]) for kind, number in sorted(objects.items()))
        texts = [f"{_did(dry_run, 'delete')} {kinds} ({size_text(size)})"] if objects else []
        if waiting:
            texts.append(f"{counted(waiting, 'object')} until readers have finished")
        if promised:
            texts.append(f"{counted(promised, 'file')} for readers of earlier versions of a table")
        return "; ".join(texts) or NOTHING

    def _expire(self, log: Log, *, dry_run: bool, tell: Tell) -> str:
        tell("looking for what is past its time")
        trust = self._trust_clock
        followed = 0 if dry_run else _follow_others(log, tell)
        ended = (
            [*log.overdue(), *log.due(trust_clock=trust)]
            if dry_run
            else log.expire_overdue(everything=True, trust_clock=trust)
        )
        summary = (
            f"{_did(dry_run, 'end')} {counted(len(ended), 'thing')} past their time" if ended else NOTHING
        )
        if followed:
            text = f"ended {counted(followed, 'transaction')} as another log decided"
            summary = f"{summary}; {text}" if ended else text
        store_ms = log.time.store_ms()
        if store_ms is not None and is_ahead(log.state, store_ms):
            return f"{summary} (the log's time is ahead, {iso(log.state.timestamp_ms)}: {MEND})"
        return summary


def _follow_others(log: Log, tell: Tell) -> int:
    """End what other logs have decided; how many transactions that were."""
    open_before = [producer.producer_id for producer, _ in followers(log.state)]
    if not open_before:
        return 0
    for why in log.resolve_followers().values():
        tell(f"a transaction waits: {why}")
    return sum(producer_id not in log.state.open_transactions for producer_id in open_before)


_KINDS = {
    "data": ("data file", "data files"),
    "index": ("index page", "index pages"),
    "heartbeat": ("heartbeat", "heartbeats"),
    "probe": ("probe", "probes"),
    "temporary": ("temporary file", "temporary files"),
}

_PAST = {
    "store": "stored",
    "retire": "retired",
    "move": "moved",
    "delete": "deleted",
    "end": "ended",
}


def _rewriter(rewriter: Roller | Compactor) -> Step:
    def step(_log: Log, *, dry_run: bool, tell: Tell) -> str:
        if dry_run:
            places = [str(at) for at in rewriter.look()]
            return f"would rewrite parts of {', '.join(places)}" if places else NOTHING
        count = 0
        while (share := rewriter.step()) is not None:
            count += 1
            tell(f"{share.topic}-{share.partition} rewritten up to offset {share.next_offset}")
        return f"rewrote {counted(count, 'stretch', 'stretches')}" if count else NOTHING

    return step


def _did(dry_run: bool, verb: str) -> str:
    return f"would {verb}" if dry_run else _PAST[verb]


def size_text(size: float) -> str:
    """Bytes for people: ``3.4 MB``."""
    if f"{size:.0f}" == "1":
        return "1 byte"
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
