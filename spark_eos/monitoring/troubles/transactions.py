"""Open transactions that hold something back, and what to do about them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_eos.monitoring.activity import OpenTransaction
from spark_eos.monitoring.lag import Lag
from spark_eos.monitoring.troubles.trouble import LOG, Command, Trouble, age, listed

__all__ = ["of_transactions"]

_MANY_OFFSETS = 1000
_SOON_MS = 60_000
"""A transaction within its timeout is worth knowing once it holds back so many offsets for so long."""


def of_transactions(
    opened: Sequence[OpenTransaction], lags: Sequence[Lag], longest_ms: int
) -> Iterator[Trouble]:
    """Those past their timeout, and those that have held something back for longer than ``longest_ms``."""
    for one in opened:
        is_long = one.age_ms > longest_ms
        is_wide = one.age_ms >= _SOON_MS and one.held_back >= _MANY_OFFSETS
        if one.is_overdue or (one.held_back and (is_long or is_wide)):
            yield _of(one, lags, is_long=is_long)


def _of(one: OpenTransaction, lags: Sequence[Lag], *, is_long: bool) -> Trouble:
    about = one.transactional_id
    text = _told(one, lags)
    if one.is_overdue:
        page = "runbooks/hanging-transaction.md"
        advice = "stop the program if it hangs, then abort the transaction"
        return Trouble(
            "critical", "hanging transaction", text, page, _look_at(one), _abort(one), advice, about
        )
    if one.is_prepared:
        page = "runbooks/prepared-waits.md"
        advice = "start its program again: it completes the transaction as the other system has decided"
        return Trouble(
            "warning" if is_long else "note", "prepared waits", text, page, _look_at(one), (), advice, about
        )
    advice = (
        "stop the program if it hangs, then abort the transaction"
        if is_long
        else "wait for its end; if its program hangs, stop it, and abort the transaction"
    )
    page = "runbooks/lso-stuck.md"
    return Trouble(
        "warning" if is_long else "note",
        *("held back", text, page, _look_at(one), _abort(one) if is_long else (), advice, about),
    )


def _told(one: OpenTransaction, lags: Sequence[Lag]) -> str:
    who = (
        f"transactional.id {one.transactional_id!r}"
        if one.transactional_id
        else f"producer {one.producer_id}"
    )
    timeout = (
        "prepared, and waits for the decision of another system"
        if one.is_prepared
        else f"{'past' if one.is_overdue else 'within'} its timeout of {age(one.timeout_ms)}"
    )
    text = f"the transaction of {who} is open for {age(one.age_ms)}, {timeout}"
    text += f", and holds back {one.held_back} offsets"
    places = [held for held in one.partitions if held.offsets]
    if places:
        text += f" of {listed(f'{at.topic}-{at.partition} from offset {at.first_offset}' for at in places)}"
    waiting = _waiting({(at.topic, at.partition) for at in places}, lags)
    if waiting:
        text += f"; {listed(waiting)} read no further"
    if one.groups:
        text += f"; it has offsets of {listed(f'group {group!r}' for group in one.groups)}"
    return text


def _waiting(places: set[tuple[str, int]], lags: Sequence[Lag]) -> list[str]:
    found = {(one.kind, one.name) for one in lags if (one.topic, one.partition) in places and one.held_back}
    return [f"{kind} {name!r}" for kind, name in sorted(found)]


def _look_at(one: OpenTransaction) -> tuple[Command, ...]:
    if one.transactional_id:
        return (("transactions", "describe", LOG, "--transactional-id", one.transactional_id),)
    return (("transactions", "find-hanging", LOG, "--max-transaction-timeout", "0"),)


def _abort(one: OpenTransaction) -> tuple[Command, ...]:
    if one.transactional_id:
        return (("transactions", "abort", LOG, "--transactional-id", one.transactional_id),)
    if one.partitions:
        at = one.partitions[0]
        place = (
            "--topic",
            at.topic,
            "--partition",
            str(at.partition),
            "--start-offset",
            str(at.first_offset),
        )
        return (("transactions", "abort", LOG, *place),)
    return (("expire", LOG),)
