"""Processes to be waited for, killed and frozen, with all that they have started: a mark in their environment tells."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

import spark_eos

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(spark_eos.__file__).resolve().parent.parent
MARK = "SPARK_EOS_PROCESS"
RUN = "SPARK_EOS_RUN"
"""In the environment of all that was started for one purpose."""
_SHOWN = 6000
"""Characters of output that an error shows, the last ones."""
_HANGS_S = 600.0
"""A program that has done nothing for so long hangs. A loaded machine needs some minutes for what takes seconds."""
_OTHER_SPARK = {"SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYTHONPATH"}
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A short life: what the better compiler gains it would not earn back."""


def _java(variable: str) -> str:
    """The same, with what the environment has for a JVM: scripts/setup names an archive of Spark's classes there."""
    return f"{os.environ.get(variable, '')} {_JAVA}".strip()


def environment(**more: str) -> dict[str, str]:
    """For all programs: this Python, this package, this Spark, the loopback address, and no other Spark's settings."""
    packages = [str(ROOT)]
    if str(SPARK_HOME.parent) in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        packages.append(str(SPARK_HOME.parent))  # Not the environment's own: scripts/test-matrix
    return {
        **{name: value for name, value in os.environ.items() if name not in _OTHER_SPARK},
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(packages),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }


def spark_submit(script: Path, *arguments: object, conf: Mapping[str, str] | None = None) -> list[str]:
    """The command line of spark-submit for ``script``."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": _JAVA,
        "spark.executor.extraJavaOptions": _java("SPARK_SUBMIT_OPTS"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        # A query without a trigger that has nothing to read looks again after 10 ms: that is a core for nothing.
        "spark.sql.streaming.pollingDelay": "100ms",
        **(conf or {}),
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    return [str(SPARK_HOME / "bin" / "spark-submit"), *options, str(script), *map(str, arguments)]


class Process:
    """A program in a session of its own, whose output goes to a file; ``run`` says what it was started for."""

    def __init__(self, command: Sequence[str], output: Path, run: str = "", **environ: str) -> None:
        self.output = output
        self._mark = f"{os.getpid()}-{time.monotonic_ns()}"
        marks = {MARK: self._mark, RUN: run, "SPARK_DAEMON_JAVA_OPTS": _java("SPARK_DAEMON_JAVA_OPTS")}
        with output.open("wb") as file:
            self._popen = subprocess.Popen(  # noqa: S603  (our own programs)
                [*command],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment(**marks, **environ),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of the program itself."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended (a frozen one has not)."""
        return self._popen.poll() is None

    @property
    def code(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._popen.poll()

    @property
    def text(self) -> str:
        """All it has said."""
        return self.output.read_text("utf-8", "replace")

    @property
    def lines(self) -> list[str]:
        """What it has said in whole lines: the last one may be half written, as long as it runs and if it is killed."""
        return self.text.split("\n")[:-1]

    def family(self) -> list[int]:
        """Itself and all that it has started, while they live."""
        return sorted({*marked(MARK, self._mark), *([self.pid] if self.running else [])})

    def state(self) -> str:
        """What each process of the family is at: its command and its state, and what the threads of a JVM wait for."""
        lines = []
        for pid in self.family():
            command = command_line(pid)
            lines.append(f"process {pid} ({_state(pid)}): {command[-300:]}")
            if "java" in command.partition(" ")[0] and (jstack := shutil.which("jstack")):
                with suppress(subprocess.TimeoutExpired):
                    dump = subprocess.run(  # noqa: S603
                        [jstack, str(pid)], capture_output=True, text=True, timeout=30, check=False
                    )
                    lines.append((dump.stdout + dump.stderr)[-20_000:])
        return "\n".join(lines)

    def succeed(self, timeout: float = _HANGS_S) -> str:
        """Wait for its end, for so many seconds, which must be a good one; its output. Raises `AssertionError`."""
        try:
            code = self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            state = self.state()
            self.kill()
            raise AssertionError(
                f"still running after {timeout} s:\n{self.text[-_SHOWN:]}\n{state}"
            ) from None
        if code:
            raise AssertionError(f"exit code {code}:\n{self.text[-_SHOWN:]}")
        return self.text

    def until(self, condition: Callable[[], bool], what: str, timeout: float = _HANGS_S) -> None:
        """Wait until ``condition`` holds while the program is running. Raises `AssertionError`."""
        end = time.monotonic() + timeout
        while not condition():
            if not self.running:
                raise AssertionError(f"ended before {what}:\n{self.text[-_SHOWN:]}")
            if time.monotonic() >= end:
                raise AssertionError(f"no {what} after {timeout} s:\n{self.text[-_SHOWN:]}")
            time.sleep(0.02)

    def kill(self, sent: signal.Signals = signal.SIGKILL) -> None:
        """SIGKILL to all of the family; after another signal to its session, if that is asked for, and its end."""
        if sent is not signal.SIGKILL:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, sent)
            self._popen.wait(30)
        while family := self.family():
            send(family, signal.SIGKILL)
            self._popen.poll()
            time.sleep(0.01)
        self._popen.wait(30)

    def kill_alone(self) -> None:
        """SIGKILL to the program alone: what it has started finds out by itself, or goes on for a while."""
        send([self.pid], signal.SIGKILL)
        self._popen.wait(30)


@contextmanager
def running(command: Sequence[str], output: Path, **environ: str) -> Iterator[Process]:
    """The program while it is needed; killed afterwards, with all that it has started."""
    process = Process(command, output, **environ)
    try:
        yield process
    finally:
        process.kill()


def send(pids: Iterable[int], number: signal.Signals) -> int:
    """A signal to each of them; how many were there."""
    reached = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            reached += 1
    return reached


def _living() -> Iterator[tuple[int, int]]:
    """Process and parent of all that are no zombies."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The second field, the command in brackets, may contain blanks.
            state, parent = path.read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
            if state not in "ZX":
                yield int(path.parent.name), int(parent)


def _state(pid: int) -> str:
    """The letter of its state, and what it waits for in the kernel."""
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
        return f"{state}, {Path(f'/proc/{pid}/wchan').read_text()}"
    return "ended"


def marked(name: str, value: str) -> list[int]:
    """Living processes with that in their environment."""
    variable, pids = f"{name}={value}".encode(), []
    for pid, _ in _living():
        with suppress(OSError):
            if variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                pids.append(pid)
    return pids


def descendants(pid: int) -> list[int]:
    """All that the process has started, and they, and so on."""
    children: dict[int, list[int]] = defaultdict(list)
    for process, parent in _living():
        children[parent].append(process)
    pids: list[int] = []
    waiting = [pid]
    while waiting:
        more = children[waiting.pop()]
        pids += more
        waiting += more
    return pids


def command_line(pid: int) -> str:
    """Its command, "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
