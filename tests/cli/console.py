"""What tests of ``eoslog produce`` and ``consume`` share: the command in this process and in one of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from spark_eos.cli.command import main

ROOT = Path(__file__).parent.parent.parent


def eoslog(*arguments, stdin=b"", code=0, prefix=()):
    """The command in a process of its own; its output is bytes."""
    command = [*prefix, sys.executable, "-m", "spark_eos", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    assert done.returncode == code, done.stderr.decode()
    return done


class Here:
    """The command in this process, which is quicker: lines come from a file."""

    def __init__(self, folder, capfdbinary):
        self._file, self._capture = folder / "lines", capfdbinary

    def produce(self, url, topic, data, *arguments, code=0):
        """Standard output, or standard error if it fails with ``code``."""
        self._file.write_bytes(data)
        return self.run("produce", url, topic, "--file", str(self._file), *arguments, code=code)

    def run(self, *arguments, code=0):
        assert main([str(one) for one in arguments]) == code
        shown = self._capture.readouterr()
        return shown.err.decode() if code else shown.out

    def consume(self, url, topic, *arguments):
        return self.run("consume", url, topic, *arguments)
