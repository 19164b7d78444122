"""Open transactions that hold something back, and what to do about them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_eos.errors.counting import counted
from spark_eos.monitoring.activity import OpenTransaction
from spark_eos.monitoring.lag import Lag
from spark_eos.monitoring.troubles.trouble import LOG, Command, Trouble, age, in_one_line

_MANY_OFFSETS = 1000
_SOON_MS = 60_000
"""A transaction within its timeout is worth knowing once it holds back so many offsets for so long."""


def of_transactions(
    opened: Sequence[OpenTransaction], lags: Sequence[Lag], longest_ms: int
) -> Iterator[Trouble]:
    """Those past their timeout, and those that have held something back for longer than ``longest_ms``."""
    for transaction in opened:
        is_long = transaction.age_ms > longest_ms
        is_wide = transaction.age_ms >= _SOON_MS and transaction.held_back >= _MANY_OFFSETS
        if transaction.is_overdue or (transaction.held_back and (is_long or is_wide)):
            yield _of(transaction, lags, is_long=is_long)


def _of(transaction: OpenTransaction, lags: Sequence[Lag], *, is_long: bool) -> Trouble:
    about = transaction.transactional_id
    text = _description(transaction, lags)
    if transaction.is_overdue:
        page = "runbooks/hanging-transaction.md"
        advice = "stop the program if it hangs, then abort the transaction"
        return Trouble(
            "critical",
            "hanging transaction",
            text,
            page,
            _look_at(transaction),
            _abort(transaction),
            advice,
            about,
        )
    if transaction.is_prepared:
        page = "runbooks/prepared-waits.md"
        advice = "start its program again: it completes the transaction as the other system has decided"
        return Trouble(
            "warning" if is_long else "note",
            "prepared waits",
            text,
            page,
            _look_at(transaction),
            (),
            advice,
            about,
        )
    advice = (
        "stop the program if it hangs, then abort the transaction"
        if is_long
        else "wait for its end; if its program hangs, stop it, and abort the transaction"
    )
    page = "runbooks/lso-stuck.md"
    return Trouble(
        "warning" if is_long else "note",
        *(
            "held back",
            text,
            page,
            _look_at(transaction),
            _abort(transaction) if is_long else (),
            advice,
            about,
        ),
    )


def _description(transaction: OpenTransaction, lags: Sequence[Lag]) -> str:
    who = (
        f"transactional.id {transaction.transactional_id!r}"
        if transaction.transactional_id
        else f"producer {transaction.producer_id}"
    )
    timeout = (
        "prepared, and waits for the decision of another system"
        if transaction.is_prepared
        else f"{'past' if transaction.is_overdue else 'within'} its timeout of {age(transaction.timeout_ms)}"
    )
    text = f"the transaction of {who} is open for {age(transaction.age_ms)}, {timeout}"
    text += f", and holds back {counted(transaction.held_back, 'offset')}"
    places = [partition for partition in transaction.partitions if partition.offsets]
    if places:
        text += f" of {in_one_line(f'{at.topic}-{at.partition} from offset {at.first_offset:,}' for at in places)}"
    waiting = _waiting({(at.topic, at.partition) for at in places}, lags)
    if waiting:
        text += f"; {in_one_line(waiting)} read no further"
    if transaction.groups:
        text += f"; it has offsets of {in_one_line(f'group {group!r}' for group in transaction.groups)}"
    return text


def _waiting(places: set[tuple[str, int]], lags: Sequence[Lag]) -> list[str]:
    readers = {(lag.kind, lag.name) for lag in lags if (lag.topic, lag.partition) in places}
    return [f"{kind} {name!r}" for kind, name in sorted(readers)]


def _look_at(transaction: OpenTransaction) -> tuple[Command, ...]:
    if transaction.transactional_id:
        return (("transactions", "describe", LOG, "--transactional-id", transaction.transactional_id),)
    return (("transactions", "find-hanging", LOG, "--max-transaction-timeout", "0"),)


def _abort(transaction: OpenTransaction) -> tuple[Command, ...]:
    if transaction.transactional_id:
        return (("transactions", "abort", LOG, "--transactional-id", transaction.transactional_id),)
    if transaction.partitions:
        at = transaction.partitions[0]
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
