"""Many writers on a log as far away as an object store: ``python -m benchmarks.remote``, or `scripts/bench-latency`.

Each request takes as long as S3's (`verification.latency`), drawn by a seed, on a store in memory; what is
measured is therefore how requests are arranged, and not this machine, which mostly sleeps.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from spark_eos import Admin, Producer
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from verification.latency import Latency
from verification.remote_store import RemoteStore

COUNTS = (1, 4, 16)
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"


class Found(NamedTuple):
    """What the writers of one run did: commits, the seconds it took, the seconds of each, and requests by verb."""

    commits: int
    seconds: float
    took: list[float]
    requests: Counter[str]

    def row(self, name: str) -> str:
        """A line of the table."""
        each = "".join(f" {self.requests[verb] / self.commits:.2f} |" for verb in ("PUT", "GET", "LIST"))
        quantiles = statistics.quantiles(self.took, n=100, method="inclusive")
        return (
            f"| {name} | {self.commits / self.seconds:.1f} | {quantiles[49] * 1000:.0f} | "
            f"{quantiles[98] * 1000:.0f} |{each}"
        )


def writers(
    count: int, seconds: float, *, handles: int, scale: float = 1.0, maintenance: bool = True
) -> Found:
    """So many transactional producers, each in a thread, on so many handles of one log: a handle is a process."""
    inner = MemoryStore()
    Admin(Log.create(inner)).create_topic("t")
    stores = [RemoteStore(inner, Latency(scale=scale, seed=number)) for number in range(handles)]
    logs = [Log.open(store) for store in stores]
    took: list[list[float]] = [[] for _ in range(count)]
    ready, errors = threading.Barrier(count + 1), list[BaseException]()
    end = 0.0

    def write(number: int) -> None:
        try:
            config = {"transactional.id": f"writer-{number}", "auto.maintenance.enable": maintenance}
            producer = Producer(logs[number % handles], config)
            producer.init_transactions()
            ready.wait()
            ready.wait()
            while (began := time.perf_counter()) < end:
                producer.begin_transaction()
                producer.send("t", b"a small record", key=b"key")
                producer.commit_transaction()
                took[number].append(time.perf_counter() - began)
        except BaseException as error:  # noqa: BLE001  (it is raised below)
            errors.append(error)
            ready.abort()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    for store in stores:
        store.clear()
    began = time.perf_counter()
    end = began + seconds
    ready.wait()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    requests: Counter[str] = Counter()
    for store in stores:
        requests.update(store.counts)
    flat = [one for each in took for one in each]
    return Found(len(flat), time.perf_counter() - began, flat, requests)


def table(seconds: float) -> str:
    """All runs, as the table of docs/guide/costs.md."""
    lines = [
        "| writers | transactions/s | ms, p50 | ms, p99 | PUT | GET | LIST |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for count in COUNTS:
        name = f"{count} process{'es' * (count > 1)}"
        lines.append(writers(count, seconds, handles=count).row(name))
        print(lines[-1], flush=True)
    for count in COUNTS[1:]:
        lines.append(writers(count, seconds, handles=1).row(f"{count} threads of one process"))
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, or put it into its page."""
    parser = argparse.ArgumentParser(prog="bench-latency", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run (default: 30)")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    chosen = parser.parse_args()
    found = table(chosen.seconds)
    if chosen.write is not None:
        text = chosen.write.read_text(encoding="utf-8")
        head, rest = text.split(BEGIN, 1)
        chosen.write.write_text(head + BEGIN + found + END + rest.split(END, 1)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
