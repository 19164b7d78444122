"""``eoslog`` on a terminal, and the same on a pipe: only a terminal gets drawn tables, help, errors and progress."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from spark_eos import Admin, Producer
from spark_eos.cli import output
from spark_eos.cli.command import main
from spark_eos.cli.progress import Progress
from spark_eos.cli.usage.table import Columns
from spark_eos.errors.counting import counted

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def url(log_url):
    Admin(log_url).create_topic("orders", 2)
    with Producer(log_url, {"transactional.id": "billing"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"x", partition=0)
        producer.commit_transaction()
    return log_url


def test_one_of_a_thing_is_not_many():
    assert [counted(number, "file") for number in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert counted(1, "entry", "entries") == "1 entry"
    assert counted(3, "entry", "entries") == "3 entries"


@contextmanager
def standard_streams(*descriptors):
    """Those of this process are these, to its end; the variables of its environment are what they were then."""
    kept, streams = [os.dup(number) for number in range(3)], (sys.stdin, sys.stdout, sys.stderr)
    try:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")
        )
        with mock.patch.dict(os.environ):
            yield
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


def read_to_the_end(descriptor):
    shown = b""
    with suppress(OSError):  # The other side of a terminal has ended.
        while part := os.read(descriptor, 65_536):
            shown += part
    os.close(descriptor)
    return shown


def exit_code(arguments):
    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code


@contextmanager
def terminal(columns):
    screen, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    try:
        yield screen, side
    finally:
        os.close(side)


@contextmanager
def pipe():
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(writing)


OF_A_TERMINAL = {"TERM": "xterm-256color"}
OF_ANOTHER_TERMINAL = ("COLUMNS", "LINES", "NO_COLOR")


def on_terminal(*arguments, columns=120, code=0, out_is_terminal=True, **environment):
    """What the command writes to a terminal of that many columns; and to a pipe, if that is its standard output.

    It runs in this process, which is quicker.
    """
    with ThreadPoolExecutor() as readers, terminal(columns) as (screen, side), pipe() as (reading, writing):
        shown, piped = (readers.submit(read_to_the_end, one) for one in (screen, reading))
        with standard_streams(side, side if out_is_terminal else writing, side):
            for name in OF_ANOTHER_TERMINAL:
                os.environ.pop(name, None)
            os.environ.update({**OF_A_TERMINAL, **environment})
            ended = exit_code(arguments)
    assert ended == code
    return shown.result().decode().replace("\r\n", "\n"), piped.result().decode()


def on_terminal_in_a_process(*arguments, columns=120):
    environment = {name: text for name, text in os.environ.items() if name not in OF_ANOTHER_TERMINAL}
    with ThreadPoolExecutor() as readers, terminal(columns) as (screen, side):
        shown = readers.submit(read_to_the_end, screen)
        command = [sys.executable, "-m", "spark_eos", *arguments]
        subprocess.run(
            command, stdin=side, stdout=side, stderr=side, env={**environment, **OF_A_TERMINAL}, check=True
        )
    return shown.result().decode().replace("\r\n", "\n")


def on_pipe(*arguments, code=0):
    with (
        ThreadPoolExecutor() as readers,
        pipe() as (reading, out),
        pipe() as (reading_errors, err),
        Path(os.devnull).open() as nothing,
    ):
        shown = [readers.submit(read_to_the_end, one) for one in (reading, reading_errors)]
        with standard_streams(nothing.fileno(), out, err):
            ended = exit_code(arguments)
    stdout, stderr = (one.result().decode() for one in shown)
    assert ended == code
    assert "\x1b" not in stdout + stderr
    return SimpleNamespace(stdout=stdout, stderr=stderr)


def test_a_process_of_its_own_writes_the_same(url):
    shown = on_terminal_in_a_process("topics", url)
    assert "\x1b[1m" in shown
    assert shown == on_terminal("topics", url)[0]


def test_a_table(url):
    shown, _ = on_terminal("topics", url)
    assert "\x1b[1m" in shown, "the header is bold"
    assert _CONTROL.sub("", shown).splitlines() == [
        "╭────────┬────────────┬─────────╮",
        "│ TOPIC  │ PARTITIONS │ OFFSETS │",
        "├────────┼────────────┼─────────┤",
        "│ orders │          2 │       2 │",
        "╰────────┴────────────┴─────────╯",
    ]
    assert on_pipe("topics", url).stdout == "TOPIC   PARTITIONS  OFFSETS\norders  2           2\n"


def test_a_table_that_is_too_wide_becomes_a_list_for_each_row(url):
    shown, _ = on_terminal("transactions", "describe", url, "--transactional-id", "billing", columns=80)
    lines = _CONTROL.sub("", shown).splitlines()
    assert re.fullmatch(r"│ TransactionState +│ CompleteCommit +│", lines[5])
    assert all(len(line) <= 80 for line in lines)
    assert "TransactionalId" in _CONTROL.sub(
        "", on_terminal("transactions", "find-hanging", url, columns=60)[0]
    )


@pytest.mark.parametrize("columns", [40, 20])
def test_on_a_narrow_terminal_nothing_is_cut(url, columns):
    """Names of columns and cells go on in the next line; a row is a box of its own."""
    command = ("transactions", "describe", url, "--transactional-id", "billing")
    lines = _CONTROL.sub("", on_terminal(*command, columns=columns)[0]).splitlines()
    assert max(map(len, lines)) <= columns
    parts = [[part.strip() for part in line.split("│")[1:3]] for line in lines if line.startswith("│")]
    names, cells = ("".join(column).replace(",", "") for column in zip(*parts, strict=True))
    expected = [re.split("  +", line) for line in on_pipe(*command).stdout.splitlines()]
    assert [names, cells] == ["".join(texts).replace(",", "") for texts in expected]


def test_without_colours(url):
    for command, code in ((("topics", url), 0), (("--help",), 0), (("topics", url, "--jsn"), 2)):
        shown, _ = on_terminal(*command, code=code, NO_COLOR="1")
        numbers = {number for codes in re.findall(r"\x1b\[([0-9;]*)m", shown) for number in codes.split(";")}
        assert numbers <= {"", "0", "1", "2", "22"}, "bold and faint are no colours"


def test_text_is_the_same_on_a_terminal_and_json_too(url):
    for arguments in (("dump", url), ("topics", url, "--json"), ("groups", "list", url, "--json")):
        assert on_terminal(*arguments)[0] == on_pipe(*arguments).stdout
    assert re.fullmatch(
        r'\{"topic": "orders", "topic_id": "[0-9a-f-]{36}", "partitions": 2, "offsets": 2\}\n',
        on_pipe("topics", url, "--json").stdout,
    )


def test_records_do_not_steer_the_terminal(url):
    with Producer(url) as producer:
        producer.send("orders", b"\x1b]0;owned\x07", partition=1)
    shown, _ = on_terminal("consume", url, "orders", "--partition", "1")
    assert shown == "\\x1b]0;owned\\x07\n"


def test_help_and_wrong_usage(url):
    assert "╭─ Commands ─" in _CONTROL.sub("", on_terminal("--help")[0])
    wrong = _CONTROL.sub("", on_terminal("topics", url, "--jsn", code=2)[0])
    assert "╭─ Error ─" in wrong
    assert "--json" in wrong
    assert on_pipe("topics", url, "--jsn", code=2).stderr.startswith("Usage: eoslog topics list [OPTIONS] ")


def test_an_error_is_one_line_everywhere(url):
    shown, _ = on_terminal("describe", url, "ordrs", code=1)
    assert shown.startswith("eoslog: ")
    assert shown == on_pipe("describe", url, "ordrs", code=1).stderr


def test_what_is_written_to_a_file_is_plain_while_progress_is_on_the_terminal(url):
    shown, piped = on_terminal("verify", url, out_is_terminal=False)
    assert piped == on_pipe("verify", url).stdout
    assert "entries: 5 read" not in shown


class Out(io.StringIO):
    def __init__(self, *, tty):
        super().__init__()
        self.tty = tty

    def isatty(self):
        return self.tty


def test_progress_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    now, out = [0.0], Out(tty=True)
    with Progress(out, lambda: now[0]) as progress:
        progress.show("too early")
        assert out.getvalue() == ""
        now[0] += 1
        progress.count("entries", 3, 99)
        progress.clear()
        assert "entries: 3 of 99" in out.getvalue()
        assert "━" in out.getvalue(), "a bar"
        counted = len(out.getvalue())
        now[0] += 1
        progress.show("waiting [for] readers")
    assert "waiting [for] readers" in out.getvalue()
    assert "━" not in out.getvalue()[counted:], "no bar where it is not known how much there is"
    assert out.getvalue().endswith("\x1b[2K"), "nothing is left standing"
    assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h") == 2, "the cursor is back"


def test_progress_elsewhere():
    now, out = [0.0], Out(tty=False)
    with Progress(out, lambda: now[0]) as progress:
        for number in range(100):
            now[0] += 0.15
            progress.count("entries", number, 99)
        now[0] += 10
        progress.count("data files", 99, 99)
        now[0] += 10
        progress.show("waiting for readers")
    assert out.getvalue() == "entries: 66 of 99\ndata files: 99\nwaiting for readers\n", "every ten seconds"


def test_cells_without_a_value(capsys):
    output.print_table(Columns("show", {"A": "One.", "B": "Another."}), [(None, 1), ("", "long")])
    assert capsys.readouterr().out == "A  B\n-  1\n-  long\n"
