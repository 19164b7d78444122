"""``eoslog configs``, ``expire`` and ``clock``: settings of a log, what they let go, and by what time."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from spark_eos.cli.arguments import Commands, add_command, setting
from spark_eos.cli.tables import print_json, print_table
from spark_eos.clients.admin import Admin
from spark_eos.log.settings import LOG_CONFIGS
from spark_eos.log.time_travel import iso

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add the commands about the log as a whole."""
    configs = add_command(commands, "configs", _configs, "settings of the log; --alter changes them")
    configs.add_argument(
        "--alter",
        type=setting,
        nargs="+",
        action="extend",
        metavar="NAME=VALUE",
        help="NAME= takes a setting back to its default",
    )
    clock = add_command(
        commands, "clock", _clock, "the log's time beside the store's and this machine's; --mend sets it back"
    )
    clock.add_argument(
        "--mend",
        action="store_true",
        help="set the log's time back to the store's, if a wrong clock has driven it ahead",
    )
    expire = add_command(
        commands,
        "expire",
        _expire,
        "end transactions past their timeout, and forget what clients forget once an hour: old ids and offsets",
    )

    expire.add_argument(
        "--trust-clock",
        action="store_true",
        help="believe the store's clock also if the log was not written to for days",
    )


def _configs(chosen: argparse.Namespace) -> None:
    admin = Admin(chosen.url, chosen.settings)
    if chosen.alter:
        admin.alter_log(dict(chosen.alter))
    log = admin.describe_log()
    if chosen.json:
        print_json(asdict(log))
        return
    print_table(
        ("NAME", "VALUE", "DEFAULT"),
        [(name, value, LOG_CONFIGS[name]) for name, value in sorted(log.config.items())],
    )


def _expire(chosen: argparse.Namespace) -> None:
    expired = Admin(chosen.url, chosen.settings).expire(trust_clock=chosen.trust_clock)
    if chosen.json:
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


def _clock(chosen: argparse.Namespace) -> None:
    admin = Admin(chosen.url, chosen.settings)
    found = admin.mend_clock() if chosen.mend else admin.describe_clock()
    if chosen.json:
        print_json(asdict(found))
        return
    for name, time_ms in (("log", found.log_ms), ("store", found.store_ms), ("machine", found.machine_ms)):
        print(f"{name:<8} {'cannot tell' if time_ms is None else iso(time_ms)}")
    if found.is_ahead:
        print("a wrong clock has driven the log's time ahead: `eoslog clock --mend` sets it back")
