"""``eoslog dump``, ``eoslog history`` and ``eoslog diff``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, open_log
from spark_eos.cli.output import NOTHING, print_json, print_table
from spark_eos.cli.parsing import Command
from spark_eos.cli.usage.columns import CHANGED_OFFSETS, CHANGED_PARTITIONS, CHANGED_PRODUCERS, HISTORY

if TYPE_CHECKING:
    from spark_eos.log.history import Changes, Transaction
    from spark_eos.log.log import Log
    from spark_eos.protocol.state import State

app = typer.Typer()

_SHOWN_AT_ONCE = 1000
"""Rows of one table: columns are as wide as their longest cell, and a log may have any number of transactions."""


@app.command("dump", cls=Command)
def dump(
    url: Url,
    first: Annotated[int, typer.Option("--from", metavar="SEQ", help="The first entry to show.")] = 0,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the entries of the transaction log."""
    from spark_eos.cli.dump import dump as lines_of
    from spark_eos.log.time_travel import check_entry, earliest

    log = open_log(url, command_config)
    check_entry(log, first)
    tell_retired(earliest(log), first)
    for line in lines_of(log, first):
        if as_json:
            print_json(line)
        else:
            print(_readable(line))


@app.command("history", cls=Command)
def history(
    url: Url,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Only transactions with records of this topic.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="ENTRY|TIME", help="The first entry, or an ISO 8601 time (in UTC unless it has a zone)."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="ENTRY|TIME", help="The last entry, or an ISO 8601 time.")
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the transactions that ended, oldest first."""
    from spark_eos.log.history import transactions
    from spark_eos.log.time_travel import check_entry, earliest, entry_at_time

    first = 0 if since is None else _place(since, "--since")
    end = None if until is None else _place(until, "--until")
    if end is not None and type(first) is type(end) and first > end:
        raise typer.BadParameter(f"{since} comes after {until}, the last one", param_hint="'--since'")
    log = open_log(url, command_config)
    oldest = earliest(log)
    if isinstance(first, _Time):
        # The first one that is not older; all that is there, if it is from before that.
        first = entry_at_time(log, first - 1) + 1 if first > oldest.timestamp_ms else 0
    else:
        check_entry(log, first)
    last = None if end is None else _entry(log, end)
    if last is not None:
        check_entry(log, last)
    tell_retired(oldest, first)
    ended_transactions = transactions(log, first, last)
    if topic is not None:
        ended_transactions = _of_topic(log, topic, ended_transactions)
    if as_json:
        for transaction in ended_transactions:
            print_json(_plain(transaction))
        return
    _print(ended_transactions)


@app.command("diff", cls=Command)
def diff(
    url: Url,
    first: Annotated[
        str,
        typer.Argument(metavar="ENTRY|TIME", help="The earlier state: after this entry, or at this time."),
    ],
    last: Annotated[str, typer.Argument(metavar="ENTRY|TIME", help="The later state, in the same way.")],
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only this topic.")] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show what changed between two entries or times."""
    from spark_eos.log.history import changes
    from spark_eos.log.topics import topic_of

    begin, end = (_place(text, "ENTRY|TIME") for text in (first, last))
    log = open_log(url, command_config)
    difference = changes(log, _entry(log, begin), _entry(log, end), topic)
    if topic is not None and not (difference.topics or difference.partitions or difference.offsets):
        topic_of(log.state, topic, log.url)
    if as_json:
        _print_lines(difference)
    else:
        _print_changes(difference)


def tell_retired(oldest: State, first: int) -> None:
    """Say on standard error if not all entries from ``first`` on are there, but those after ``oldest``."""
    from spark_eos.log.time_travel import iso

    if oldest.seq > 0 and first <= oldest.seq:
        note = f"entries up to {oldest.seq} ({iso(oldest.timestamp_ms)}) are retired: what is there begins after it"
        print(f"eoslog: {note}", file=sys.stderr)


class _Time(int):
    """Milliseconds since 1970, not the number of an entry."""


def _place(text: str, option: str) -> int:
    """An entry, or a time."""
    from spark_eos.log.time_travel import time_ms

    try:
        return int(text) if text.isdecimal() else _Time(time_ms(text))
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is neither an entry nor a time such as 2026-11-21T16:30:00", param_hint=f"'{option}'"
        ) from None


def _entry(log: Log, place: int) -> int:
    from spark_eos.log.time_travel import entry_at_time

    return entry_at_time(log, place) if isinstance(place, _Time) else place


def _of_topic(log: Log, topic: str, transactions: Iterable[Transaction]) -> Iterator[Transaction]:
    """Those with records of a topic. One that has none is an error, unless it is there: a deleted one has its past."""
    from spark_eos.log.topics import topic_of

    is_known = False
    for transaction in transactions:
        if topic in transaction.records:
            is_known = True
            yield transaction
    if not is_known:
        topic_of(log.state, topic, log.url)


