"""``scripts/bench``: run the workloads, write ``docs/quality/benchmarks.md`` with its pictures and ``results.json``.

What was measured while others kept the machine busy is not kept: the page has of it what it had.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from benchmarks import machine, page, plots, results
from benchmarks.bench import Bench
from benchmarks.peers import Peers

_ROOT = Path(__file__).parent.parent

WORKLOADS = (
    "limits",
    "sink",
    "source",
    "stream",
    "typed",
    "tables",
    "publish_cost",
    "publish_beside",
    "publish_growth",
    "latency",
    "producers",
    "guarantee",
    "writers",
    "machines",
    "monitored",
    "looking",
    "long_page",
    "shapes",
    "bytes",
    "cpu",
    "growth",
    "backups",
)
"""In the order of the page."""


def main() -> None:
    """Run what was asked for."""
    modules = {name: importlib.import_module(f"benchmarks.workloads.{name}") for name in WORKLOADS}
    chosen = _arguments()
    if chosen.list:
        print(*(f"{name:14} {module.TITLE}" for name, module in modules.items()), sep="\n")
        return
    kept = results.load(chosen.write / "benchmarks" / "results.json")
    if chosen.release:
        results.keep_release(chosen.write / "benchmarks" / "releases.json", chosen.release, kept)
    if chosen.page or chosen.release:
        write(chosen.write, modules, list(kept))
        return
    names = chosen.only or list(WORKLOADS)
    parent = chosen.folder or _ROOT / ".run"
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    machine.spread(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # The broker is to be stopped then, too.
    peers, failed = Peers(folder), []
    try:
        every = Bench(peers, folder, chosen.quick, chosen.repeat)
        for name in names:
            bench = dataclasses.replace(every, folder=folder / name)
            try:
                bench.folder.mkdir(exist_ok=True)  # A workload may be asked for twice.
                machine.spread(bench.folder)
                _keep(chosen.write, modules, _measure(bench, modules[name], name))
            except _BusyError as error:
                print(f"not kept: {error}")
                failed.append(name)
            except Exception:  # noqa: BLE001  (the others are measured all the same)
                traceback.print_exc()
                failed.append(name)
            if not chosen.keep:
                shutil.rmtree(bench.folder, ignore_errors=True)  # All together filled a disk of 73 GB.
    finally:
        peers.stop()
        if chosen.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if failed:
        sys.exit(f"these failed, and the page has of them what it had: {', '.join(failed)}")


class _BusyError(Exception):
    """The machine did other work meanwhile."""


def _measure(bench: Bench, module: ModuleType, name: str) -> results.Result:
    bench.say(f"{module.TITLE} ({name})")
    began, others = time.monotonic(), machine.Others()
    result: results.Result = module.run(bench)
    cores = others.cores()
    if cores > machine.MOST_OF_OTHERS:
        raise _BusyError(
            f"others kept {cores:.2f} cores busy while {name} was measured, and may have {machine.MOST_OF_OTHERS}: "
            "end what runs beside, and measure it again"
        )
    result.notes += [f"Left out: {peer}, because {why}." for peer, why in bench.peers.left_out.items()]
    result.run = {
        "when": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": machine.commit(),
        "command": shlex.join(["scripts/bench", *sys.argv[1:]]),
        "others": cores,
        "machine": machine.describe(bench.folder),
    }
    bench.say(f" {time.monotonic() - began:.0f} s")
    return result


def _keep(folder: Path, modules: dict[str, ModuleType], result: results.Result) -> None:
    """Replace this workload's part; what was measured before stays."""
    kept = folder / "benchmarks" / "results.json"
    found = results.load(kept)
    found[result.name] = result
    results.save(kept, {name: found[name] for name in modules if name in found})
    write(folder, modules, [result.name])


def write(folder: Path, modules: dict[str, ModuleType], drawn: Sequence[str]) -> None:
    """The page from the results that are kept, and the pictures of some of them."""
    below = folder / "benchmarks"
    found = results.load(below / "results.json")
    for name in drawn:
        plots.draw(found[name], modules[name].TITLE, below / f"{name}.png")
    pictures = [path.stem for path in below.glob("*.png")]
    releases = results.load_releases(below / "releases.json")
    page.write(folder / "benchmarks.md", page.page(found, modules, pictures, releases))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a slice: less work, fewer rounds and cases")
    parser.add_argument("--only", action="append", choices=WORKLOADS, help="this workload; may be repeated")
    parser.add_argument("--list", action="store_true", help="name the workloads, and do nothing")
    parser.add_argument("--page", action="store_true", help="only write the page and its pictures again")
    parser.add_argument(
        "--release",
        metavar="VERSION",
        help="only keep the ratios of today as those of a release, in the page",
    )
    parser.add_argument("--repeat", type=int, help="rounds of each comparison (default: each workload's own)")
    parser.add_argument("--folder", type=Path, help="where to write what is measured (default: .run, here)")
    parser.add_argument("--keep", action="store_true", help="leave that folder, with the broker's log")
    parser.add_argument(
        "--write",
        type=Path,
        default=_ROOT / "docs" / "quality",
        help="where the page goes (default: docs/quality)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
