"""Kill, freeze and restart real Spark queries and clients on one log, and compare every row with what went in."""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from verification.chaos.campaign import Campaign, Options
from verification.chaos.nemesis import FAULTS
from verification.chaos.table import by_kind, workload_table
from verification.chaos.workloads import WORKLOADS, chosen


def main() -> int:
    """0 if every row is there once, 1 if not."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, help="how long to strike (default: 10, without --kills)")
    parser.add_argument("--kills", type=int, help="stop striking after so many kills ...")
    parser.add_argument("--freezes", type=int, help="... and so many freezes")
    parser.add_argument("--seed", type=int, help="decides what is done to whom (default: a new one)")
    parser.add_argument("--pause", type=float, default=4.0, help="seconds between two faults (%(default)s)")
    parser.add_argument(
        "--only",
        action="extend",
        nargs="+",
        default=[],
        choices=[workload.name for workload in WORKLOADS],
        help="these workloads alone (default: all)",
    )
    parser.add_argument(
        "--faults",
        action="extend",
        nargs="+",
        default=[],
        choices=[*FAULTS],
        help="do these alone (default: all)",
    )
    parser.add_argument("--keep", action="store_true", help="leave the logs and all output where they are")
    chosen_options = parser.parse_args()
    logging.disable(logging.WARNING)  # Trouble is what is wanted here.
    minutes = chosen_options.minutes
    if minutes is None and chosen_options.kills is None and chosen_options.freezes is None:
        minutes = 10.0
    seed = random.SystemRandom().randrange(10**9) if chosen_options.seed is None else chosen_options.seed
    print(f"seed {seed}", flush=True)
    options = Options(
        seed,
        chosen(chosen_options.only),
        None if minutes is None else 60 * minutes,
        chosen_options.kills,
        chosen_options.freezes,
        chosen_options.pause,
        tuple(chosen_options.faults),
    )
    folder = Path(tempfile.mkdtemp(prefix="spark-eos-chaos-"))
    keep = True  # whatever goes wrong can be looked at
    try:
        outcome = Campaign(options, folder, lambda line: print(line, flush=True)).run()
        keep = chosen_options.keep or not outcome.exact
    finally:
        if not keep:
            shutil.rmtree(folder)
    print(f"\n{workload_table(outcome.lines)}\n\n{by_kind(outcome.lines)}\n")
    for fact in outcome.facts:
        print(fact)
    for problem in outcome.problems:
        print(f"PROBLEM {problem}")
    print("every row is there once" if outcome.exact else f"NOT exact: look into {folder}")
    return 0 if outcome.exact else 1


if __name__ == "__main__":
    # A plain kill of this program ends as Ctrl-C does, so that its children go too.
    for sent in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sent, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
