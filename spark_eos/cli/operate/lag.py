"""``eoslog lag``: how far all readers of a log are behind, the worst first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from spark_eos.cli.operate.text import age_text, estimated, size_text
from spark_eos.cli.options import ConfigFile, Json, Urls, open_logs, store_settings
from spark_eos.cli.output import NOTHING, figure, print_json, print_table, printable
from spark_eos.cli.parsing import Command
from spark_eos.cli.usage.columns import LAG
from spark_eos.errors import GroupIdNotFoundError

if TYPE_CHECKING:
    from spark_eos.log.log import Log
    from spark_eos.log.selection.units import Wait
    from spark_eos.monitoring import Lag, LagTotal, QueryAcross

app = typer.Typer()


class _Row(NamedTuple):
    """A lag, the log that its reader commits into, and the log that it reads."""

    log: str
    source_log: str
    lag: Lag | LagTotal


@app.command("lag", cls=Command)
def lag(
    urls: Urls,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this group, Spark query (its transactional.id) or publication. Repeatable.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Only partitions of this topic. Repeatable.")
    ] = None,
    totals: Annotated[
        bool, typer.Option("--totals", help="One line for each group, query and publication.")
    ] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Read the index of all that is behind. Only a compacted batch that was read in part is estimated (~) "
            "then.",
        ),
    ] = False,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOCATION",
            help="The checkpoint of a Spark query that reads one of the logs and writes into another one. Repeatable.",
        ),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show how far all groups, Spark queries and publications are behind, the worst first.

    LAG counts offsets up to the last stable one (LOG-END-OFFSET), RECORDS and BYTES what readers see of them, BEHIND is
    the age of the first record that was not read. HELD-BACK are offsets that open transactions hold back, LOST those
    that were deleted before they were read, UNKNOWN (with --totals) partitions in which nothing was committed; these
    columns are left out if they have nothing to show.
    """
    from spark_eos.errors.hidden import safe_url
    from spark_eos.monitoring import Checkpoints, lags, lags_across

    logs = open_logs(urls, command_config)
    _check_names(logs, group or (), topic or ())
    checkpoints = Checkpoints(checkpoint or (), store_settings(command_config))
    rows: list[_Row] = []
    for log in logs:
        label = safe_url(log.url)
        rows += [
            _Row(label, label, reader_lag)
            for reader_lag in lags(log, exact=exact)
            if (not group or reader_lag.name in group or reader_lag.group in group)
            and (not topic or reader_lag.topic in topic)
        ]
    problems = []
    for query in lags_across(logs, checkpoints, exact=exact):
        if (group and query.name not in group) or (topic and not {*topic} & {*query.topic.split(",")}):
            continue
        rows += [_Row(query.log, query.source_log or "", reader_lag) for reader_lag in query.lags]
        problems += [query] if query.problem else []
    nothing = "" if rows or problems else _nothing(group or (), topic or (), has_logs=len(logs) > 1)
    if totals:
        rows = _summed(rows)
    rows.sort(key=lambda row: (badness(row.lag), row.log))
    waits = _waits(logs, rows)
    if as_json:
        _print_json(rows, waits, has_logs=len(logs) > 1)
        for query in problems:
            print_json({"kind": "query", "offsets": None, **query._asdict(), "lags": []})
    elif not nothing:
        _print(rows, problems, is_summed=totals, has_logs=len(logs) > 1)
        for (_, name), publication_waits in sorted(waits.items()):
            for wait in publication_waits:
                print(printable(f"{name}: committed records wait for {wait}"))
    else:
        print(printable(nothing))


def _nothing(groups: Sequence[str], topics: Sequence[str], *, has_logs: bool) -> str:
    """What to say where there is nothing to show. Refuses readers that do not read these topics, as unknown names."""
    readers, read = (", ".join(map(repr, names)) for names in (groups, topics))
    if groups and topics:
        raise GroupIdNotFoundError(
            f"{readers}: nothing of topic {read} is read by that; eoslog lag without --topic shows what is"
        )
    if groups:
        return f"{readers}: nothing is read by that"
    if topics:
        return f"no group, Spark query or publication reads topic {read}"
    return (
        f"nothing reads {'these logs' if has_logs else 'this log'}: no group, Spark query or publication does"
    )


def _summed(rows: Sequence[_Row]) -> list[_Row]:
    from spark_eos.monitoring import Lag, totals

    by_log: dict[tuple[str, str], list[Lag]] = {}
    for row in rows:
        if isinstance(row.lag, Lag):
            by_log.setdefault((row.log, row.source_log), []).append(row.lag)
    return [_Row(log, source, total) for (log, source), parts in by_log.items() for total in totals(parts)]


