"""``eoslog encryption``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.maintain import stoppable, teller
from spark_eos.cli.options import ConfigFile, Json, Url, open_log
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command, Commands
from spark_eos.cli.progress import Progress
from spark_eos.cli.usage.added import Added
from spark_eos.cli.usage.table import Columns
from spark_eos.config.nearest import suggestion
from spark_eos.errors import InvalidRequestError
from spark_eos.errors.counting import counted

if TYPE_CHECKING:
    from spark_eos.extensions.encryption.in_use import KeyUse
    from spark_eos.log.log import Log

KEYS = Columns(
    "encryption keys",
    {
        "KEY": "The key's id.",
        "FILES": "Data files that need it.",
        "BYTES": "Their size.",
        "UNREFERENCED": "How many of them nothing refers to: vacuum deletes them.",
        "MAY BE DESTROYED": "Whether this log can do without the key; or that it is unknown to it.",
    },
)

app = typer.Typer(name="encryption", cls=Commands, help="Keys of encrypted data files.")


@app.command("keys", cls=Command)
def keys(
    url: Url,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Show this key also if no file has it. Repeatable."),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the keys that data files have, and whether the log can do without them.

    One header is read of each file. No key is needed. Backups are not looked at: they need the keys of their time.
    With --key, a key that the log does not know is an error: it may be mistyped.
    """
    from spark_eos.extensions.encryption.in_use import keys_in_use

    log = open_log(url, command_config)
    uses = keys_in_use(log, *(key or ()))
    if as_json:
        for use in uses:
            print_json({**use._asdict(), "may_be_destroyed": use.may_be_destroyed if use.key_id else None})
    else:
        print_table(
            KEYS,
            [
                [use.key_id or "(plain files)", *use[1:4], use.may_be_destroyed if use.key_id else None]
                for use in uses
            ],
        )
        if log.state.encrypted_at < 0:
            print("the log is not encrypted")
    _refuse_unknown(log, uses)


def _refuse_unknown(log: Log, uses: list[KeyUse]) -> None:
    """End with an error for keys of which nothing is known: who destroys the one that was meant loses the log."""
    key_ids = {use.key_id for use in uses if use.key_id and (use.files or use.is_known)}
    key_ids |= {log.state.encryption_key_id} - {""}
    for use in uses:
        if use.key_id and use.key_id not in key_ids:
            raise InvalidRequestError(
                f"--key {use.key_id!r}: no file has this key, and {log.url} does not know it "
                f"({suggestion(use.key_id, sorted(key_ids))}). A key that no file has any more is known if the keys "
                "that are given have it (encryption.keys in --command-config). Destroy none before"
            )


@app.command("rotate", cls=Command)
def rotate(
    url: Url,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Only these topics. Repeatable.")
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Write records of files with other keys, and of plain files, again with the key encryption.key.id.

    The old files go when vacuum removes them; then the old keys may be destroyed. Rows of open transactions stay.
    """
    from spark_eos.extensions.encryption.rotation import KeyRotator

    log = open_log(url, command_config)
    for name in topic or ():
        log.topic(name)
    with stoppable() as stop, Progress() as progress:
        tell = teller(stop, progress)
        steps = KeyRotator(log, topic or None).run(
            lambda step: tell(f"{step.topic}-{step.partition} rewritten up to offset {step.next_offset}")
        )
    count, size = len(steps), sum(step.bytes_before for step in steps)
    if as_json:
        print_json({"steps": count, "bytes": size, "key_id": log.store.encryption_key_id})
        return
    print(
        f"{counted(size, 'byte')} were written again in {counted(count, 'step')}, with key "
        f"{log.store.encryption_key_id}; eoslog vacuum removes the old files"
    )


ADDED = Added(
    app,
    {
        "encryption keys": ("eoslog encryption keys LOG --key 2026-11 --command-config keys.properties",),
        "encryption rotate": ("eoslog encryption rotate LOG --command-config keys.properties",),
    },
    (KEYS,),
)
