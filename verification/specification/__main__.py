"""``python -m verification.specification``: more than the tests do. Mistakes, traces of many seeds, larger models.

Mistakes and traces are those of all three specifications, real processes and larger models those of `specs/Commit.tla`.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter

from verification.specification import (
    explored,
    planted,
    planted_liveness,
    planted_runs,
    planted_transactions,
    query_runs,
    real_processes,
    requests,
    worlds,
)
from verification.specification.tlc import SPECS, check
from verification.specification.traces import COMMIT, COMMIT_EXACT, RUNS, TRANSACTIONS, rejected

AT_ONCE = 500
"""Traces in one run of TLC."""

REAL_AT_ONCE = 100
"""The same of real processes."""


def main() -> int:
    """0 if everything held, 1 if not."""
    parser = argparse.ArgumentParser(prog="specify", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("mistakes", help="plant every mistake in the specification")
    traces = commands.add_parser("traces", help="record worlds, and hold them against the specification")
    traces.add_argument("--seeds", metavar="A:B", default="0:1000")
    logs = commands.add_parser("explored", help="hold the logs of the explorer against the specification")
    logs.add_argument("--states", type=int, default=10_000, help="of each scenario")
    real = commands.add_parser("real", help="record real processes, and hold them against the specification")
    real.add_argument("--runs", type=int, default=200, help="of writers, and as many of clients")
    real.add_argument("--first", type=int, default=0, help="the seed of the first run")
    real.add_argument("--at-once", type=int, default=8)
    model = commands.add_parser("model", help="check a larger model")
    model.add_argument("--kinds", default="alone,group", help="which models (specs/CommitModel.tla)")
    model.add_argument("--slots", type=int, default=2)
    model.add_argument("--faults", type=int, default=1)
    model.add_argument("--requests", type=int, default=1, help="of a leader")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if chosen.command == "mistakes":
        return _mistakes()
    if chosen.command == "traces":
        return _traces(*map(int, chosen.seeds.split(":")))
    if chosen.command == "explored":
        return _explored(chosen.states)
    if chosen.command == "real":
        return _real(range(chosen.first, chosen.first + chosen.runs), chosen.at_once)
    return _model(chosen.kinds.split(","), chosen.slots, chosen.faults, chosen.requests)


def _mistakes() -> int:
    wrong = 0
    expected = {
        name: one.violated
        for of in (planted, planted_transactions, planted_runs)
        for name, one in of.PLANTED.items()
    }
    for name, violated in {**planted.seen(), **planted_transactions.seen(), **planted_runs.seen()}.items():
        print(f"{violated or 'NOT SEEN':10} {name}")
        wrong += violated != expected[name]
    for name in planted_liveness.PLANTED:
        is_seen = planted_liveness.waits_for_ever(name)
        print(f"{'Answered' if is_seen else 'NOT SEEN':10} {name}")
        wrong += not is_seen
    return min(wrong, 1)


def _traces(first: int, last: int) -> int:
    for begin in range(first, last, AT_ONCE):
        seeds = range(begin, min(begin + AT_ONCE, last))
        wrong = [
            *rejected([worlds.record(seed).events for seed in seeds], COMMIT),
            *rejected([requests.record(seed) for seed in seeds], TRANSACTIONS),
            *rejected([query_runs.record(seed) for seed in seeds], RUNS),
        ]
        for one in wrong:
            print(f"seed {seeds[one.trace - 1]}, {one}")
            return 1
        print(f"seeds up to {seeds[-1]}: all of them are behaviours", flush=True)
    return 0


def _explored(states: int) -> int:
    for name in explored.EXPLORED:
        traces = explored.record(name, states=states)
        for one in rejected(traces, TRANSACTIONS):
            print(f"{name}: {one}")
            return 1
        print(f"{name}: {len(traces)} logs, all of them are behaviours", flush=True)
    return 0


def _real(seeds: range, at_once: int) -> int:
    steps: Counter[str] = Counter()
    for begin in range(seeds.start, seeds.stop, REAL_AT_ONCE):
        runs = real_processes.record(seeds[begin - seeds.start :][:REAL_AT_ONCE], at_once=at_once)
        steps += Counter(event.kind for run in runs for event in run.events)
        for form, exact in ((COMMIT, False), (COMMIT_EXACT, True)):
            some = [run for run in runs if run.exact is exact]
            for one in rejected([run.events for run in some], form) if some else ():
                print(f"seed {some[one.trace - 1].seed}, {one}")
                return 1
        if stuck := [run.seed for run in runs if not run.has_ended]:
            print(f"seeds {stuck}: the processes came to no end")
            return 1
        print(f"writers, seeds up to {runs[-1].seed}: all of them are behaviours", flush=True)
    _print("steps", steps)
    return _clients(seeds, at_once)


def _clients(seeds: range, at_once: int) -> int:
    asked: Counter[str] = Counter()
    for begin in range(seeds.start, seeds.stop, REAL_AT_ONCE):
        some = seeds[begin - seeds.start :][:REAL_AT_ONCE]
        traces = real_processes.record_clients(some, at_once=at_once)
        asked.update(step.kind if step.accepted else f"{step.kind} refused" for one in traces for step in one)
        for one in rejected(traces, TRANSACTIONS):
            print(f"seed {some[one.trace - 1]}, {one}")
            return 1
        print(f"clients, seeds up to {some[-1]}: all of them are behaviours", flush=True)
    _print("requests", asked)
    return 0


def _print(what: str, counts: Counter[str]) -> None:
    print(
        f"{counts.total():,} {what}: {', '.join(f'{count} {kind}' for kind, count in counts.most_common())}"
    )


def _model(kinds: list[str], slots: int, faults: int, requests: int) -> int:
    settings = (SPECS / "CommitModel.cfg").read_text(encoding="utf-8")
    settings = settings.replace('Calls = {"none"}', 'Calls = {"none", "unknown"}')
    begin = settings.index("{", settings.index("Kinds = "))
    named = ", ".join(f'"{kind}"' for kind in kinds)
    settings = f"{settings[:begin]}{{{named}}}{settings[settings.index('}', begin) + 1 :]}"
    bounds = {"MaxEnd": slots, "MaxFaults": faults, "OfLeaders": requests}
    found = check("CommitModel", settings=settings, constants=bounds)
    print(found.output[-2000:] if found.violated else f"{found.states:,} states, all invariants hold")
    return 1 if found.violated else 0


if __name__ == "__main__":
    sys.exit(main())
