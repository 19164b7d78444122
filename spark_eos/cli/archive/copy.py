"""``eoslog copy``."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_eos.cli.archive.findings import shown
from spark_eos.cli.options import ConfigFile, Json, Url, store_settings
from spark_eos.cli.output import counted, print_json
from spark_eos.cli.parsing import Command
from spark_eos.cli.progress import Progress

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
    with Progress() as progress:
        copied = copy_log(
            url,
            destination,
            shown(progress),
            quick=quick,
            close=close,
            progress=progress.count,
            settings=settings,
            destination_settings=destination_settings,
        )
    summary = copied.verified
    if as_json:
        print_json(
            {
                "log_id": copied.log_id,
                "last_entry": summary.last_entry,
                "files": summary.files,
                "bytes": summary.bytes,
                "records": summary.records,
                "quick": quick,
                "closed": close,
            }
        )
        return
    verified = "is there" if quick else "is verified"
    print(
        f"log {copied.log_id} up to entry {summary.last_entry}: {counted(summary.records, 'record')} in "
        f"{counted(summary.files, 'file')} of {counted(summary.bytes, 'byte')}; the copy {verified}"
        f"{'; the log at its old place is closed' if close else ''}"
    )
