"""``eoslog maintain`` and ``eoslog vacuum``: what keeps a log quick and small; ``eoslog delete-records``."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from spark_eos.cli.arguments import Commands, add_command, commas
from spark_eos.cli.tables import print_json, print_table
from spark_eos.clients.admin import Admin
from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.errors import ConfigError, EosLogError, NotALogError
from spark_eos.log.log import Log
from spark_eos.maintenance.maintain import STEPS, Maintainer, check_steps, size_text
from spark_eos.maintenance.rolling import TAIL_ROWS
from spark_eos.maintenance.vacuum import MIN_AGE_S, Vacuum
from spark_eos.protocol.rules.sealing import PAGE_ROWS
from spark_eos.protocol.types import TopicPartition

__all__ = ["add_commands"]

_QUIET_S = 10.0
"""How often a line is written about what is being done, where there is no terminal to show it in place."""

_REDRAW_S = 0.1
_WIDTH = 100


def add_commands(commands: Commands) -> None:
    """Add the commands that maintain a log."""
    maintain = add_command(
        commands,
        "maintain",
        _maintain,
        "snapshots, retention, rolling, compaction, vacuum: one pass of everything",
    )
    maintain.add_argument(
        "--watch", type=_seconds, metavar="SECONDS", help="a pass every so many seconds, until it is stopped"
    )
    maintain.add_argument(
        "--only",
        type=commas,
        action="extend",
        metavar="STEP[,STEP]",
        help=f"of {', '.join(STEPS)}; repeatable",
    )
    maintain.add_argument(
        "--trust-clock", action="store_true", help="retention believes this machine's clock whatever it says"
    )
    maintain.add_argument(
        "--delete-names",
        type=_seconds,
        metavar="SECONDS",
        help="delete the names of entries for good, so long after they were retired, a day at least (default: never)",
    )
    vacuum = add_command(commands, "vacuum", _vacuum, "delete files without a reference")
    for command in (maintain, vacuum):
        command.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        command.add_argument(
            "--min-age",
            type=_seconds,
            default=MIN_AGE_S,
            metavar="SECONDS",
            help="writers that started earlier than that and have not committed are refused (default: a day)",
        )
    delete = add_command(
        commands, "delete-records", _delete_records, "records below an offset are no longer readable"
    )
    delete.add_argument(
        "--to",
        type=_place,
        nargs="+",
        action="extend",
        metavar="TOPIC:PARTITION=OFFSET",
        help="the new first offset; -1: the last stable one",
    )
    delete.add_argument(
        "--offset-json-file",
        metavar="FILE",
        help='Kafka\'s: {"partitions": [{"topic", "partition", "offset"}]}',
    )


def _maintain(chosen: argparse.Namespace) -> None:
    only = check_steps(chosen.only or STEPS)
    with _stoppable() as stop, _Progress() as progress:
        maintainer = Maintainer(
            Log.open(chosen.url, settings=chosen.settings),
            only=only,
            dry_run=chosen.dry_run,
            min_age_s=chosen.min_age,
            trust_clock=chosen.trust_clock,
            heartbeat_name=heartbeat_name,
            # What is rolled all the time waits for a boundary of the log, which seals as many rows.
            delete_names_s=chosen.delete_names,
            tail_rows=TAIL_ROWS if chosen.watch is None else PAGE_ROWS,
            tell=lambda text: _go_on(stop, progress, text),
        )
        while True:
            failed = _pass(maintainer, progress, chosen)
            if chosen.watch is None:
                if failed is not None:
                    raise failed
                return
            _sleep(chosen.watch, stop, progress)


def _pass(maintainer: Maintainer, progress: _Progress, chosen: argparse.Namespace) -> EosLogError | None:
    """One pass, with a line for each step; the last error. With --watch it tries again, unless the log is gone."""
    failed = None
    try:
        for done in maintainer.run(wait=chosen.watch is None):
            progress.clear()
            failed = done.error or failed
            if chosen.json:
                print_json({"step": done.step, "text": done.text, "failed": done.error is not None})
            else:
                print(f"{done.step:<10} {done.text}")
            sys.stdout.flush()
    except NotALogError:
        raise
    except EosLogError as error:
        progress.clear()
        print(f"eoslog: {error}", file=sys.stderr)
        failed = error
    return failed


def _vacuum(chosen: argparse.Namespace) -> None:
    with _stoppable() as stop, _Progress() as progress:
        vacuum = Vacuum(
            Log.open(chosen.url, settings=chosen.settings),
            min_age_s=chosen.min_age,
            heartbeat_name=heartbeat_name,
            tell=lambda text: _go_on(stop, progress, text),
        )
        if chosen.dry_run:
            left = vacuum.look()
            progress.clear()
            if chosen.json:
                for one in left:
                    print_json({"kind": one.kind, "name": one.name, "bytes": one.size})
                return
            if left:
                print_table(("KIND", "NAME", "BYTES"), [(one.kind, one.name, one.size) for one in left])
            total = size_text(sum(one.size for one in left))
            print(f"{len(left)} objects, {total}: nothing was changed")
            return
        done = vacuum.run()
        progress.clear()
        if chosen.json:
            print_json({"objects": done.objects, "bytes": done.size})
        else:
            print(f"deleted {sum(done.objects.values())} objects, {size_text(done.size)}")


def _delete_records(chosen: argparse.Namespace) -> None:
    offsets = dict(chosen.to or ())
    if chosen.offset_json_file is not None:
        offsets.update(_offsets_of(chosen.offset_json_file))
    if not offsets:
        raise ConfigError("say which records: --to TOPIC:PARTITION=OFFSET, or --offset-json-file FILE")
    starts = Admin(chosen.url, chosen.settings).delete_records(offsets)
    if chosen.json:
        for at, start in starts.items():
            print_json({**at._asdict(), "start": start})
        return
    print_table(("TOPIC", "PARTITION", "START"), [(*at, start) for at, start in starts.items()])


def _offsets_of(path: str) -> dict[TopicPartition, int]:
    try:
        listed = json.loads(Path(path).read_text(encoding="utf-8"))["partitions"]
        return {TopicPartition(str(at["topic"]), int(at["partition"])): int(at["offset"]) for at in listed}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f'{path} is not {{"partitions": [{{"topic": "t", "partition": 0, "offset": 7}}]}}: {error!r}'
        ) from error


def _place(text: str) -> tuple[TopicPartition, int]:
    found = re.fullmatch(r"(.+):([0-9]{1,9})=(-1|[0-9]{1,18})", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC:PARTITION=OFFSET")
    return TopicPartition(found[1], int(found[2])), int(found[3])


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return seconds


# -- Stopping, and showing what is done -----------------------------------------------------------------


class _Stop:
    """Set by Ctrl-C and SIGTERM. What is being done is finished first; a second Ctrl-C ends it at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


