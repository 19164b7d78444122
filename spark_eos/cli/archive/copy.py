"""``eoslog copy``."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_eos.cli.archive import findings
from spark_eos.cli.options import ConfigFile, Json, Url, store_settings
from spark_eos.cli.output import print_json
from spark_eos.cli.parsing import Command
from spark_eos.cli.progress import GOES_ON, Progress

app = typer.Typer()


@app.command("copy", cls=Command)
def copy(
    url: Url,
    destination: Annotated[str, typer.Argument(metavar="DESTINATION", help="An empty folder or URL.")],
    destination_config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File with settings of the destination's object store."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Verify that all files are there, without reading the copy."),
    ] = False,
    close: Annotated[
        bool,
        typer.Option(
            "--close", help="Close the log where the copy ends: it is moved, and used there from now on."
        ),
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Copy a log that may be in use, and verify the copy.

    Writers, readers and maintenance of the log may go on meanwhile. With --close they go on until all is copied; then
    every call to the log at its old place is refused.
    """
    from spark_eos.maintenance.copying import copy_log

    settings = store_settings(command_config)
    destination_settings = store_settings(destination_config, "--destination-config")
    with Progress(stopped=GOES_ON) as progress:
        copied = copy_log(
            url,
            destination,
            findings.shown(progress),
            quick=quick,
            close=close,
            progress=progress.count,
            settings=settings,
            destination_settings=destination_settings,
        )
    if as_json:
        print_json({**findings.as_json(copied, quick=quick), "closed": close})
        return
    closed = "; the log at its old place is closed" if close else ""
    print(f"{findings.as_text(copied, 'the copy', quick=quick)}{closed}")