def badness(reader_lag: Lag | LagTotal) -> tuple[object, ...]:
    """Sorts the worst first: by time, then by records and offsets; what is not known comes last."""
    if reader_lag.offsets is None or reader_lag.is_unknown:
        return (1, reader_lag.kind, reader_lag.name)
    return (
        0,
        -(reader_lag.time_ms or 0),
        -(reader_lag.records or 0),
        -reader_lag.offsets,
        -reader_lag.lost,
        reader_lag.kind,
        reader_lag.name,
    )


def _check_names(logs: Sequence[Log], groups: Sequence[str], topics: Sequence[str]) -> None:
    """Refuse names that none of the logs knows, rather than show nothing."""
    from spark_eos.protocol.rules.gone import gone

    states = [log.state for log in logs]
    for topic in topics:
        if not any(topic in state.topics for state in states):
            logs[0].topic(topic)
    names = {
        name
        for state in states
        for name in (*state.offsets, *state.groups, *state.queries, *state.publications)
    }
    for group in groups:
        if group not in names:
            gone_text = next((text for state in states if (text := gone(state, group))), "")
            raise GroupIdNotFoundError(
                f"the log knows no group, query or publication {group!r}{gone_text}; "
                "eoslog lag without --group shows all"
            )


def _print_json(
    rows: Sequence[_Row], waits: Mapping[tuple[str, str], Sequence[Wait]], *, has_logs: bool
) -> None:
    for row in rows:
        more: dict[str, object] = {"held_back": row.lag.held_back}
        if row.lag.kind == "publication":
            more["waits_for"] = [wait._asdict() for wait in waits[row.log, row.lag.name]]
        if has_logs:
            more.update(log=row.log, source_log=row.source_log)
        print_json({**row.lag._asdict(), **more})


def _print(rows: Sequence[_Row], problems: Sequence[QueryAcross], *, is_summed: bool, has_logs: bool) -> None:
    from spark_eos.monitoring import Lag

    more: dict[str, Callable[[Lag | LagTotal], object]] = {
        "UNKNOWN": lambda reader_lag: getattr(reader_lag, "unknown", 0),
        "HELD-BACK": lambda reader_lag: reader_lag.held_back,
        "LOST": lambda reader_lag: reader_lag.lost,
    }
    more = {name: value for name, value in more.items() if any(value(row.lag) for row in rows)}
    logs = ("LOG", "READS") if has_logs else ()
    places = ("PARTITIONS",) if is_summed else ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET")
    columns = LAG.only(*logs, "KIND", "NAME", *places, "LAG", "RECORDS", "BYTES", "BEHIND", *more)
    table: list[tuple[object, ...]] = []
    for log, source, reader_lag in rows:
        place: tuple[object, ...]
        if isinstance(reader_lag, Lag):
            place = (
                reader_lag.topic,
                reader_lag.partition,
                reader_lag.committed,
                reader_lag.last_stable_offset,
            )
        else:
            place = (reader_lag.partitions,)
        figures = (*measures(reader_lag), *(value(reader_lag) for value in more.values()))
        table.append(
            (
                *(log, source)[: len(logs)],
                reader_lag.kind,
                reader_lag.name,
                *place,
                None if reader_lag.is_unknown else reader_lag.offsets,
                *figures,
            )
        )
    for query in problems:
        topic = () if is_summed else (query.topic,)
        row = (*(query.log, None)[: len(logs)], "query", query.name, *topic)
        table.append((*row, *[None] * (len(columns.names) - len(row))))
    print_table(columns, table)
    for query in problems:
        print(printable(f"{query.name}, {query.topic}: {query.problem}"))


def _waits(logs: Sequence[Log], rows: Sequence[_Row]) -> dict[tuple[str, str], list[Wait]]:
    """What the publications among the rows wait for, by log and name: tables have no part of a transaction."""
    from spark_eos.errors.hidden import safe_url
    from spark_eos.log.selection.units import held_by

    states = {safe_url(log.url): log.state for log in logs}
    by_publication: dict[tuple[str, str], list[Wait]] = {}
    for row in rows:
        if row.lag.kind == "publication":
            state, name = states[row.log], row.lag.name
            # It may have been dropped since the rows were made.
            by_publication[row.log, name] = (
                held_by(state, state.publications[name]) if name in state.publications else []
            )
    return by_publication


def measures(reader_lag: Lag | LagTotal, write: Callable[[int], str] = figure) -> tuple[str, str, str]:
    """Records, bytes and time that a reader is behind; ``~`` before an estimate, a dash for what is not known."""
    if reader_lag.is_unknown:
        return NOTHING, NOTHING, NOTHING
    records = NOTHING if reader_lag.records is None else write(reader_lag.records)
    texts = (records, size_text(reader_lag.bytes), age_text(reader_lag.time_ms))
    return tuple(estimated(text, is_exact=reader_lag.is_exact) for text in texts)  # type: ignore[return-value]
