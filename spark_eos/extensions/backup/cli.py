"""``eoslog backup``, ``eoslog backups`` and ``eoslog restore``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.archive import findings
from spark_eos.cli.options import ConfigFile, Json, Url, at_most_one, open_log, store_settings
from spark_eos.cli.output import print_json, print_table, printable
from spark_eos.cli.parsing import Command, Commands
from spark_eos.cli.progress import GOES_ON, Progress
from spark_eos.cli.usage.added import Added
from spark_eos.cli.usage.table import Columns
from spark_eos.errors import EosLogError
from spark_eos.errors.counting import counted

if TYPE_CHECKING:
    from spark_eos.extensions.backup.deleting import Freed
    from spark_eos.extensions.backup.manifest import Backup

BACKUPS = Columns(
    "backups list",
    {
        "NAME": "The backup's name.",
        "CREATED": "When it was made, in UTC.",
        "ENTRIES": "The first and the last entry to which it can be restored.",
        "FROM": "The time of the first one, in UTC.",
        "TO": "The time of the last one.",
        "FILES": "Data files that it needs.",
        "BYTES": "Their size.",
        "NEW-BYTES": "Of these what no earlier backup had.",
    },
)

app = typer.Typer()
_backups = typer.Typer(cls=Commands, help="The backups in a repository.")
app.add_typer(_backups, name="backups")

_Repository = Annotated[
    str, typer.Argument(metavar="REPOSITORY", help="Where the backups are: a folder or a URL.")
]
_RepositoryConfig = Annotated[
    str | None,
    typer.Option(
        "--repository-config", metavar="FILE", help="File with settings of the repository's object store."
    ),
]
_OPTION = "--repository-config"
_NOT_FREED = "not all that could be freed is; run eoslog backups vacuum"
_GiveUp = Annotated[
    int,
    typer.Option(
        "--give-up",
        metavar="SECONDS",
        min=0,
        help="A backup under way that has shown no sign for so long has died.",
    ),
]


@app.command("backup", cls=Command)
def backup(
    url: Url,
    repository: _Repository,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The backup's name. Else it is named by the time.")
    ] = None,
    note: Annotated[
        bool, typer.Option("--note", help="Note the time in the log, for eoslog status and alerts.")
    ] = False,
    repository_config: _RepositoryConfig = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Back up a log that may be in use. Only files that no earlier backup has are copied.

    Writers, readers and maintenance of the log may go on meanwhile. A backup is whole or not there.
    """
    from spark_eos.extensions.backup.backing_up import backup_log

    with Progress(stopped="a backup is whole or not there; run the same command again") as progress:
        summary = backup_log(
            url,
            repository,
            name=name,
            progress=progress.count,
            settings=store_settings(command_config),
            repository_settings=store_settings(repository_config, _OPTION),
        )
    if as_json:
        print_json(_plain(summary))
    else:
        print(
            f"backup {summary.name} of log {summary.log_id}: entries {summary.first} to {summary.last}, "
            f"{counted(summary.files, 'file')} of {counted(summary.bytes, 'byte')}; new: "
            f"{counted(summary.new_files, 'file')} of {counted(summary.new_bytes, 'byte')}"
        )
    if note:
        from spark_eos.clients.admin import Admin

        try:
            Admin(open_log(url, command_config)).note_backup()
        except EosLogError as error:
            print(f"not noted in the log, but the backup is made: {error} [{error.code}]", file=sys.stderr)
            raise typer.Exit(1) from None


