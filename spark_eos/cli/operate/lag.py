"""``eoslog lag``: how far all readers of a log are behind, the worst first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.operate.text import age_text, estimated, size_text
from spark_eos.cli.options import ConfigFile, Json, Url, open_log
from spark_eos.cli.output import NOTHING, print_json, print_table
from spark_eos.cli.parsing import Command
from spark_eos.errors import GroupIdNotFoundError

if TYPE_CHECKING:
    from spark_eos.log.log import Log
    from spark_eos.monitoring import Lag, LagTotal

__all__ = ["app", "badness", "measures"]

app = typer.Typer()


@app.command("lag", cls=Command)
def lag(
    url: Url,
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
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show how far all groups, Spark queries and publications are behind, the worst first.

    LAG counts offsets up to the last stable one (LOG-END-OFFSET), RECORDS and BYTES what readers see of them, BEHIND is
    the age of the first record that was not read. HELD-BACK are offsets that open transactions hold back, LOST those
    that were deleted before they were read; the two columns are left out if they have nothing to show.
    """
    from spark_eos.monitoring import lags
    from spark_eos.monitoring import totals as summed

    log = open_log(url, command_config)
    _check_names(log, group or (), topic or ())
    found = [
        one
        for one in lags(log, exact=exact)
        if (not group or one.name in group or one.group in group) and (not topic or one.topic in topic)
    ]
    shown: Sequence[Lag | LagTotal] = summed(found) if totals else found
    worst = sorted(shown, key=badness)
    if as_json:
        for one in worst:
            print_json({**one._asdict(), "held_back": one.held_back})
    elif worst:
        _print(worst)
    else:
        print("nothing reads this log: it has no groups, Spark queries or publications")


def badness(one: Lag | LagTotal) -> tuple[object, ...]:
    """Sorts the worst first: by time, then by records and offsets; what is not known comes last."""
    if one.offsets is None:
        return (1, one.kind, one.name)
    return (0, -(one.time_ms or 0), -(one.records or 0), -one.offsets, -one.lost, one.kind, one.name)


def _check_names(log: Log, groups: Sequence[str], topics: Sequence[str]) -> None:
    """Refuse names that the log does not know, rather than show nothing."""
    for topic in topics:
        log.topic(topic)
    state = log.state
    known = {*state.offsets, *state.groups, *state.queries, *state.publications}
    for group in groups:
        if group not in known:
            raise GroupIdNotFoundError(
                f"the log knows no group, query or publication {group!r}; eoslog lag without --group shows all"
            )


def _print(worst: Sequence[Lag | LagTotal]) -> None:
    from spark_eos.monitoring import Lag

    more: list[tuple[str, Callable[[Lag | LagTotal], object]]] = []
    if any(one.held_back for one in worst):
        more.append(("HELD-BACK", lambda one: one.held_back))
    if any(one.lost for one in worst):
        more.append(("LOST", lambda one: one.lost))
    is_summed = not isinstance(worst[0], Lag)
    places = ("PARTITIONS",) if is_summed else ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET")
    header = ("KIND", "NAME", *places, "LAG", "RECORDS", "BYTES", "BEHIND", *(name for name, _ in more))
    rows = []
    for one in worst:
        place: tuple[object, ...]
        if isinstance(one, Lag):
            place = (one.topic, one.partition, one.committed, one.last_stable_offset)
        else:
            place = (one.partitions,)
        figures = (*measures(one), *(value(one) for _, value in more))
        rows.append((one.kind, one.name, *place, one.offsets, *figures))
    print_table(header, rows)


def measures(one: Lag | LagTotal) -> tuple[str, str, str]:
    """Records, bytes and time that a reader is behind; ``~`` before an estimate, a dash for what is not known."""
    records = NOTHING if one.records is None else str(one.records)
    texts = (records, size_text(one.bytes), age_text(one.time_ms))
    return tuple(estimated(text, is_exact=one.is_exact) for text in texts)  # type: ignore[return-value]
