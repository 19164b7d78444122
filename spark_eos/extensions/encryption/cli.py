"""``eoslog encryption``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, open_log
from spark_eos.cli.output import counted, print_json, print_table
from spark_eos.cli.parsing import Command, Commands
from spark_eos.cli.usage.added import Added
from spark_eos.cli.usage.table import Columns
from spark_eos.config.nearest import suggestion
from spark_eos.errors import InvalidRequestError

if TYPE_CHECKING:
    from spark_eos.extensions.encryption.in_use import KeyUse
    from spark_eos.log.log import Log

__all__ = ["ADDED"]

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
    found = keys_in_use(log, *(key or ()))
    if as_json:
        for one in found:
            print_json({**one._asdict(), "may_be_destroyed": one.may_be_destroyed if one.key_id else None})
    else:
        print_table(
            KEYS,
            [
                [one.key_id or "(plain files)", *one[1:4], one.may_be_destroyed if one.key_id else None]
                for one in found
            ],
        )
        if log.state.encrypted_at < 0:
            print("the log is not encrypted")
    _refuse_unknown(log, found)


def _refuse_unknown(log: Log, found: list[KeyUse]) -> None:
    """End with an error for keys of which nothing is known: who destroys the one that was meant loses the log."""
    known = {one.key_id for one in found if one.key_id and (one.files or one.is_known)}
    known |= {log.state.encryption_key_id} - {""}
    for one in found:
        if one.key_id and one.key_id not in known:
            raise InvalidRequestError(
                f"--key {one.key_id!r}: no file has this key, and {log.url} does not know it "
                f"({suggestion(one.key_id, sorted(known))}). A key that no file has any more is known if the keys that "
                "are given have it (encryption.keys in --command-config). Destroy none before"
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
    done = KeyRotator(log, topic or None).run()
    count, size = len(done), sum(one.bytes_before for one in done)
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
