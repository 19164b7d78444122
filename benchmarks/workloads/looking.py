"""What it costs a writer that its log is looked at: the page with ten browsers, metrics, top."""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.bench import Bench, Case
from benchmarks.pairing import Taken, faster, interval, less
from benchmarks.results import Figure, Ratio, Result
from benchmarks.writer import transaction
from spark_eos import Admin, Log, Producer

TITLE = "A writer whose log is looked at"

TEXT = """
A process commits transactions of one small record as fast as it can, on a core of its own. *Looked at*: on another core
`eoslog ui` serves the log to ten browsers, each of which gets an event a second and asks for its view after it; `eoslog
metrics` is scraped once a second; `eoslog top` runs in a terminal. *Alone*: all of them are stopped (SIGSTOP). The two
take turns in slices of seconds, in the order ABBA; what looks is given the time to catch up before a slice begins. The
ratio is of two slices that follow each other; its interval comes from all pairs, by bootstrap. With one core, all
share it.
"""

ALONE, LOOKED_AT = "alone", "looked at"
BROWSERS = 10
SETTLE_S = 1.3
"""Between two slices: a poll, in which those that look catch up."""


def run(bench: Bench) -> Result:
    """In pairs of slices."""
    result = Result("looking")
    looking(bench, result, bench.choose(1.0, 3.0), bench.repeats(5, 30))
    return result


def looking(bench: Bench, result: Result, seconds: float, repeat: int, settle_s: float = SETTLE_S) -> None:
    """The writer alone and looked at, and what those cost who look."""
    with _world(bench.fresh("log")) as world:
        case = Case(bench, "a writer")
        for name in (ALONE, LOOKED_AT):
            case.add(name, partial(world.slice, name == LOOKED_AT, seconds, settle_s))
        case.run(repeat)
        cost = world.cost()
    ours, theirs = case.runs[LOOKED_AT], case.runs[ALONE]
    speeds = faster(ours, theirs)
    times = tuple(us.processor / them.processor for us, them in zip(ours, theirs, strict=True))
    what = "commits/s of a writer whose log is looked at"
    result.ratios.append(Ratio(what, ALONE, speeds, 0.98))
    result.notes.append(
        f"Commits/s: {interval(speeds)}, from {len(speeds)} pairs. At least 0.98 is asked for."
    )
    what = "processor's time of a commit, of a writer whose log is looked at"
    result.ratios.append(Ratio(what, ALONE, times, 1.02, at_most=True))
    result.notes.append(f"Processor's time of a commit: {interval(times)}, from {len(times)} pairs.")
    result.ratios.append(Ratio("seconds of a commit whose log is looked at", ALONE, less(ours, theirs)))
    case.figures(result, lambda taken: 1 / taken.clock, "commits/s")
    for name, figures in cost.items():
        for unit, value in figures.items():
            result.figures.append(Figure(name, LOOKED_AT, (value,), unit))
    result.notes.append(f"The writer runs on {world.places[0]}, all else on {world.places[1]}.")
    for note in result.notes:
        bench.say(f"  {note}")
    for name, figures in cost.items():
        bench.say(f"  {name}: {', '.join(f'{value:.2f} {unit}' for unit, value in figures.items())}")