@app.command("restore", cls=Command)
def restore(
    repository: _Repository,
    new_log: Annotated[str, typer.Argument(metavar="NEW_LOG", help="An empty folder or URL.")],
    backup_name: Annotated[
        str | None,
        typer.Option("--backup", metavar="NAME", help="The backup. Else the newest one that fits."),
    ] = None,
    to_entry: Annotated[
        int | None, typer.Option("--to-entry", metavar="SEQ", min=0, help="The last entry to be restored.")
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            "--to-time",
            metavar="TIME",
            help="Restore what there was at this ISO 8601 time (UTC unless it has a zone).",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Verify that all files are there, without reading the log again.")
    ] = False,
    repository_config: _RepositoryConfig = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Make a log of a backup in an empty place, as it was after an entry or at a time, and verify it.

    After an error or a kill the same command goes on. The place is no log before all of it is there.
    """
    from spark_eos.extensions.backup.restoring import restore_log

    at_most_one({"--to-entry": to_entry, "--to-time": to_time})
    with Progress(stopped=GOES_ON) as progress:
        result = restore_log(
            repository,
            new_log,
            backup=backup_name,
            to_entry=to_entry,
            to_time_ms=None if to_time is None else _time_ms(to_time),
            found=findings.shown(progress),
            quick=quick,
            progress=progress.count,
            repository_settings=store_settings(repository_config, _OPTION),
            settings=store_settings(command_config),
        )
    if as_json:
        print_json(findings.as_json(result, quick=quick))
        return
    print(findings.as_text(result, "it", quick=quick))


@_backups.command("list", cls=Command)
def list_(repository: _Repository, command_config: ConfigFile = None, as_json: Json = False) -> None:
    """List the backups, the oldest first, with what can be restored from each."""
    from spark_eos.extensions.backup.listing import list_backups, unfinished_backups
    from spark_eos.log.time_travel import iso

    items = list_backups(repository, settings=store_settings(command_config))
    if as_json:
        for item in items:
            print_json(_plain(item))
        return
    print_table(
        BACKUPS,
        [
            (
                *(
                    item.name,
                    iso(item.created_ms),
                    f"{item.first}-{item.last}",
                    iso(item.first_ms),
                    iso(item.last_ms),
                ),
                *(item.files, item.bytes, item.new_bytes),
            )
            for item in items
        ],
    )
    for name in unfinished_backups(repository, settings=store_settings(command_config)):
        print(
            printable(
                f"{name}: was begun, and is not whole: it is under way, or its process has died. No log can be "
                "restored of it; eoslog backups vacuum frees its files, once it has done nothing for long"
            )
        )


@_backups.command("delete", cls=Command)
def delete(
    repository: _Repository,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The backups.")],
    give_up: _GiveUp = 3600,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Delete backups, and free the files that no other backup needs.

    While a backup is under way nothing is freed: run `eoslog backups vacuum` later.
    """
    from spark_eos.extensions.backup.deleting import delete_backups

    with Progress(stopped=_NOT_FREED) as progress:
        freed = delete_backups(
            repository,
            names,
            give_up_s=give_up,
            progress=progress.count,
            settings=store_settings(command_config),
        )
    _say(freed, as_json)


@_backups.command("vacuum", cls=Command)
def vacuum(
    repository: _Repository,
    give_up: _GiveUp = 3600,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Free the files that no backup needs: of backups that were deleted or have died."""
    from spark_eos.extensions.backup.deleting import vacuum_backups

    with Progress(stopped=_NOT_FREED) as progress:
        freed = vacuum_backups(
            repository,
            give_up_s=give_up,
            progress=progress.count,
            settings=store_settings(command_config),
        )
    _say(freed, as_json)


@_backups.command("verify", cls=Command)
def verify(
    repository: _Repository,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="The backups. Else all.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only that all files are there, and as long as they should be.")
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Compare all files of backups with their checksums. The exit code is 1 if a backup is damaged."""
    from spark_eos.extensions.backup.verifying import verify_backups

    with Progress(stopped="the rest was not compared") as progress:
        result = verify_backups(
            repository,
            findings.shown(progress),
            names or (),
            quick=quick,
            progress=progress.count,
            settings=store_settings(command_config),
        )
    if as_json:
        print_json(
            {"whole": result.whole, "damaged": result.damaged, "files": result.files, "bytes": result.bytes}
        )
    else:
        print(
            f"whole: {len(result.whole)}, damaged: {len(result.damaged)}; {counted(result.files, 'file')} of "
            f"{counted(result.bytes, 'byte')}"
        )
    if result.damaged:
        raise typer.Exit(1)


def _say(freed: Freed, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "deleted": [item.name for item in freed.deleted],
                "given_up": freed.given_up,
                "files": freed.files,
                "bytes": freed.bytes,
                "running": freed.running,
            }
        )
        return
    for item in freed.deleted:
        print(f"backup {item.name} is deleted")
    for given_up in freed.given_up:
        print(f"backup {given_up} had died, and is given up")
    if freed.running:
        print(
            f"nothing is freed, since backups are under way: {freed.running}. Run eoslog backups vacuum later"
        )
    else:
        print(f"freed: {counted(freed.files, 'file')} of {counted(freed.bytes, 'byte')}")


def _time_ms(text: str) -> int:
    from spark_eos.log.time_travel import time_ms

    try:
        return time_ms(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a time such as 2026-11-21T16:30:00", param_hint="'--to-time'"
        ) from None


def _plain(item: Backup) -> dict[str, object]:
    return {**item.__dict__}


ADDED = Added(
    app,
    {
        "backup": ("eoslog backup LOG backups", "eoslog backup LOG backups --name tuesday --note"),
        "restore": (
            "eoslog restore backups restored --backup monday",
            "eoslog restore backups of-entry-3 --to-entry 3",
        ),
        "backups list": ("eoslog backups list backups",),
        "backups delete": ("eoslog backups delete backups monday",),
        "backups vacuum": ("eoslog backups vacuum backups",),
        "backups verify": ("eoslog backups verify backups",),
    },
    (BACKUPS,),
)