class _Stopped(BaseException):
    """The command has to end: as KeyboardInterrupt, so that no error handler stops it."""


@contextmanager
def _stoppable() -> Iterator[_Stop]:
    stop = _Stop()
    try:
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # Not the main thread: the caller ends it.
        yield stop
        return
    try:
        yield stop
    except _Stopped:
        name = signal.Signals(stop.signal or signal.SIGINT).name
        print(f"eoslog: stopped by {name}; nothing is left half done", file=sys.stderr)
        raise SystemExit(128 + (stop.signal or signal.SIGINT)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _go_on(stop: _Stop, progress: _Progress, text: str) -> None:
    if stop.signal is not None:
        raise _Stopped
    progress.show(text)


def _sleep(seconds: float, stop: _Stop, progress: _Progress) -> None:
    end = time.monotonic() + seconds
    while True:
        rest = end - time.monotonic()
        if stop.signal is not None:
            raise _Stopped
        if rest <= 0:
            return
        if progress.in_place:
            progress.show(f"next pass in {rest:.0f} s")
        time.sleep(min(rest, 0.2))


class _Progress:
    """What is being done: in place on a terminal, else a line now and then, on standard error."""

    def __init__(self) -> None:
        self.in_place = sys.stderr.isatty()
        self._next = time.monotonic() + (0.0 if self.in_place else _QUIET_S)
        self._shown = False

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (_REDRAW_S if self.in_place else _QUIET_S)
        if self.in_place:
            print(f"\r\x1b[K{text[:_WIDTH]}", end="", file=sys.stderr, flush=True)
            self._shown = True
        else:
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False
