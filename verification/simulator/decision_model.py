"""The book of transactions over several logs: what was decided for whom, and what follows which decision."""

from __future__ import annotations

from collections import Counter

from spark_eos.protocol import actions as a
from spark_eos.protocol.state import State
from spark_eos.protocol.types import ProducerStamp
from verification.simulator.producer_model import ProducerModel

__all__ = ["DecisionModel"]


class DecisionModel:
    """What the accepted requests about decisions have come to. The accounts are those of the whole book."""

    accounts: dict[int, ProducerModel]
    events: Counter[str]

    def _must(self, holds: bool, otherwise: str) -> None:
        raise NotImplementedError

    def _decide(self, account: ProducerModel, *, commit: bool) -> None:
        raise NotImplementedError

    def _ongoing(self, stamp: ProducerStamp, what: str) -> ProducerModel | None:
        raise NotImplementedError

    def _AddFollowers(  # noqa: N802
        self, action: a.AddFollowers, _r: object, before: State | None, after: State
    ) -> None:
        stamp, logs = action.producer, [one.log_id for one in action.followers]
        self._must(len(logs) == len({*logs}) > 0, f"{logs} follow {stamp}")
        self._must(after.log_id not in logs, f"log {after.log_id} follows itself")
        account = self._ongoing(stamp, "a list of followers")
        if account is None:
            return
        self._must(
            not account.awaited, f"{stamp} decides, and {account.awaited} have not followed the last one"
        )
        history = b"" if before is None else before.lineage
        account.decides, account.awaited, account.decided_for = (
            (stamp.epoch, stamp.number, history),
            {*logs},
            None,
        )
        self.events["decisions begun"] += 1

    def _FollowDecision(self, action: a.FollowDecision, *_: object) -> None:  # noqa: N802
        stamp, what = action.producer, f"{action.producer} follows {action.decider}"
        account = self.accounts.get(stamp.producer_id)
        if account is None:
            self._must(holds=False, otherwise=f"{what}, and its producer is unknown")
            return
        if account.ended is not None and account.ended[:2] == (stamp.epoch, action.decider):
            self._must(account.ended[2] is action.commit, f"{what} both ways")
            self.events["repeated ends of followers"] += 1
            return
        self._must(
            account.is_open
            and (account.prepared_at, account.decider, account.number)
            == (stamp.epoch, action.decider, stamp.number),
            f"{what}, and nothing prepared does",
        )
        account.ended = (stamp.epoch, action.decider, action.commit)
        self._decide(account, commit=action.commit)
        self.events["followed commits" if action.commit else "followed aborts"] += 1

    def _NoteFollowers(self, action: a.NoteFollowers, *_: object) -> None:  # noqa: N802
        stamp = action.producer
        account = self.accounts.get(stamp.producer_id)
        if account is None or account.decides != (stamp.epoch, stamp.number, action.history):
            return
        self._must(
            account.decided_for is not None, f"{action.log_ids} have followed {stamp}, which is not decided"
        )
        account.awaited -= {*action.log_ids}
        self.events["followers noted"] += len(action.log_ids)
