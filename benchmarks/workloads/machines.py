"""Many machines on one log in an object store: today's group commit, and the one across machines. Simulated."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

from benchmarks import many_machines
from benchmarks.bench import Bench
from benchmarks.results import Figure, Ratio, Result

TITLE = "Many machines, simulated"

TEXT = """
Ten processes on each machine commit one small request after the other to one log in an object store. The commit loops
are the real ones. Store, network and time are simulated: each request takes as long as S3's
(`verification.latency`), the way between two machines 1 ms, and the leader 1 ms for each hand-over. **The
processor is not simulated**: to decode and to apply an entry takes no time, so that the figures say how requests are
arranged. What the busiest process, the leader, takes of the real processor is a figure of its own, without its part in
HTTPS: a second of it for each second is the limit. *Each machine for itself*: group commit without `machines.listen`.
*Across machines*: with it. *The leader dies*: its process is killed half-way; the longest gap is the longest time in
which no process has created an entry. *Cut off*: no machine reaches another one, so that requests are objects in the
store. *As it was*: each machine for itself, when there was no group commit across machines, and processes did not read
ahead (17.7 commits/s on 10 machines, 15.0 on 100, measured by this program at 48399bcfe3, with the same seed).
"""

ALONE, SHARED, KILLED, CUT = (
    "each machine for itself",
    "across machines",
    "across machines, the leader dies",
    "across machines, cut off",
)
AS_IT_WAS = "each machine for itself, as it was"
BEFORE = {10: 17.7, 100: 15.0}
TARGETS = {10: 8.0, 100: 20.0}


def run(bench: Bench) -> Result:
    """All numbers of machines, with one seed each; a run with the same seed gives the same figures.

    Time is simulated, so that runs beside each other do not disturb each other.
    """
    result = Result("machines")
    found: dict[tuple[int, str], many_machines.Found] = {}
    counts = bench.choose((1, 10), (1, 10, 100))
    runs = [
        (count, name)
        for count in reversed(counts)
        for name in (ALONE, SHARED, KILLED, CUT)
        if _is_run(count, name)
    ]
    with ProcessPoolExecutor(2) as pool:
        for key, one in zip(runs, pool.map(_measure, *zip(*runs, strict=True)), strict=True):
            found[key] = one
            bench.say(f" {key[0]} machines, {key[1]}: {one.commits_s:.0f}/s")
    for count in counts:
        alone, shared = found[count, ALONE], found[count, SHARED]
        case = f"{count} machine{'s' * (count > 1)}"
        if count in BEFORE:
            result.ratios.append(
                Ratio(
                    f"{case}, commits",
                    "each machine for itself, as it was",
                    (shared.commits_s / BEFORE[count],),
                    TARGETS[count],
                )
            )
        result.ratios.append(Ratio(f"{case}, commits", ALONE, (shared.commits_s / alone.commits_s,)))
        result.ratios.append(
            Ratio(f"{case}, PUTs for each slot", "one", (shared.puts_per_slot,), 1.3, at_most=True)
        )
        for name in (ALONE, SHARED, KILLED, CUT):
            if _is_run(count, name):
                result.figures += [
                    Figure(case, name, (value,), unit) for value, unit in _figures(found[count, name])
                ]
    return result


def _is_run(count: int, name: str) -> bool:
    """A hundred machines take minutes of the processor: what goes wrong is seen with ten."""
    return name in (ALONE, SHARED) or count == 10


def _measure(count: int, name: str) -> many_machines.Found:
    seconds = 5.0 if count > 10 else 10.0
    return many_machines.run(
        count, shared=name != ALONE, seconds=seconds, kill=name == KILLED, cut=name == CUT
    )


def _figures(found: many_machines.Found) -> list[tuple[float, str]]:
    return [
        (found.commits_s, "commits/s"),
        (found.puts_per_slot, "PUTs for each slot"),
        (found.puts_per_commit, "PUTs for each commit"),
        (found.gets_per_commit, "GETs for each commit"),
        (found.p50_ms, "ms, p50"),
        (found.p99_ms, "ms, p99"),
        (found.gap_s, "s, the longest gap"),
        (found.busiest_ms, "ms of the busiest processor for each commit"),
    ]
