"""``eoslog copy``."""

from __future__ import annotations

import argparse
import sys

from spark_eos.cli.arguments import Commands, add_command, store_settings
from spark_eos.cli.tables import print_json
from spark_eos.cli.verify import Progress
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.verify.verify import Finding
from spark_eos.storage import NO_SETTINGS

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add the command that copies a log."""
    command = add_command(
        commands, "copy", _copy, "copy a log, also while it is written to and maintained, and verify the copy"
    )
    command.add_argument("destination", metavar="DESTINATION", help="an empty folder or URL")
    command.add_argument(
        "--destination-config",
        metavar="FILE",
        type=store_settings,
        default=NO_SETTINGS,
        help="settings of the destination's object store, NAME=VALUE on each line",
    )
    command.add_argument(
        "--quick", action="store_true", help="verify only that everything is there, without reading the copy"
    )


def _copy(chosen: argparse.Namespace) -> None:
    progress = Progress(sys.stderr)

    def show(finding: Finding) -> None:
        progress.clear()
        print(f"{finding.verdict.value}: {finding.name}: {finding.text}", file=sys.stderr)

    copied = copy_log(
        chosen.url,
        chosen.destination,
        show,
        quick=chosen.quick,
        progress=progress,
        settings=chosen.settings,
        destination_settings=chosen.destination_config,
    )
    progress.clear()
    summary = copied.verified
    if chosen.json:
        print_json(
            {
                "log_id": copied.log_id,
                "last_entry": summary.last_entry,
                "files": summary.files,
                "bytes": summary.bytes,
                "records": summary.records,
                "quick": chosen.quick,
            }
        )
        return
    verified = "is there" if chosen.quick else "is verified"
    print(
        f"log {copied.log_id} up to entry {summary.last_entry}: {summary.records} records in {summary.files} files of "
        f"{summary.bytes} bytes; the copy {verified}"
    )
