"""The guide of a migration, played: its programs, and its commands line by line, in a folder with nothing else."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from spark_eos.cli.command import main
from verification.processes import Process, environment, send, spark_submit

PAGE = Path(__file__).parents[3] / "docs/extensions/mirror/migrating.md"
CTRL_C = "# Ctrl-C: "
JAVA = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
}
STOPPED = {0, 128 + signal.SIGINT}
"""How programs end that were ended by Ctrl-C."""


class Guide:
    """``replaced``: texts of the page that are others here, such as the address of the broker."""

    def __init__(self, folder, broker, connectors, replaced):
        self.folder = folder
        self._broker = broker
        self._connectors = connectors
        text = PAGE.read_text("utf-8")
        for old, new in replaced.items():
            assert old in text, old
            text = text.replace(old, new)
        for program, code in re.findall(
            r"^```python\n# (\w+\.py)\n(.*?)^```", text, re.DOTALL | re.MULTILINE
        ):
            (folder / program).write_text(code)
        text = re.sub(r"^```python\n.*?^```\n", "", text, flags=re.DOTALL | re.MULTILINE)
        parts = re.split(r"^##+ (.*)$", text, flags=re.MULTILINE)
        self._left = {
            name: [line for block in _blocks(body) for line in block.splitlines()]
            for name, body in zip(parts[1::2], parts[2::2], strict=True)
        }
        self._left = {name: lines for name, lines in self._left.items() if lines}
        self._running = {}
        self._started = 0

    @property
    def left(self):
        """The lines that were not played yet, by heading."""
        return {name: lines for name, lines in self._left.items() if lines}

    def play(self, heading, *, until=None):
        """Play what is left of a section, or of it what comes before the first line with ``until`` in it."""
        lines = self._left[heading]
        assert lines, f"all of {heading!r} was played"
        while lines and (until is None or until not in lines[0]):
            self.do(lines.pop(0))

    def next(self, heading):
        """The next line of a section."""
        return self._left[heading][0]

    def skip(self, heading, text):
        """A line that is not for here."""
        line = self._left[heading].pop(0)
        assert text in line

    def do(self, line):
        """One line, which must succeed."""
        if line.startswith(CTRL_C):
            self.stop(line.removeprefix(CTRL_C))
        elif line.startswith("python ") or (re.search(" mirror (in|out) ", line) and "--once" not in line):
            self.start(line)
        else:
            self.run(line)

    # -- Programs that run until they are stopped --------------------------------------------------------------------

    def start(self, line):
        assert line not in self._running, line
        self._started += 1
        self._running[line] = Process(self._command(line), self.folder / f"output-{self._started}")
        return self._running[line]

    def stop(self, line):
        """As Ctrl-C does; it has to end well."""
        process = self._running.pop(line)
        assert process.running, process.text
        process.kill(signal.SIGINT)
        assert process.code in STOPPED, process.text

    def process(self, line):
        process = self._running[line]
        assert process.running, process.text
        return process

    def crash(self, line, *, again=True):
        """SIGKILL, and a new start."""
        self.process(line).kill()
        del self._running[line]
        if again:
            self.start(line)

    def wait(self, until, seconds=300):
        """What ``until`` gives, once it is something, while all programs run."""
        end = time.monotonic() + seconds
        while not (found := until()):
            assert time.monotonic() < end, {line: one.text[-3000:] for line, one in self._running.items()}
            for line, process in self._running.items():
                assert process.running, f"{line}: {process.text}"
            time.sleep(0.05)
        return found

    def fails(self, line):
        """It ends by itself, with an error; what it has said."""
        process = self.start(line)
        while process.running:
            time.sleep(0.05)
        del self._running[line]
        assert process.code == 1, process.text
        return process.text

    def end(self):
        """Whatever happened."""
        for process in self._running.values():
            process.kill()

    # -- Programs that end by themselves -----------------------------------------------------------------------------

    def run(self, line, code=0):
        """To its end; what it has said on standard error. ``code`` is its exit status."""
        line, _, output = line.partition(" > ")
        program, *arguments = shlex.split(line)
        if program == "eoslog":  # In this process: a start of Python takes as long as most commands.
            status, printed, said = self._eoslog(arguments)
        else:
            status, printed, said = self._program(line)
        assert status == code, f"{line}: {status}\n{printed[-2000:]}\n{said[-4000:]}"
        if output:
            (self.folder / output).write_text(printed)
        return said

    def _eoslog(self, arguments):
        printed, said = StringIO(), StringIO()
        with redirect_stdout(printed), redirect_stderr(said):
            status = main(arguments)
        return status, printed.getvalue(), said.getvalue()

    def _program(self, line):
        done = subprocess.run(
            self._command(line),
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def succeeds(self, line):
        """Whether a command of eoslog does now."""
        return self._eoslog(shlex.split(line)[1:])[0] == 0

    def refused(self, line, error):
        """It ends with an error of this code."""
        said = self.run(line, 1)
        assert f"[{error}]" in said, said
        return said

    def crash_in_batch(self, line, checkpoint):
        """A Spark job is killed while a micro-batch is begun and is not done."""
        folder = self.folder / checkpoint
        process = self.start(line)
        while True:
            process.until(lambda: _newest(folder / "offsets") > _newest(folder / "commits"), "a micro-batch")
            family = process.family()
            send(family, signal.SIGSTOP)
            if _newest(folder / "offsets") > _newest(folder / "commits"):
                break
            send(family, signal.SIGCONT)
        self.crash(line, again=False)

    def _command(self, line):
        program, *arguments = shlex.split(line)
        if program == "eoslog":
            return [sys.executable, "-m", "spark_eos", *arguments]
        if program == "python":
            return [sys.executable, *arguments]
        if program == "spark-submit":
            jars = {}
            if arguments[0] == "--packages":
                jars = {"spark.jars": ",".join(map(str, self._connectors))}
                arguments = arguments[2:]
            return spark_submit(Path(arguments[0]), *arguments[1:], conf=jars)
        if program == "echo":
            return [program, *arguments]
        return self._broker.command(JAVA[program], *arguments)


def _newest(folder):
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def _blocks(body):
    return re.findall(r"^```bash\n(.*?)^```", body, re.DOTALL | re.MULTILINE)
