"""Many runs of real processes, recorded: of writers (`real_run`) for `specs/Commit.tla`, of clients for transactions.

``python -m verification.specification.real_processes FOLDER`` is the program that makes them: it imports everything
once and forks, so that a process starts in milliseconds, and a bug that is planted stays there.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spark_eos.protocol.types import ProducerStamp
from verification.specification import client_run, real_run
from verification.specification.events import Event
from verification.specification.planted_code import plant
from verification.specification.requests import Step

__all__ = ["Run", "record", "record_clients"]

_REPOSITORY = Path(__file__).parents[2]


class Run(NamedTuple):
    """What was recorded of the processes of one seed.

    ``exact`` is the specification's. ``has_ended``: they did all that they were to do.
    """

    seed: int
    exact: bool
    has_ended: bool
    events: list[Event]


def record(seeds: Sequence[int], *, at_once: int = 4, planted: tuple[str, str] | None = None) -> list[Run]:
    """Run the processes of each seed.

    Parameters
    ----------
    seeds
        Which runs.
    at_once
        So many runs at a time: mostly processes wait for the disk, or for each other.
    planted
        A module, by its file in the repository, and another text of it: a bug.

    Raises
    ------
    RuntimeError
        A process has ended with an error that is none of a commit.
    """
    return [
        _run(told, seed) for seed, told in zip(seeds, _told("writers", seeds, at_once, planted), strict=True)
    ]


def record_clients(
    seeds: Sequence[int], *, at_once: int = 8, planted: tuple[str, str] | None = None
) -> list[list[Step]]:
    """Let the clients of each seed write to a log: what it says. Parameters and errors as of `record`."""
    return [[_step(one) for one in told] for told in _told("clients", seeds, at_once, planted)]


def _told(kind: str, seeds: Sequence[int], at_once: int, planted: tuple[str, str] | None) -> list[Any]:
    """What the program says of each run."""
    with tempfile.TemporaryDirectory() as name:
        job = {"kind": kind, "seeds": [*seeds], "at_once": at_once, "planted": planted}
        (Path(name) / "job").write_text(json.dumps(job), encoding="utf-8")
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "verification.specification.real_processes", name],
            cwd=_REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(_REPOSITORY)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"real processes were not recorded:\n{(done.stdout + done.stderr)[-6000:]}")
        return [json.loads((Path(name) / f"run-{seed}").read_text(encoding="utf-8")) for seed in seeds]


def _run(told: dict[str, Any], seed: int) -> Run:
    events = [
        Event(
            kind, process, slot, tuple((one, two) for one, two in names), (flags[0], flags[1]), tuple(others)
        )
        for kind, process, slot, names, flags, others in told["events"]
    ]
    return Run(seed, told["exact"], told["has_ended"], events)


def _step(told: list[Any]) -> Step:
    kind, name, stamp, partitions, flag, accepted, stable, visible, positions = told
    groups = tuple(map(tuple, positions))
    return Step(
        kind,
        name,
        ProducerStamp(*stamp),
        tuple(partitions),
        flag,
        accepted,
        tuple(stable),
        tuple(visible),
        groups,
    )


# -- The program --------------------------------------------------------------------------------------------


def main() -> int:
    """0 if all was recorded."""
    logging.disable(logging.CRITICAL)
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job").read_text(encoding="utf-8"))
    if job["planted"]:
        plant(*job["planted"])
    lanes = [
        _lane(folder, job["kind"], job["seeds"][lane :: job["at_once"]]) for lane in range(job["at_once"])
    ]
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in lanes)


def _writers(seed: int, folder: Path) -> dict[str, Any]:
    plan, events, has_ended = real_run.run(seed, folder)
    told = [[one.kind, one.process, one.slot, one.requests, one.flags, one.others] for one in events]
    return {"exact": plan.exact, "has_ended": has_ended, "events": told}


_RUNS: dict[str, Callable[[int, Path], Any]] = {"writers": _writers, "clients": client_run.run}


def _lane(folder: Path, kind: str, seeds: Sequence[int]) -> int:
    """A process that makes these runs, one after the other."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        for seed in seeds:
            with tempfile.TemporaryDirectory(dir=folder) as name:
                told = _RUNS[kind](seed, Path(name))
            (folder / f"run-{seed}").write_text(json.dumps(told), encoding="utf-8")
        code = 0
    except BaseException:  # noqa: BLE001  (it is printed)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
