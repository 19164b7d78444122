"""``python -m verification.explorer``: explores the casts named, or all of them."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from verification.explorer.scenarios import SCENARIOS
from verification.explorer.search import explore, replay


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if something forbidden was found."""
    parser = argparse.ArgumentParser(prog="python -m verification.explorer", description=main.__doc__)
    parser.add_argument("scenario", nargs="*", help=f"default: all of {', '.join(SCENARIOS)}")
    parser.add_argument(
        "--faults", type=int, help="misfortunes in one execution at most; default: the scenario's"
    )
    parser.add_argument(
        "--states", type=int, default=10_000_000, help="stop after so many; default: %(default)s"
    )
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="for each scenario; default: %(default)s"
    )
    parser.add_argument("--replay", metavar="CHOICES", help="show one execution of one scenario")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.scenario if name not in SCENARIOS]:
        parser.error(f"there is no scenario {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    chosen = [SCENARIOS[name] for name in options.scenario or SCENARIOS]
    if options.replay is not None:
        if len(chosen) != 1:
            parser.error("--replay needs one scenario")
        shown = replay(chosen[0], options.replay.split())
        _say(str(shown))
        return 1 if shown.problems else 0
    wrong = 0
    for scenario in chosen:
        report = explore(scenario, faults=options.faults, states=options.states, seconds=options.seconds)
        _say(str(report))
        for found in report.violations:
            wrong += 1
            _say(
                f"{found}\nagain: python -m verification.explorer {scenario.name} "
                f"--replay '{' '.join(found.choices)}'"
            )
    return 1 if wrong else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    logging.getLogger("spark_eos").setLevel(logging.ERROR)  # Misfortunes are no news here.
    sys.exit(main())
