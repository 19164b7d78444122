"""A job as a process of its own, that can be killed with everything it has started."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["ROOT", "Job", "JobFailedError"]

ROOT = Path(__file__).resolve().parent.parent
_OTHER_SPARK = {"SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"}
_POLL_S = 0.001
_TIMEOUT_S = 600


class JobFailedError(RuntimeError):
    """The job ended by itself, and not well."""


class Job:
    """``spark-submit`` of ``jobs/<name>.py``; what it prints goes to ``output``. Dies with this program."""

    def __init__(self, name: str, arguments: Sequence[str], output: Path) -> None:
        self.name = name
        self.output = output
        submit = Path(sys.executable).parent / "spark-submit"
        # Workers have to run this very Python, with this package, from whatever folder.
        environment = {
            **{name: value for name, value in os.environ.items() if name not in _OTHER_SPARK},
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        }
        properties = ROOT / "conf" / "spark-defaults.conf"
        command = [
            submit,
            "--master",
            "local[2]",
            "--properties-file",
            properties,
            ROOT / "jobs" / f"{name}.py",
        ]
        with output.open("ab") as stream:
            self._process = subprocess.Popen(  # noqa: S603
                [*map(str, command), *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        atexit.register(self.kill)

    def wait(self) -> None:
        """Until it has ended. Raises `JobFailedError` unless it ended well."""
        try:
            code = self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise JobFailedError(
                f"{self.name} was not done after {_TIMEOUT_S} s; see {self.output}"
            ) from None
        atexit.unregister(self.kill)
        if code:
            last = self.output.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            raise JobFailedError(
                "\n".join([f"{self.name} ended with status {code}; the end of {self.output}:", *last])
            )

    def wait_for(self, moment: Callable[[], bool]) -> bool:
        """Until ``moment`` has come, looked for every millisecond; False if the job ended before."""
        deadline = time.monotonic() + _TIMEOUT_S
        while not moment():
            if self._process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise JobFailedError(f"{self.name} did not come on for {_TIMEOUT_S} s; see {self.output}")
            time.sleep(_POLL_S)
        return True

    def kill(self) -> None:
        """SIGKILL to the driver at once, then to all that is left of its session: Python workers too.

        They have a process group of their own, and would otherwise finish what they are at.
        """
        atexit.unregister(self.kill)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        while left := _session(self._process.pid):
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(_POLL_S)


def _session(leader: int) -> list[int]:
    """Living processes of the session, where the system tells (Linux); elsewhere workers end by themselves."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The second field, the command in brackets, may contain blanks.
            state, _, _, session = (
                path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:4]
            )
            if int(session) == leader and state not in "ZX":
                found.append(int(path.parent.name))
    if not found and sys.platform != "linux":
        time.sleep(2)
    return found
