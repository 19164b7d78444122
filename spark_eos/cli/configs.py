"""``eoslog configs``, ``clock`` and ``expire``: settings of a log, its time, and what expires by them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, admin
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command

__all__ = ["app"]

app = typer.Typer()


@app.command("configs", cls=Command)
def configs(
    url: Url,
    alter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE...", help="Change settings. NAME= takes one back to its default. Repeatable."
        ),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the settings of the log, or change them."""
    from spark_eos.config.log import LOG
    from spark_eos.config.reference import in_force

    changes = dict(map(_setting, alter or ()))
    client = admin(url, command_config)
    if changes:
        client.alter_log(changes)
    log = client.describe_log()
    if as_json:
        print_json(asdict(log))
        return
    print_table(
        ("NAME", "VALUE", "DEFAULT"),
        [row[:3] for row in in_force(LOG, log.config)],
    )


def _setting(text: str) -> tuple[str, str | None]:
    """``name=value``; an empty value takes the setting back to its default."""
    name, sign, value = text.partition("=")
    if not sign:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="'--alter'")
    return name, value or None


@app.command("clock", cls=Command)
def clock(
    url: Url,
    mend: Annotated[
        bool,
        typer.Option(
            "--mend", help="Set the log's time back to the store's, if a wrong clock has driven it ahead."
        ),
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Compare the clocks of the log, the store and this machine."""
    from spark_eos.log.time_travel import iso

    client = admin(url, command_config)
    found = client.mend_clock() if mend else client.describe_clock()
    if as_json:
        print_json(asdict(found))
        return
    for name, time_ms in (("log", found.log_ms), ("store", found.store_ms), ("machine", found.machine_ms)):
        print(f"{name:<8} {'cannot tell' if time_ms is None else iso(time_ms)}")
    if found.is_ahead:
        print("a wrong clock has driven the log's time ahead: `eoslog clock --mend` sets it back")


@app.command("expire", cls=Command)
def expire(
    url: Url,
    trust_clock: Annotated[
        bool,
        typer.Option(
            "--trust-clock", help="Believe the store's clock also if the log was not written to for days."
        ),
    ] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Abort overdue transactions, delete unused ids and offsets.

    Clients that stay open do the same once an hour. The settings of the log say how long ids and offsets are kept.
    """
    expired = admin(url, command_config).expire(trust_clock=trust_clock)
    if as_json:
        offsets = {group: [at._asdict() for at in gone] for group, gone in expired.offsets.items()}
        print_json({**asdict(expired), "offsets": offsets})
        return
    lines = [
        *(f"aborted the open transaction of producer {producer}" for producer in expired.transactions),
        *(f"forgot the sequence numbers of producer {producer}" for producer in expired.producers),
        *(f"forgot transactional.id {transactional_id}" for transactional_id in expired.transactional_ids),
        *(
            f"forgot offsets of group {group}: {', '.join(map(str, gone)) or 'none were left, the group is gone'}"
            for group, gone in expired.offsets.items()
        ),
    ]
    print("\n".join(lines) or "nothing is past its time")
