"""What tests of the command share: it runs in this process, or in one of its own."""

from __future__ import annotations

import json
import re
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


class Listing:
    """A command that says something of many things, in this process."""

    def __init__(self, command):
        self.command = command

    def run(self, capsys, *arguments):
        assert main([self.command, *arguments]) == 0
        return capsys.readouterr().out

    def rows(self, capsys, *arguments):
        """The cells of the table, its header first."""
        return [re.split(r"  +", line) for line in self.run(capsys, *arguments).splitlines()]

    def lines(self, capsys, *arguments):
        """Its lines of JSON."""
        return [json.loads(line) for line in self.run(capsys, *arguments, "--json").splitlines()]

    def fails(self, capsys, *arguments):
        """The error."""
        assert main([self.command, *arguments]) == 1
        return capsys.readouterr().err
