"""An object store in a process of its own: while delta-rs waits for an answer, no other thread of this process runs."""

from __future__ import annotations

import fnmatch
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from spark_eos.storage import Settings
from verification.object_server import ObjectServer, serving


class Refusing:
    """The store from outside: its settings, and which of its requests it refuses."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        keys = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}
        self.settings = Settings({**keys, "s3.endpoint": self._answer()})

    def refuse(self, number: int, pattern: str) -> None:
        """Refuse the request with this number, from 0 on, of those that read an object of such a name."""
        self._tell(f"{number} {pattern}")

    def heal(self) -> int:
        """Refuse nothing any more. How many requests have matched."""
        return int(self._tell("-1 *"))

    def _tell(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def refusing_store() -> Iterator[Refusing]:
    """One with a bucket that is called ``bucket``."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.extensions.tables.refusing"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Refusing(process)


class _Server(ObjectServer):
    number, pattern, count = -1, "*", 0

    def __post_init__(self):
        super().__post_init__()
        self.lock = threading.RLock()  # `refuse` is called while a request is served.

    def refusal_of(self, verb, key):
        if verb == "read" and fnmatch.fnmatch(key, self.pattern):
            self.count += 1
            if self.count - 1 == self.number:
                self.refuse(verb, 403, "AccessDenied", key=key, times=1)
        return super().refusal_of(verb, key)


if __name__ == "__main__":
    with serving(_Server(buckets={"bucket": {}})) as server:
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        for line in sys.stdin:
            counted, server.count = server.count, 0
            number, server.pattern = line.split()
            server.number = int(number)
            sys.stdout.write(f"{counted}\n")
            sys.stdout.flush()
