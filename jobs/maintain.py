"""Maintenance of a log: snapshots, retention, rolling, compaction, vacuum; once, or every so many seconds.

    python jobs/maintain.py --watch 60
    spark-submit jobs/maintain.py --log /data/log

It is `eoslog maintain` as a job: it needs no Spark, and starts none, but may be submitted where only Spark jobs are.
The log is that of the other jobs, in the settings file's DEFAULT; ``watch`` and ``only`` may stand in [maintain].
"""

from __future__ import annotations

import argparse
import configparser
import sys
from collections.abc import Sequence
from pathlib import Path

from spark_eos.cli import main as eoslog

_DEFAULT_FILE = Path(__file__).resolve().parent.parent / "conf" / "flights.ini"
_OWN = ("log", "watch", "only")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; its exit status is that of ``eoslog maintain``."""
    parser = argparse.ArgumentParser(prog="maintain.py", description="Keep a log quick and small.")
    parser.add_argument(
        "--settings", type=Path, default=_DEFAULT_FILE, help="INI file (default: %(default)s)"
    )
    parser.add_argument("--log", help="the log: a folder or URL", metavar="VALUE")
    parser.add_argument(
        "--watch", help="a pass every so many seconds, until it is stopped", metavar="SECONDS"
    )
    parser.add_argument("--only", help="these steps, separated by commas", metavar="STEPS")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    chosen = parser.parse_args(arguments)
    found = _section(parser, chosen.settings)
    log, watch, only = (getattr(chosen, name) or found.get(name, "") for name in _OWN)
    if not log:
        parser.error(f"log is missing: give --log, or set it in section [maintain] of {chosen.settings}")
    command = ["maintain", log]
    command += ["--watch", watch] if watch else []
    command += ["--only", only] if only else []
    return eoslog([*command, "--dry-run"] if chosen.dry_run else command)


def _section(parser: argparse.ArgumentParser, path: Path) -> dict[str, str]:
    reader = configparser.ConfigParser(interpolation=None)
    try:
        if not reader.read(path, encoding="utf-8"):
            parser.error(f"there is no settings file {path}: give one with --settings")
    except (configparser.Error, UnicodeDecodeError) as error:
        parser.error(f"{path}: {error}")
    section = dict(reader["maintain"]) if reader.has_section("maintain") else dict(reader.defaults())
    unknown = section.keys() - {*_OWN, *reader.defaults()}
    if unknown:
        parser.error(
            f"{path}, section [maintain]: unknown setting {min(unknown)!r}; known are {', '.join(_OWN)}"
        )
    return section


if __name__ == "__main__":
    sys.exit(main())