def _print(transactions: Iterable[Transaction]) -> None:
    rows = map(_row, transactions)
    print_table(HISTORY, [*islice(rows, _SHOWN_AT_ONCE)])
    while more := [*islice(rows, _SHOWN_AT_ONCE)]:
        print_table(HISTORY, more)


def _row(transaction: Transaction) -> tuple[object, ...]:
    from spark_eos.log.time_travel import iso

    has_producer = transaction.producer.producer_id >= 0
    numbers = tuple(transaction.producer) if has_producer else (None, None, None)
    offsets = [f"{span.topic}-{span.partition}:{span.first}-{span.last}" for span in transaction.spans]
    groups = [
        f"{group}({' '.join(f'{at}:{offset}' for at, offset in offsets.items())})"
        for group, offsets in transaction.groups.items()
    ]
    return (
        *(transaction.seq, iso(transaction.timestamp_ms), transaction.writer),
        *(None if number == -1 else number for number in numbers),
        *(
            transaction.transactional_id,
            transaction.query_id,
            transaction.batch_id,
            "COMMIT" if transaction.commit else "ABORT",
        ),
        " ".join(f"{topic}:{count}" for topic, count in transaction.records.items()),
        " ".join(offsets),
        " ".join(groups),
    )


def _plain(transaction: Transaction) -> dict[str, object]:
    return {
        "entry": transaction.seq,
        "timestamp_ms": transaction.timestamp_ms,
        "writer": transaction.writer,
        **transaction.producer._asdict(),
        "transactional_id": transaction.transactional_id,
        "query_id": transaction.query_id,
        "batch_id": transaction.batch_id,
        "outcome": "COMMIT" if transaction.commit else "ABORT",
        "records": transaction.records,
        "offsets": [span._asdict() for span in transaction.spans],
        "groups": {
            group: {str(at): offset for at, offset in offsets.items()}
            for group, offsets in transaction.groups.items()
        },
    }


def _print_lines(changes: Changes) -> None:
    for name, (before, after) in changes.topics.items():
        print_json({"kind": "topic", "topic": name, "before": before, "after": after})
    for partition in changes.partitions:
        print_json({"kind": "partition", **partition._asdict()})
    for (group, topic, number), (before, after) in changes.offsets.items():
        print_json(
            {
                "kind": "offset",
                "group": group,
                "topic": topic,
                "partition": number,
                "before": before,
                "after": after,
            }
        )
    for producer, (before, after) in changes.producers.items():
        print_json({"kind": "producer", "producer_id": producer, "before": before, "after": after})


def _print_changes(changes: Changes) -> None:
    print(f"from entry {changes.first:,} to entry {changes.last:,}")
    for name, (before, after) in changes.topics.items():
        change = "created" if before is None else "deleted" if after is None else "altered"
        print(f"topic {name}: {change}")
    if changes.partitions:
        print_table(
            CHANGED_PARTITIONS,
            [
                (
                    partition.topic,
                    partition.partition,
                    *_arrows(partition.before, partition.after),
                    partition.committed,
                    partition.aborted,
                )
                for partition in changes.partitions
            ],
        )
    if changes.offsets:
        print_table(
            CHANGED_OFFSETS,
            [(*at, _arrow(*pair)) for at, pair in changes.offsets.items()],
        )
    if changes.producers:
        print_table(
            CHANGED_PRODUCERS,
            [
                (number, (after or before or _NONE)[0], *_arrows((before or _NONE)[1:], (after or _NONE)[1:]))
                for number, (before, after) in changes.producers.items()
            ],
        )


_NONE = (None, None, None, None)


def _arrows(before: tuple[object, ...] | None, after: tuple[object, ...] | None) -> list[str]:
    pairs = zip(before or (None,) * 3, after or (None,) * 3, strict=True)
    return [_arrow(*pair) for pair in pairs]


def _arrow(before: object, after: object) -> str:
    if before == after:
        return f"{before}"
    return " -> ".join(NOTHING if value is None else str(value) for value in (before, after))


def _readable(line: dict[str, Any]) -> str:
    kind = line["kind"]
    if kind == "control":
        return (
            f"      {line['topic']}-{line['partition']} offset {line['offset']}: {line['type']} batch of producer "
            f"{line['producer_id']} epoch {line['epoch']} transaction {line['number']}"
        )
    if kind == "request":
        verdict = f"REJECTED: {line['error']}" if line["error"] else "accepted"
        return f"entry {line['seq']} at {line['timestamp_ms']} by {line['writer'] or '?'}: {verdict}"
    fields = " ".join(f"{name}={_short(value)}" for name, value in line["fields"].items())
    return f"   {line['action']} {fields}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 200 else f"{text[:197]}..."
