"""Kill publishers of tables at random moments, and compare every version with the log, row by row."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from verification.publishing.campaign import Campaign, Options


def main() -> int:
    """0 if every version is what the log was, 1 if not."""
    parser = argparse.ArgumentParser(prog="publish-chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="strike so often (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="decides what is done to which process (default: a new one)")
    parser.add_argument("--no-vacuum", action="store_true", help="without Delta's own VACUUM")
    parser.add_argument("--keep", action="store_true", help="leave the log and all output where they are")
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(10**9) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="spark-eos-publishing-"))
    keep = True  # whatever goes wrong can be looked at
    try:
        options = Options(seed, chosen.kills, not chosen.no_vacuum)
        outcome = Campaign(options, folder, lambda line: print(line, flush=True)).run()
        keep = chosen.keep or bool(outcome.problems)
    finally:
        if not keep:
            shutil.rmtree(folder)
    for name, count in sorted(outcome.counts.items()):
        print(f"{count:10,} {name}")
    for problem in outcome.problems:
        print(f"PROBLEM {problem}")
    print(f"NOT exact: look into {folder}" if outcome.problems else "every version is what the log was")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
