"""What metrics cost the writer that is measured."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.request import urlopen

from benchmarks.bench import Bench, Case
from benchmarks.pairing import Taken, faster
from benchmarks.results import Ratio, Result
from benchmarks.writer import transaction
from spark_eos import Admin, Log, Producer
from spark_eos.monitoring import MeasuredStore, register
from spark_eos.storage import open_store

TITLE = "A writer that is monitored"

TEXT = """
A process commits transactions of one small record as fast as it can. *Registered*: its producer, its log and its store
are registered with a registry of Prometheus's client, which the process serves and another one scrapes once a second.
*Watched*: `eoslog metrics` serves the metrics of its log and is scraped once a second. All three take turns in one run
of one writer, in slices of some seconds. The processor's time is that of the writer's process, scrapes included.
"""

ALONE, REGISTERED, WATCHED = "alone", "registered", "watched"


def run(bench: Bench) -> Result:
    """All three, in rounds."""
    result = Result("monitored")
    monitored(bench, result, bench.choose(2.0, 6.0), bench.repeats(3, 15))
    return result


def monitored(bench: Bench, result: Result, seconds: float, repeat: int) -> None:
    """The writer alone, registered and watched."""
    with _writer(bench.fresh("logs")) as (writer, own, watch):
        case = Case(bench, "a writer")
        for name, address in ((ALONE, None), (REGISTERED, own), (WATCHED, watch)):
            case.add(name, partial(_slice, writer, name, address, seconds))
        case.run(repeat)
    for name in (REGISTERED, WATCHED):
        speeds = faster(case.runs[name], case.runs[ALONE])
        result.ratios.append(Ratio(f"commits/s of a writer that is {name}", ALONE, speeds, 0.98))
        pairs = zip(case.runs[name], case.runs[ALONE], strict=True)
        values = tuple(us.processor / them.processor for us, them in pairs)
        what = f"processor's time of a commit, of a writer that is {name}"
        result.ratios.append(Ratio(what, ALONE, values, 1.02, at_most=True))
    case.figures(result, lambda taken: 1 / taken.clock, "commits/s")


@contextmanager
def _writer(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The writer's process, and the addresses of its metrics and of those of `eoslog metrics`."""
    urls = [str(folder / "registered"), str(folder / "plain")]
    for url in urls:
        Admin(Log.create(url)).create_topic("t", 4)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    commands = (
        ["-m", "benchmarks.workloads.monitored", *urls],
        ["-m", "spark_eos", "metrics", urls[1], "--serve", "0"],
    )
    processes = [
        subprocess.Popen(  # noqa: S603  (our own programs)
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for command in commands
    ]
    try:
        addresses = []
        for process in processes:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            if found is None:
                raise RuntimeError(f"no address, but {line!r}")
            addresses.append(found[0])
        yield processes[0], addresses[0], addresses[1]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _slice(writer: subprocess.Popen[str], name: str, address: str | None, seconds: float) -> Taken:
    """Seconds of one commit."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    done = threading.Event()
    scraper = threading.Thread(target=_scrape, args=(address, done))
    scraper.start()
    print(json.dumps([name == REGISTERED, seconds]), file=writer.stdin, flush=True)
    commits, took, spent = json.loads(writer.stdout.readline())
    done.set()
    scraper.join()
    return Taken(took / commits, spent / commits)


def _scrape(address: str | None, done: threading.Event) -> None:
    """Once a second, from half a second after the begin on."""
    while not done.wait(0.5) and address is not None:
        with urlopen(address) as answer:  # noqa: S310  (it is on this machine)
            if b"eoslog_" not in answer.read():
                raise RuntimeError(f"{address} has no metrics")
        if done.wait(0.5):
            return


def write(registered_url: str, plain_url: str) -> None:
    """The writer: slices as standard input says, each with or without metrics."""
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    store = MeasuredStore(open_store(registered_url))
    producers = [
        Producer(log, {"transactional.id": "writer"}) for log in (Log.open(plain_url), Log.open(store))
    ]
    for producer in producers:
        producer.init_transactions()
        transaction(producer)
    register(producers[1], registry=registry)
    register(store, registry=registry)
    server, _ = start_http_server(0, "127.0.0.1", registry)
    print(f"http://127.0.0.1:{server.server_port}/metrics", file=sys.stderr, flush=True)
    for line in sys.stdin:
        registered, seconds = json.loads(line)
        commits, began, before = 0, time.perf_counter(), time.process_time()
        while (took := time.perf_counter() - began) < seconds:
            transaction(producers[registered])
            commits += 1
        print(json.dumps([commits, took, time.process_time() - before]), flush=True)


if __name__ == "__main__":
    write(*sys.argv[1:])
