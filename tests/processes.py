"""Spark programs as processes of their own: started, waited for, killed, and never left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

ROOT = Path(__file__).resolve().parent.parent
SPARK_HOME = Path(pyspark.__file__).parent
_MARK = "SPARK_EOS_TEST_PROCESS"


def environment(**more: str) -> dict[str, str]:
    """For Spark programs: this Python, this project, the loopback address, and no other Spark's settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYTHONPATH"}
    }
    return kept | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }


def spark_submit(script: Path, *arguments: object, conf: dict[str, str] | None = None) -> list[str]:
    """The command line of spark-submit for ``script``."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # A short life: what the better compiler gains it would not earn back.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        **(conf or {}),
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    return [str(SPARK_HOME / "bin" / "spark-submit"), *options, str(script), *map(str, arguments)]


class Process:
    """A program whose output goes to a file; `kill` takes all that it started with it."""

    def __init__(self, command: list[str], output: Path, **environ: str) -> None:
        self.output = output
        self._mark = f"{os.getpid()}-{time.monotonic_ns()}"
        with output.open("wb") as file:
            self._popen = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=environment(**environ, **{_MARK: self._mark}), start_new_session=True,
            )  # fmt: skip

    @property
    def text(self) -> str:
        """All it has said."""
        return self.output.read_text("utf-8", "replace")

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def succeed(self, timeout: float = 150) -> str:
        """Wait for its end, which must be a good one; its output."""
        try:
            code = self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout} s:\n{self.text[-6000:]}") from None
        assert code == 0, f"exit code {code}:\n{self.text[-6000:]}"
        return self.text

    def until(self, condition: Callable[[], bool], what: str, timeout: float = 150) -> None:
        """Wait until ``condition`` holds while the process is running."""
        end = time.monotonic() + timeout
        while not condition():
            assert self.running, f"ended before {what}:\n{self.text[-6000:]}"
            assert time.monotonic() < end, f"no {what} after {timeout} s:\n{self.text[-6000:]}"
            time.sleep(0.02)

    def kill(self, sent: signal.Signals = signal.SIGKILL) -> None:
        """End it and everything that it started, in whatever session: they carry its mark."""
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, sent)
        self._popen.wait(30)
        for pid in list(self._left()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _left(self) -> Iterator[int]:
        mark = f"{_MARK}={self._mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


@contextmanager
def running(command: list[str], output: Path, **environ: str) -> Iterator[Process]:
    """The program while it is needed; killed afterwards if it has not ended."""
    process = Process(command, output, **environ)
    try:
        yield process
    finally:
        process.kill()


def free_port() -> int:
    """A port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
