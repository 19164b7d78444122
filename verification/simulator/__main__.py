"""``python -m verification.simulator``: run seeds; say what was tried; tell the story of what failed."""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import random
import sys

from verification.simulator.campaign import Tally, campaign, story

EVERY = 500
"""Runs between two lines of progress, without a terminal."""


def main() -> int:
    """0 if everything held, 1 if not."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument(
        "--seeds", metavar="A:B", help="these seeds (default: new ones, as long as --minutes say)"
    )
    parser.add_argument("--minutes", type=float, help="stop after so long (default: 1, without --seeds)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)"
    )
    parser.add_argument("--story", type=int, metavar="SEED", help="tell what happens with one seed")
    parser.add_argument(
        "--first", action="store_true", help="stop at the first failure, and do not tell its story"
    )
    chosen = parser.parse_args()
    if chosen.story is not None:
        logging.disable(logging.CRITICAL)
        print(story(chosen.story))
        return 0
    last: int | None = None
    if chosen.seeds:
        first, last = map(int, chosen.seeds.split(":"))
        seeds, minutes = iter(range(first, last)), chosen.minutes
    else:
        first = random.SystemRandom().randrange(10**9)
        seeds, minutes = itertools.count(first), chosen.minutes or 1.0
        print(f"seeds from {first}", flush=True)
    tally = Tally()
    try:
        for tally in campaign(seeds, jobs=chosen.jobs, minutes=minutes):
            if sys.stdout.isatty() or tally.runs % EVERY == 0:
                print(tally, end="\r" if sys.stdout.isatty() else "\n", flush=True)
            if chosen.first and tally.failures:
                break
    except KeyboardInterrupt:
        print("\nstopped", flush=True)
    print(f"\nseeds {first} to {first + tally.runs - 1}\n\n{tally.table()}")
    if last is not None and first + tally.runs < last:
        print(f"\ngo on with --seeds {first + tally.runs}:{last}")
    for failure in tally.failures:
        print(f"\nseed {failure.seed}: {failure.problems[0]}")
    if tally.failures and not chosen.first:
        print(f"\n{story(tally.failures[0].seed)}")
    return 1 if tally.failures or not tally.runs else 0


if __name__ == "__main__":
    sys.exit(main())
