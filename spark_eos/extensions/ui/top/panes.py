"""The panes of ``eoslog top``: which rows they have, in which order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from spark_eos.cli.operate.lag import badness, measures
from spark_eos.cli.operate.text import age_text, rate_text, size_text
from spark_eos.cli.output import NOTHING, printable
from spark_eos.extensions.ui.top.usage import ACTIVE_TOPICS, OPEN_TRANSACTIONS, READERS
from spark_eos.monitoring import Activity, Lag, LagTotal, OpenTransaction, TopicActivity, totals

__all__ = ["MOST_ROWS", "PANES", "Pane", "Table", "table"]

MOST_ROWS = 500
"""Rows that a pane shows at most: the filter finds the others."""


class Pane(NamedTuple):
    """A pane: its name, what it shows of a look, and by what it can be sorted.

    ``found`` gives what there is; its argument says whether readers are shown by partition. ``sorts`` are keys by name,
    the first one is the default. ``names`` are what the filter looks at.
    """

    name: str
    found: Callable[[Activity, bool], Iterable[Any]]
    sorts: dict[str, Callable[[Any], Any]]
    names: Callable[[Any], Iterable[str | None]]
    header: Callable[[bool], tuple[str, ...]]
    cells: Callable[[Any], tuple[str, ...]]


class Table(NamedTuple):
    """What a pane shows: a title, columns, and rows. ``flexible`` are the columns that may be shortened."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    flexible: tuple[int, ...]


_FLEXIBLE = {"NAME", "TOPIC", "TRANSACTIONAL-ID", "WHERE", "GROUPS"}


def table(pane: Pane, look: Activity, sort: str, wanted: str, *, by_partition: bool) -> Table:
    """The pane as it is shown. ``wanted`` is a part of a name, in any case."""
    text = wanted.casefold()
    everything = list(pane.found(look, by_partition))
    found = [
        one
        for one in everything
        if any(name and text in name.casefold() for name in pane.names(one)) or not text
    ]
    found.sort(key=pane.sorts[sort])
    shown = found[:MOST_ROWS]
    count = str(len(everything)) if len(shown) == len(everything) else f"{len(shown)} of {len(everything)}"
    header = pane.header(by_partition)
    flexible = tuple(at for at, name in enumerate(header) if name in _FLEXIBLE)
    return Table(
        f"{pane.name} ({count}), by {sort}" + (f", with {printable(wanted)!r}" if wanted else ""),
        header,
        [tuple(printable(cell) for cell in pane.cells(one)) for one in shown],
        flexible,
    )


# -- Readers ----------------------------------------------------------------------------------------


def _readers(look: Activity, by_partition: bool) -> Iterable[Lag | LagTotal]:
    return look.lags if by_partition else totals(look.lags)


def _reader_header(by_partition: bool) -> tuple[str, ...]:
    return READERS.without(*(("PARTS",) if by_partition else ("TOPIC", "PART"))).names


def _reader_cells(one: Lag | LagTotal) -> tuple[str, ...]:
    places = (one.topic, str(one.partition)) if isinstance(one, Lag) else (str(one.partitions),)
    offsets = NOTHING if one.offsets is None else str(one.offsets)
    return (_KINDS[one.kind], one.name, *places, offsets, *measures(one), str(one.held_back))


_KINDS = {"group": "group", "query": "query", "publication": "tables"}


def _reader_names(one: Lag | LagTotal) -> tuple[str | None, ...]:
    return (one.name, one.topic, one.group) if isinstance(one, Lag) else (one.name,)


# -- Topics -----------------------------------------------------------------------------------------


def _topic_cells(one: TopicActivity) -> tuple[str, ...]:
    return (
        *(one.name, str(one.partitions), rate_text(one.records_per_s), _bytes_rate(one)),
        *(str(one.offsets), str(one.held_back)),
    )


def _bytes_rate(one: TopicActivity) -> str:
    return f"{size_text(one.bytes_per_s)}/s" if one.bytes_per_s else "0"


# -- Transactions -----------------------------------------------------------------------------------


def _transaction_cells(one: OpenTransaction) -> tuple[str, ...]:
    where = ", ".join(f"{held.topic}-{held.partition}" for held in one.partitions[:20])
    if len(one.partitions) > 20:
        where += f" and {len(one.partitions) - 20} more"
    return (
        one.transactional_id or f"producer {one.producer_id}",
        "overdue" if one.is_overdue else "prepared" if one.is_prepared else "open",
        age_text(one.age_ms),
        age_text(one.timeout_ms),
        str(one.held_back),
        where or NOTHING,
        ", ".join(one.groups) or NOTHING,
    )


def _transaction_names(one: OpenTransaction) -> tuple[str, ...]:
    return (one.transactional_id, *(held.topic for held in one.partitions), *one.groups)


PANES = (
    Pane(
        "Readers",
        _readers,
        {
            "time behind": badness,
            "records": lambda one: (-(one.records or 0), one.name),
            "offsets held back": lambda one: (-one.held_back, one.name),
            "name": lambda one: (one.name, getattr(one, "topic", ""), getattr(one, "partition", 0)),
        },
        _reader_names,
        _reader_header,
        _reader_cells,
    ),
    Pane(
        "Topics",
        lambda look, _: look.topics,
        {
            "records/s": lambda one: (-one.records_per_s, -one.offsets, one.name),
            "bytes/s": lambda one: (-one.bytes_per_s, -one.offsets, one.name),
            "offsets": lambda one: (-one.offsets, one.name),
            "offsets held back": lambda one: (-one.held_back, one.name),
            "name": lambda one: one.name,
        },
        lambda one: (one.name,),
        lambda _: ACTIVE_TOPICS.names,
        _topic_cells,
    ),
    Pane(
        "Transactions",
        lambda look, _: look.transactions,
        {
            "age": lambda one: (-one.age_ms, one.producer_id),
            "offsets held back": lambda one: (-one.held_back, one.producer_id),
            "name": lambda one: (one.transactional_id, one.producer_id),
        },
        _transaction_names,
        lambda _: OPEN_TRANSACTIONS.names,
        _transaction_cells,
    ),
)
