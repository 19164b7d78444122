"""A second book of the log, kept from the entries' requests alone, in the plainest way that can be thought of.

It shares no code with the rules: who may write, what is open, how each transaction was decided and where
groups stand are written down again here, action by action, for accepted requests only. Whatever should have
been refused, or came to something else than the state says, is a problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from spark_eos.maintenance.rewrite import is_rewritten
from spark_eos.protocol import actions as a
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import State
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp
from verification.simulator.context import RAW
from verification.simulator.decision_model import DecisionModel
from verification.simulator.producer_model import Position, ProducerModel, Rows
from verification.simulator.publication_model import PublicationModel

__all__ = ["ReferenceModel"]


class ReferenceModel(DecisionModel, PublicationModel):
    """What the accepted requests so far have come to.

    ``batches`` are the micro-batches by transactional id, query and number; ``runs`` when each query run was
    registered, in the world's time; ``farthest`` the highest offset that a group ever committed for a partition.
    Commits of offsets take turns: ``turns`` has the last one that stands, or stood, for a group and partition.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self.accounts: dict[int, ProducerModel] = {}
        self.named: dict[str, int] = {}
        self.offsets: dict[str, dict[Position, int]] = {}
        self.turns: dict[tuple[str, Position], int] = {}
        self.farthest: dict[tuple[str, Position], int] = {}
        self.batches: dict[tuple[str, str, int], a.CommitMicroBatch] = {}
        self.runs: dict[str, float] = {}
        self.events: Counter[str] = Counter()
        self.visible: list[Rows] = []
        """Rows that the current request made visible."""
        self._last: dict[str, a.CommitMicroBatch] = {}
        self._ids: set[int] = set()
        self._tokens: set[tuple[int, int]] = set()
        self._versions: dict[tuple[str, str | None], int] = {}
        self._files: set[tuple[str, int, int]] = set()
        self._say = say
        self._turn = 0
        self._now = 0.0
        self._now_ms = 0

    def enter(
        self, before: State, request: a.Request, results: tuple[Any, ...], after: State, now: float
    ) -> None:
        """Write an accepted request down. ``now`` is the world's time at which its entry was made, in s."""
        self.visible = []
        self._now, self._now_ms = now, after.timestamp_ms
        for number, (action, result) in enumerate(zip(request.actions, results, strict=True)):
            write = getattr(self, f"_{type(action).__name__}", None)
            if write is None and type(action) not in _NOT_MODELLED:
                raise NotImplementedError(
                    f"the reference model does not know {type(action).__name__}: it needs a method for it, or a place "
                    "for it in _NOT_MODELLED"
                )
            if write is not None:
                # Members change rarely in the request that commits for them; then ``before`` says nothing.
                alone = not any(isinstance(one, _OF_GROUPS) for one in request.actions[:number])
                write(action, result, before if alone else None, after)
        kinds = {type(action) for action in request.actions}
        if a.InitProducer in kinds and a.CommitMicroBatch not in kinds:
            # A query run that registers without a batch has found its batch in the log.
            self.events["replays"] += any(getattr(one, "run_id", None) for one in request.actions)
        self.events["generations"] += sum(
            group.generation - before.groups[name].generation if name in before.groups else group.generation
            for name, group in after.groups.items()
            if group is not before.groups.get(name)
        )
        self._compare(before, after)

    # -- Batch jobs -----------------------------------------------------------------------------------

    def _SetAppVersion(self, action: a.SetAppVersion, *_: object) -> None:  # noqa: N802
        last = self._versions.get((action.app_id, action.topic_id), -1)
        self._must(
            action.version > last, f"job {action.app_id} wrote version {action.version} after version {last}"
        )
        self._versions[action.app_id, action.topic_id] = action.version

    # -- Producers ------------------------------------------------------------------------------------

    def _InitProducer(self, action: a.InitProducer, *_: object) -> None:  # noqa: N802  (named as its action)
        name = action.transactional_id
        known = None if name is None else self.named.get(name)
        if known is None:
            self._must(action.producer_id not in self._ids, f"producer id {action.producer_id} is not new")
            self._must(action.epoch == 0, f"producer {action.producer_id} begins at epoch {action.epoch}")
            self._ids.add(action.producer_id)
            account = ProducerModel(action.epoch, name, action.timeout_ms)
            self.accounts[action.producer_id] = account
            if name is not None:
                self.named[name] = action.producer_id
        else:
            account = self.accounts[known]
            self._must(known == action.producer_id, f"{name} has id {known}, not {action.producer_id}")
            self._must(action.epoch == account.epoch + 1, f"epoch {action.epoch} after {account.epoch}")
            self._must(action.run_id is None or action.run_id not in account.runs, "a query run came back")
            self.events["takeovers"] += 1
            if account.prepared is not None and action.keep_prepared:
                self.events["prepared transactions kept"] += 1
            elif account.is_open:
                self._must(
                    account.decider is None, f"{name} is taken over, and another log decides what it has open"
                )
                self.events["aborts by a successor"] += 1
                self._decide(account, commit=False)
            account.epoch, account.timeout_ms = action.epoch, action.timeout_ms
        account.last_ms = self._now_ms
        if action.run_id is not None or account.runs:
            account.runs.append(action.run_id or "")
            self.runs.setdefault(action.run_id or "", self._now)

    def _ongoing(self, stamp: ProducerStamp, what: str) -> ProducerModel | None:
        """The account in whose open transaction something happens; it may begin here."""
        account = self._fenced(stamp, what)
        if account is None:
            return None
        if account.is_open:
            self._must(account.prepared is None or what == "an end", f"{what} of a prepared transaction")
            self._must(
                stamp.number == account.number,
                f"{what} of transaction {stamp.number} while {account.number} is open",
            )
        else:
            self._must(
                stamp.number == account.number + 1, f"transaction {stamp.number} after {account.number}"
            )
            account.number, account.is_open, account.opened_at = stamp.number, True, self._now
        return account

    def _fenced(self, stamp: ProducerStamp, what: str) -> ProducerModel | None:
        account = self.accounts.get(stamp.producer_id)
        self._must(account is not None, f"{what} of producer {stamp.producer_id}, which nobody knows")
        if account is not None:
            self._must(
                stamp.epoch == account.epoch,
                f"{what} of producer {stamp.producer_id} at epoch {stamp.epoch}: it is at {account.epoch}",
            )
        return account

    def _AppendBatches(self, action: a.AppendBatches, results: Any, _before: object, after: State) -> None:  # noqa: N802
        stamp, ids = action.producer, dict(action.topics)
        account = None
        if stamp != NO_PRODUCER:
            transactional = stamp.number != NO_PRODUCER.number
            account = (self._ongoing if transactional else self._fenced)(stamp, "an append")
        wanted = [(staged, batch) for staged in action.files for batch in staged.batches]
        self._must(len(wanted) == len(results), "an append was answered for other batches")
        for (staged, batch), landed in zip(wanted, results, strict=False):
            where: Rows = (ids[staged.topic], batch.partition, landed.base_offset)
            self._must(ids[staged.topic] in staged.file.name, f"{staged.file.name} is of another topic")
            partition = after.partitions.get(where[:2])
            if partition is None or where[2] < partition.start:
                continue  # Gone since, or before.
            row = partition.index.find(where[2])
            assert row is not None
            if landed.duplicate and row.file is not None and is_rewritten(row.file):
                self.events["repeated batches"] += 1
                continue  # It was rolled since.
            # Who keeps no rules may call other rows a repetition.
            theirs = row.file if staged.topic == RAW else staged.file
            self._must(
                (row.base_offset, row.count, row.producer, row.file)
                == (where[2], batch.count, stamp, theirs),
                f"{staged.file.name} was said to be at {where}, and {row} is there",
            )
            if landed.duplicate:
                self.events["repeated batches"] += 1
                continue
            rows = (staged.file.name, batch.partition, batch.position)
            # Who keeps no rules may well write the same rows again, as others.
            self._must(staged.topic == RAW or rows not in self._files, f"{rows} is in the log twice")
            self._files.add(rows)
            if account is not None:
                account.last_ms = self._now_ms  # What is only repeated does not keep an id in use.
            if account is not None and stamp.number != NO_PRODUCER.number:
                account.rows.append(where)
            else:
                self.visible.append(where)

    def _EndTransaction(self, action: a.EndTransaction, *_: object) -> None:  # noqa: N802
        stamp = action.producer
        known = self._fenced(stamp, "an end")
        if known is not None and stamp.number in known.decided:
            self._must(
                known.decided[stamp.number] is action.commit,
                f"transaction {stamp.number} of producer {stamp.producer_id} was decided the other way",
            )
            self.events["repeated ends"] += 1
        elif (account := self._ongoing(stamp, "an end")) is not None:
            self._must(account.decider is None, f"{stamp} was ended, and follows another log")
            self.events["commits" if action.commit else "aborts"] += 1
            self._decide(account, commit=action.commit)

    def _PrepareTransaction(  # noqa: N802
        self, action: a.PrepareTransaction, result: ProducerStamp, *_: object
    ) -> None:
        stamp = action.producer
        account = self._ongoing(stamp, "a prepare")
        if account is None:
            return
        token = (stamp.producer_id, result.epoch)
        self._must(token not in self._tokens, f"{token} is the token of two transactions")
        self._must(result.epoch == stamp.epoch + 1, f"{stamp} was prepared at epoch {result.epoch}")
        self._must(
            account.decides is None or account.decided_for is not None, f"{stamp} decides, and is prepared"
        )
        self._tokens.add(token)
        account.prepared_at, account.decider = result.epoch, action.decider
        account.epoch, account.prepared, account.last_ms = result.epoch, result.epoch, self._now_ms
        self.events["prepared transactions"] += 1

    def _ExpireTransaction(self, action: a.ExpireTransaction, *_: object) -> None:  # noqa: N802
        stamp = action.producer
        account = self._fenced(stamp, "a timeout")
        if account is None:
            return
        self._must(
            account.is_open and account.prepared is None and account.number == stamp.number,
            f"{stamp} timed out and was not the open one",
        )
        self._must(action.waited_ms >= account.timeout_ms, f"{stamp} timed out after {action.waited_ms} ms")
        waited_s = self._now - account.opened_at
        self._must(
            waited_s * 1000 >= account.timeout_ms - 1, f"{stamp} timed out though open for {waited_s} s"
        )
        self.events["aborts by timeout"] += 1
        self._decide(account, commit=False)
        account.epoch += 1

    def _decide(self, account: ProducerModel, *, commit: bool) -> None:
        account.decided[account.number] = commit
        if account.prepared is not None:
            self.events["prepared commits" if commit else "prepared aborts"] += 1
        account.prepared = account.decider = None
        if account.decides is not None and account.decided_for is None:
            account.decided_for = commit
        account.is_open, account.last_ms = False, self._now_ms
        if commit:
            self.visible += account.rows
            for (group, at), (turn, offset) in account.pending.items():
                if turn < self.turns.get((group, at), 0):
                    self.events["late offsets"] += 1
                else:
                    self._put(group, at, offset, turn)
        elif account.pending:
            self.events["aborted offsets"] += 1
        account.rows, account.pending = [], {}

    def _ExpireProducers(self, action: a.ExpireProducers, _r: object, _b: object, after: State) -> None:  # noqa: N802
        for producer_id in action.producers:
            account = self.accounts.get(producer_id)
            if account is None:
                continue
            self._idle(producer_id, account, setting(after, "producer.id.expiration.ms"))
            self.events["expired producers"] += 1
            if account.transactional_id is None:
                del self.accounts[producer_id]

    def _ExpireTransactionalIds(  # noqa: N802
        self, action: a.ExpireTransactionalIds, _r: object, _b: object, after: State
    ) -> None:
        for name in action.transactional_ids:
            if (producer_id := self.named.pop(name, None)) is not None:
                account = self.accounts.pop(producer_id)
                self._idle(producer_id, account, setting(after, "transactional.id.expiration.ms"))
                self._must(name not in self._last, f"query {name} expired")
                self._must(
                    not account.awaited, f"{name} expired, and {account.awaited} wait for what it decided"
                )
                self.events["expired transactional ids"] += 1

    def _idle(self, producer_id: int, account: ProducerModel, least_ms: int) -> None:
        self._must(not account.is_open, f"producer {producer_id} expired with an open transaction")
        idle_ms = self._now_ms - account.last_ms
        self._must(idle_ms >= least_ms, f"producer {producer_id} expired after {idle_ms} ms")

    # -- Groups ---------------------------------------------------------------------------------------

    def _CommitOffsets(self, action: a.CommitOffsets, _r: object, before: State | None, _a: object) -> None:  # noqa: N802
        if before is not None:
            self._may_commit(before, action)
        account = None
        if action.producer is not None:
            account = self._ongoing(action.producer, "offsets")
        self._turn += 1
        for wanted in action.offsets:
            at = (wanted.topic, wanted.partition)
            if action.producer is None:
                self._put(action.group, at, wanted.offset, self._turn)
            elif account is not None:
                account.pending[action.group, at] = self._turn, wanted.offset
        self.events["offset commits"] += action.producer is None

    def _may_commit(self, before: State, action: a.CommitOffsets) -> None:
        group = before.groups.get(action.group)
        members = {} if group is None else dict(group.members)
        if action.member is None:
            self._must(not members, f"a stranger commits for group {action.group}, which has members")
            return
        own = members.pop(action.member.member_id, None)
        self._must(own is not None, f"{action.member.member_id} commits and is no member")
        if own is None:
            return
        self._must(
            own.generation == action.member.generation,
            f"{own.member_id} commits for generation {action.member.generation}, and is in {own.generation}",
        )
        wanted = {(one.topic_id, one.partition) for one in action.offsets}
        for other in members.values():
            both = wanted & set(other.held)
            self._must(not both, f"{own.member_id} commits for {both}, which {other.member_id} holds")

    def _put(self, group: str, at: Position, offset: int, turn: int) -> None:
        self.offsets.setdefault(group, {})[at] = offset
        self.turns[group, at] = turn
        self.farthest[group, at] = max(offset, self.farthest.get((group, at), 0))

    def _DeleteOffsets(self, action: a.DeleteOffsets, *_: object) -> None:  # noqa: N802
        self._forget(action.group, action.partitions or None)
        for account in self.accounts.values():
            for group, at in tuple(account.pending):
                if group == action.group and (at in action.partitions or not action.partitions):
                    del account.pending[group, at]
        self.events["deleted offsets"] += 1

    def _ExpireOffsets(self, action: a.ExpireOffsets, *_: object) -> None:  # noqa: N802
        self._forget(action.group, action.partitions)
        self.events["expired offsets"] += bool(action.partitions)

    def _forget(self, group: str, places: tuple[Position, ...] | None) -> None:
        offsets = self.offsets.get(group, {})
        for at in tuple(offsets) if places is None else places:
            offsets.pop(at, None)

    def _JoinGroup(self, *_: object) -> None:  # noqa: N802
        self.events["joins"] += 1

    def _LeaveGroup(  # noqa: N802
        self, action: a.LeaveGroup, gone: Any, before: State | None, _a: object
    ) -> None:
        if before is None or not gone:
            return
        self.events["evictions" if action.silent_ms >= 0 else "leaves"] += 1
        for member_id in gone:
            timeout_ms = before.groups[action.group].members[member_id].session_timeout_ms
            self._must(
                not 0 <= action.silent_ms < timeout_ms,
                f"{member_id} was put out after {action.silent_ms} ms of {timeout_ms}",
            )

    def _SyncGroup(  # noqa: N802
        self, action: a.SyncGroup, _r: object, before: State | None, _a: object
    ) -> None:
        self.events["syncs"] += 1
        if before is not None:
            newest = before.groups[action.group].generation
            self._must(action.generation == newest, f"a sync to {action.generation}: it is {newest}")

    # -- Topics and queries ---------------------------------------------------------------------------

    def _DeleteTopic(self, action: a.DeleteTopic, *_: object) -> None:  # noqa: N802
        self.events["deleted topics"] += 1
        for offsets in self.offsets.values():
            for at in [at for at in offsets if at[0] == action.name]:
                del offsets[at]
        for account in self.accounts.values():
            for key in [key for key in account.pending if key[1][0] == action.name]:
                del account.pending[key]
        for key in [key for key in self.farthest if key[1][0] == action.name]:
            del self.farthest[key]

    def _AdvanceLogStart(self, *_: object) -> None:  # noqa: N802
        self.events["deleted records"] += 1

    def _CommitMicroBatch(  # noqa: N802
        self, action: a.CommitMicroBatch, _r: object, before: State | None, after: State
    ) -> None:
        name, what = action.transactional_id, f"batch {action.batch_id} of {action.transactional_id}"
        account = self.accounts.get(self.named.get(name, -1))
        current = bool(account is not None and account.runs and account.runs[-1] == action.run_id)
        self._must(current, f"{what} is of run {action.run_id}, which is not the current one")
        last = self._last.get(name)
        if last is not None:
            again = last.query_id == action.query_id and action.batch_id <= last.batch_id
            self._must(not again, f"{what} comes after batch {last.batch_id}")
            for source, ended in zip(action.sources, last.sources, strict=True):
                begun = {(at.topic_id, at.partition): at.offset for at in source.start_offsets}
                for at in ended.end_offsets:
                    self._must(
                        begun.get((at.topic_id, at.partition)) == at.offset,
                        f"{what} begins at {begun}, and the last one ended at {at}",
                    )
        for source in action.sources:
            group = source.group or ""
            if before is not None and group in before.groups:
                self._must(not before.groups[group].members, f"{what} commits for a group with members")
            starts = {(at.topic, at.partition): at.offset for at in source.start_offsets}
            for place, offset in self.offsets.get(group, {}).items():
                if place[0] in {one.topic for one in source.end_offsets}:
                    self._must(
                        starts.get(place) == offset,
                        f"{what} begins at {starts.get(place)} of {place}, and its group stands at {offset}",
                    )
            self._turn += 1
            for end in source.end_offsets:
                if end.topic in after.topics:
                    self._put(group, (end.topic, end.partition), end.offset, self._turn)
        self._last[name] = self.batches[name, action.query_id, action.batch_id] = action
        self.events["micro-batches"] += 1

    # -- Both books -----------------------------------------------------------------------------------

    def _compare(self, before: State, after: State) -> None:
        """The state says what this book says."""
        opened = {producer_id for producer_id, account in self.accounts.items() if account.is_open}
        self._must(
            opened == set(after.open_transactions), f"{opened} are open, not {after.open_transactions}"
        )
        self._must(set(self.accounts) == set(after.producers), "other producers are known")
        for producer_id, account in self.accounts.items():
            known = after.producers.get(producer_id)
            if known is not None and known is not before.producers.get(producer_id):
                self._must(
                    (known.epoch, known.number) == (account.epoch, account.number),
                    f"producer {producer_id} is {known.stamp}, not {(account.epoch, account.number)}",
                )
                self._must(
                    len(known.pending) == len(account.pending), f"other offsets wait for {known.stamp}"
                )
                self._must(known.follows == account.decider, f"{known.stamp} follows {known.follows}")
                awaited = set() if known.decision is None else {*known.decision.waiting}
                decided = None if known.decision is None else known.decision.committed
                self._must(
                    (awaited, decided) == (account.awaited, account.decided_for),
                    f"the decision of {known.stamp} is {known.decision}",
                )
        for group in {*self.offsets, *after.offsets}:
            theirs = after.offsets.get(group)
            stands = {} if theirs is None else {at: known.offset for at, known in theirs.items()}
            ours = self.offsets.get(group, {})
            self._must(stands == ours, f"group {group} stands at {stands}, not at {ours}")

    def _must(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self._say(otherwise)


_OF_GROUPS = (a.JoinGroup, a.SyncGroup, a.LeaveGroup)

_NOT_MODELLED = {
    a.CreateLog,
    a.CreateTopic,
    a.AlterTopic,
    a.AlterLog,
    a.RaiseStagingFloor,
    a.ReplaceSegments,
    a.ResetLogTime,
    a.MarkEncrypted,
    a.PlaceData,
    a.MoveData,
    a.DataCopied,
    a.DataMoved,
}
"""They change nothing of what the model promises: records, their visibility, and committed offsets."""
