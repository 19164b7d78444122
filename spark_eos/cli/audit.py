"""``eoslog audit``: what was done to the log, when, and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, open_log
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command
from spark_eos.cli.usage.columns import EVENTS
from spark_eos.config.nearest import suggestion
from spark_eos.errors import ConfigError

if TYPE_CHECKING:
    from spark_eos.protocol.state import State

app = typer.Typer()


@app.command("audit", cls=Command)
def audit(
    url: Url,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this topic, group, transactional.id or publication."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="From this ISO 8601 time on (in UTC unless it has a zone)."),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List what was done to the log, by whom, oldest first: fenced, timed out, expired, created, altered, deleted.

    It goes back as far as the log's setting audit.retention.ms, a week by default, with at most 1,000 events. What a
    writer does to the same thing again, within an hour of the first time, is one event.
    """
    from spark_eos.log.time_travel import iso, time_ms

    try:
        since_ms = None if since is None else time_ms(since)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{since!r} is not a time such as 2026-11-21T16:30:00", param_hint="'--since'"
        ) from None
    state = open_log(url, command_config).follow()
    if name is not None:
        _check_name(state, name)
    events = [
        event
        for event in state.trail
        if (name is None or event.name == name) and (since_ms is None or event.timestamp_ms >= since_ms)
    ]
    if as_json:
        for event in events:
            print_json(event._asdict())
        return
    rows = [
        (iso(event.timestamp_ms), event.entry, event.writer, event.what, event.name, event.times, event.text)
        for event in events
    ]
    print_table(EVENTS, rows)


def _check_name(state: State, name: str) -> None:
    """Refuse a name of nothing, rather than show nothing."""
    names = {
        *(event.name for event in state.trail),
        *(*state.topics, *state.transactional_ids, *state.groups, *state.offsets, *state.publications),
    }
    if name not in names:
        alike = sorted(names - {""})  # What is about the log as a whole has none.
        raise ConfigError(f"the log has nothing of the name {name!r}; {suggestion(name, alike)}")