class _World:
    """The writer, and those that look."""

    def __init__(self, stack: ExitStack, url: str, places: tuple[set[int], set[int]]) -> None:
        self.places = places
        self._stack = stack
        self._threads: list[threading.Thread] = []
        stack.callback(self._join)  # When all processes have ended.
        self._done = threading.Event()
        stack.callback(self._done.set)
        self._is_looked_at = threading.Event()
        module = [sys.executable, "-m", "benchmarks.workloads.looking"]
        eoslog = [sys.executable, "-m", "spark_eos"]
        self._writer = self._begin([*module, "write", url], 0)
        self._page = self._begin([*module, "look", url], 1)
        self._metrics = self._begin([*eoslog, "metrics", url, "--serve", "0"], 1)
        self._top = self._begin_top([*eoslog, "top", url])
        self._lookers = {"the page": self._page, "metrics": self._metrics, "top": self._top}
        self._looked_s, self._spent = 0.0, dict.fromkeys(self._lookers, 0.0)
        self._counts = {"polls": 0.0, "page": 0.0, "metrics": 0.0}
        assert self._page.stdout is not None
        assert self._metrics.stderr is not None
        self._address = self._page.stdout.readline().strip()
        found = re.search(r"http://\S+", self._metrics.stderr.readline())
        if found is None or not self._address:
            raise RuntimeError("what looks has no address")
        self._scraped = found[0]
        self.events = [0] * BROWSERS
        self.ended: list[str] = []
        self._samples = ""
        for number in range(BROWSERS):
            self._thread(self._browse, number)
        self._thread(self._scrape)
        self._ask_writer(0.1)  # It is ready.
        while not (all(self.events) and self._samples):
            time.sleep(0.05)
        self._signal(signal.SIGSTOP)

    # -- Processes --------------------------------------------------------------------------------------

    def _begin(self, command: list[str], place: int) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(  # noqa: S603  (our own programs)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if "metrics" in command else None,
            text=True,
            env=environment,
        )
        self._stack.callback(_end, process)
        _pin(process.pid, self.places[place])
        return process

    def _begin_top(self, command: list[str]) -> subprocess.Popen[str]:
        """In a terminal of its own, which is read as fast as it is written to."""
        ours, theirs = pty.openpty()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"}
        environment |= {"COLUMNS": "120", "LINES": "40"}
        process = subprocess.Popen(  # noqa: S603  (our own program)
            command, stdin=theirs, stdout=theirs, stderr=theirs, text=True, env=environment
        )
        os.close(theirs)
        self._stack.callback(_end, process)
        _pin(process.pid, self.places[1])
        self._thread(_drain, ours)
        return process

    def _thread(self, target: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self._threads[-1].start()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _signal(self, number: int) -> None:
        for name, process in self._lookers.items():
            if process.poll() is not None:
                raise RuntimeError(f"{name} has ended with {process.returncode}")
            process.send_signal(number)
        if self.ended:
            raise RuntimeError(f"browsers have ended: {self.ended}")

    # -- Slices -----------------------------------------------------------------------------------------

    def slice(self, looked_at: bool, seconds: float, settle_s: float) -> Taken:
        """Seconds of one commit, by the clock and of the writer's processor."""
        if looked_at:
            self._signal(signal.SIGCONT)
            self._is_looked_at.set()
        time.sleep(settle_s)
        before, counts = self._used(), self._asked() if looked_at else {}
        commits, took, spent = self._ask_writer(seconds)
        if looked_at:
            self._looked_s += took
            for name, used in self._used().items():
                self._spent[name] += used - before[name]
            for name, count in self._asked().items():
                self._counts[name] += count - counts[name]
            self._is_looked_at.clear()
            self._signal(signal.SIGSTOP)
        return Taken(took / commits, spent / commits)

    def cost(self) -> dict[str, dict[str, float]]:
        """What looking took, by who looked."""
        per_s = 1 / max(self._looked_s, 1e-9)
        found = {
            name: {"seconds of the processor a minute": used * 60 * per_s}
            for name, used in self._spent.items()
        }
        found["the page"] |= {
            "polls/s": self._counts["polls"] * per_s,
            "requests/s": self._counts["page"] * per_s,
        }
        found["metrics"]["requests/s"] = self._counts["metrics"] * per_s
        return found

    def _ask_writer(self, seconds: float) -> tuple[float, float, float]:
        commits, took, spent = _asked(self._writer, str(seconds))
        return commits, took, spent

    def _asked(self) -> dict[str, float]:
        """Polls and requests until now, of those that look."""
        polls, requests = _asked(self._page, "")
        counted = re.findall(
            r"^db_client_operation_duration_seconds_count\{.*\} (\S+)$", self._samples, re.MULTILINE
        )
        return {"polls": polls, "page": requests, "metrics": sum(map(float, counted))}

    def _used(self) -> dict[str, float]:
        return {name: _spent(process.pid) for name, process in self._lookers.items()}

    # -- Those that look --------------------------------------------------------------------------------

    def _browse(self, number: int) -> None:
        """A browser: it asks for its view after each event."""
        place = urlsplit(self._address).netloc
        view = ("overview", "topics", "groups", "transactions")[number % 4]
        try:
            with (
                closing(http.client.HTTPConnection(place)) as asks,
                closing(http.client.HTTPConnection(place)) as stream,
            ):
                headers = {"x-csrf-token": json.loads(_answer(asks, "GET", "/session"))["csrf"]}
                stream.request("GET", "/events")
                with stream.getresponse() as lines:
                    for line in lines:
                        if line.startswith(b"data: "):
                            _answer(asks, "POST", f"/api/{view}", headers)
                            self.events[number] += 1
        except (OSError, http.client.HTTPException) as error:
            self.ended += [f"browser {number}: {error!r}"]

    def _scrape(self) -> None:
        found = urlsplit(self._scraped)
        while not self._done.is_set():
            connection = http.client.HTTPConnection(found.netloc)
            with suppress(OSError, http.client.HTTPException):
                connection.request("GET", found.path)
                self._samples = connection.getresponse().read().decode()
            connection.close()
            self._done.wait(1.0)


def _asked(process: subprocess.Popen[str], line: str) -> list[float]:
    assert process.stdin is not None
    assert process.stdout is not None
    print(line, file=process.stdin, flush=True)
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError(f"{process.args!r} has ended")
    found: list[float] = json.loads(answer)
    return found


def _answer(
    connection: http.client.HTTPConnection, method: str, path: str, headers: dict[str, str] | None = None
) -> bytes:
    """What is answered; once more if the server has ended a connection that was idle for as long as it was stopped."""
    more = {"content-type": "application/json", **(headers or {})}
    body = b"{}" if method == "POST" else None
    try:
        connection.request(method, path, body, more)
        answer = connection.getresponse()
    except (ConnectionError, http.client.RemoteDisconnected):
        connection.close()
        connection.request(method, path, body, more)
        answer = connection.getresponse()
    shown = answer.read()
    if answer.status != 200:
        raise http.client.HTTPException(f"{path} was answered by {answer.status}: {shown!r}")
    return shown


def _drain(end: int) -> None:
    with suppress(OSError):  # The terminal is gone.
        while os.read(end, 65_536):
            pass
    os.close(end)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _places() -> tuple[set[int], set[int]]:
    """The cores of the writer, and of all else: of two and more the first is the writer's alone."""
    if not hasattr(os, "sched_getaffinity"):
        return set(), set()
    cores = sorted(os.sched_getaffinity(0))
    return ({cores[0]}, {*cores[1:]}) if len(cores) > 1 else ({*cores}, {*cores})


def _pin(pid: int, cores: set[int]) -> None:
    if cores:
        os.sched_setaffinity(pid, cores)


def _spent(pid: int) -> float:
    """Seconds of the processor that a process took; NaN where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _world(url: Path) -> Iterator[_World]:
    Admin(Log.create(str(url))).create_topic("t", 4)
    places = _places()
    own = os.sched_getaffinity(0) if places[1] else set()
    _pin(0, places[1])
    try:
        with ExitStack() as stack:
            yield _World(stack, str(url), places)
    finally:
        _pin(0, own)


# -- The processes ------------------------------------------------------------------------------------------


def write(url: str) -> None:
    """The writer: slices of so many seconds as standard input says."""
    producer = Producer(url, {"transactional.id": "writer"})
    producer.init_transactions()
    transaction(producer)
    for line in sys.stdin:
        seconds = float(line)
        commits, began, before = 0, time.perf_counter(), time.process_time()
        while not commits or time.perf_counter() - began < seconds:
            transaction(producer)
            commits += 1
        print(json.dumps([commits, time.perf_counter() - began, time.process_time() - before]), flush=True)


def look(url: str) -> None:
    """As ``eoslog ui``; for each line of standard input it prints how often it has polled, and asked the store."""
    from spark_eos.extensions.ui.follower import Follower
    from spark_eos.extensions.ui.security import Access
    from spark_eos.extensions.ui.server import Server

    follower = Follower(url)
    server = Server([follower], Access())
    print(server.url, flush=True)

    def tell() -> None:
        for _ in sys.stdin:
            print(json.dumps([follower.polls, sum(follower.store.requests.values())]), flush=True)

    threading.Thread(target=tell, daemon=True).start()
    server.run()


if __name__ == "__main__":
    {"write": write, "look": look}[sys.argv[1]](sys.argv[2])
