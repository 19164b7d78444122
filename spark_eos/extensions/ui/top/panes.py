"""The panes of ``eoslog top``: which rows they have, in which order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from spark_eos.cli.operate.lag import badness, measures
from spark_eos.cli.operate.text import age_text, rate_text, size_text
from spark_eos.cli.output import NOTHING, printable
from spark_eos.extensions.ui.top.usage import ACTIVE_TOPICS, OPEN_TRANSACTIONS, READERS
from spark_eos.monitoring import Activity, Lag, LagTotal, OpenTransaction, TopicActivity, totals

MOST_ROWS = 500
"""Rows that a pane shows at most: the filter finds the others."""


class Pane(NamedTuple):
    """A pane: its name, what it shows of a look, and by what it can be sorted.

    ``found`` gives what there is; its argument says whether readers are shown by partition. ``sorts`` are keys by name,
    the first one is the default. ``names`` are what the filter looks at.
    """

    name: str
    items: Callable[[Activity, bool], Iterable[Any]]
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


def table(pane: Pane, look: Activity, sort: str, name_part: str, *, by_partition: bool) -> Table:
    """The pane as it is shown. ``name_part`` is a part of a name, in any case."""
    text = name_part.casefold()
    everything = list(pane.items(look, by_partition))
    matches = [
        item
        for item in everything
        if any(name and text in name.casefold() for name in pane.names(item)) or not text
    ]
    matches.sort(key=pane.sorts[sort])
    shown = matches[:MOST_ROWS]
    count = (
        f"{len(everything):,}" if len(shown) == len(everything) else f"{len(shown):,} of {len(everything):,}"
    )
    header = pane.header(by_partition)
    flexible = tuple(at for at, name in enumerate(header) if name in _FLEXIBLE)
    return Table(
        f"{pane.name} ({count}), by {sort}" + (f", with {printable(name_part)!r}" if name_part else ""),
        header,
        [tuple(printable(cell) for cell in pane.cells(item)) for item in shown],
        flexible,
    )


# -- Readers ----------------------------------------------------------------------------------------


class _Elsewhere(NamedTuple):
    """What reads outside of the log, and how long ago it has committed."""

    name: str
    places: tuple[str, ...]
    age_ms: int | None


def _readers(look: Activity, by_partition: bool) -> Iterable[Lag | LagTotal | _Elsewhere]:
    yield from look.lags if by_partition else totals(look.lags)
    places = (NOTHING, NOTHING) if by_partition else (NOTHING,)
    for query in look.elsewhere:
        age_ms = None if query.timestamp_ms is None else max(look.now_ms - query.timestamp_ms, 0)
        yield _Elsewhere(query.name, places, age_ms)


def _by(key: Callable[[Lag | LagTotal], Any]) -> Callable[[Any], Any]:
    """What reads elsewhere comes first: that it is not behind is not known."""
    return lambda reader: (0, reader.name) if isinstance(reader, _Elsewhere) else (1, key(reader))


def _reader_header(by_partition: bool) -> tuple[str, ...]:
    return READERS.without(*(("PARTS",) if by_partition else ("TOPIC", "PART"))).names


def _reader_cells(reader: Lag | LagTotal | _Elsewhere) -> tuple[str, ...]:
    if isinstance(reader, _Elsewhere):
        commit = NOTHING if reader.age_ms is None else f"{age_text(reader.age_ms)} ago"
        return ("elsewhere", reader.name, *reader.places, NOTHING, NOTHING, NOTHING, commit, NOTHING)
    if isinstance(reader, Lag):
        places: tuple[str, ...] = (reader.topic, f"{reader.partition:,}")
    else:
        unknown = f", {reader.unknown:,} unknown" if reader.unknown else ""
        places = (f"{reader.partitions:,}{unknown}",)
    offsets = NOTHING if reader.offsets is None or reader.is_unknown else f"{reader.offsets:,}"
    return (
        _KINDS[reader.kind],
        reader.name,
        *places,
        offsets,
        *measures(reader, "{:,}".format),
        f"{reader.held_back:,}",
    )


_KINDS = {"group": "group", "query": "query", "publication": "tables"}


def _reader_names(reader: Lag | LagTotal | _Elsewhere) -> tuple[str | None, ...]:
    return (reader.name, reader.topic, reader.group) if isinstance(reader, Lag) else (reader.name,)


# -- Topics -----------------------------------------------------------------------------------------


def _topic_cells(topic: TopicActivity) -> tuple[str, ...]:
    return (
        *(topic.name, f"{topic.partitions:,}", rate_text(topic.records_per_s), _bytes_rate(topic)),
        *(f"{topic.offsets:,}", f"{topic.held_back:,}"),
    )


def _bytes_rate(topic: TopicActivity) -> str:
    return f"{size_text(topic.bytes_per_s)}/s" if topic.bytes_per_s else rate_text(topic.bytes_per_s)


# -- Transactions -----------------------------------------------------------------------------------


def _transaction_cells(transaction: OpenTransaction) -> tuple[str, ...]:
    where = ", ".join(f"{held.topic}-{held.partition}" for held in transaction.partitions[:20])
    if len(transaction.partitions) > 20:
        where += f" and {len(transaction.partitions) - 20:,} more"
    return (
        transaction.transactional_id or f"producer {transaction.producer_id}",
        "overdue" if transaction.is_overdue else "prepared" if transaction.is_prepared else "open",
        age_text(transaction.age_ms),
        age_text(transaction.timeout_ms),
        f"{transaction.held_back:,}",
        where or NOTHING,
        ", ".join(transaction.groups) or NOTHING,
    )


def _transaction_names(transaction: OpenTransaction) -> tuple[str, ...]:
    return (
        transaction.transactional_id,
        *(held.topic for held in transaction.partitions),
        *transaction.groups,
    )


PANES = (
    Pane(
        "Readers",
        _readers,
        {
            "time behind": _by(badness),
            "records": _by(lambda reader: (-(reader.records or 0), reader.name)),
            "offsets held back": _by(lambda reader: (-reader.held_back, reader.name)),
            "name": lambda reader: (
                reader.name,
                getattr(reader, "topic", ""),
                getattr(reader, "partition", 0),
            ),
        },
        _reader_names,
        _reader_header,
        _reader_cells,
    ),
    Pane(
        "Topics",
        lambda look, _: look.topics,
        {
            "records/s": lambda topic: (-(topic.records_per_s or 0), -topic.offsets, topic.name),
            "bytes/s": lambda topic: (-(topic.bytes_per_s or 0), -topic.offsets, topic.name),
            "offsets": lambda topic: (-topic.offsets, topic.name),
            "offsets held back": lambda topic: (-topic.held_back, topic.name),
            "name": lambda topic: topic.name,
        },
        lambda topic: (topic.name,),
        lambda _: ACTIVE_TOPICS.names,
        _topic_cells,
    ),
    Pane(
        "Transactions",
        lambda look, _: look.transactions,
        {
            "age": lambda transaction: (-transaction.age_ms, transaction.producer_id),
            "offsets held back": lambda transaction: (-transaction.held_back, transaction.producer_id),
            "name": lambda transaction: (transaction.transactional_id, transaction.producer_id),
        },
        _transaction_names,
        lambda _: OPEN_TRANSACTIONS.names,
        _transaction_cells,
    ),
)
