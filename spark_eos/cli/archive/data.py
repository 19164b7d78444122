"""``eoslog data``."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, exactly_one, open_log
from spark_eos.cli.output import print_json
from spark_eos.cli.parsing import Command, Commands
from spark_eos.cli.progress import GOES_ON, Progress
from spark_eos.errors.counting import counted

app = typer.Typer(name="data", cls=Commands, help="The place of data files.")

_HOUR_S = 3600.0
"""As `spark_eos.maintenance.moving.mover.MIN_AGE_S`."""


@app.command("move", cls=Command)
def move(
    url: Url,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="An empty folder or URL; its settings begin with data. (--command-config)."
        ),
    ] = None,
    beside_entries: Annotated[
        bool, typer.Option("--beside-entries", help="Move them into the store of the entries.")
    ] = False,
    min_age: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="How long writers and readers that began at the old place have, from the begin of the move.",
        ),
    ] = _HOUR_S,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be moved, and change nothing.")
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Move the data files of a log in use to another store, or back.

    Writers, readers and maintenance of the log go on meanwhile. It ends when the old place is empty. If it was stopped,
    run it again.
    """
    exactly_one({"--to": to, "--beside-entries": beside_entries})
    if to is not None and not to:
        raise typer.BadParameter("give a folder or URL, or --beside-entries", param_hint="'--to'")
    from spark_eos.maintenance.maintain import size_text
    from spark_eos.maintenance.moving.mover import DataMover

    with Progress(stopped=GOES_ON) as progress:
        mover = DataMover(open_log(url, command_config), to or "", min_age_s=min_age, progress=progress.count)
        summary = mover.look() if dry_run else mover.run()
    if as_json:
        print_json({**summary._asdict(), "dry_run": dry_run})
        return
    if dry_run:
        print(
            f"would copy {counted(summary.files, 'file')} of {size_text(summary.bytes)} to {summary.location}"
        )
        return
    print(
        f"the data files are at {summary.location}. Copied: {counted(summary.files, 'file')} of "
        f"{size_text(summary.bytes)}; deleted at the old place: {summary.deleted}"
    )
