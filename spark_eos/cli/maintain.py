"""``eoslog maintain`` and ``eoslog vacuum``: what keeps a log quick and small; ``eoslog delete-records``."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from spark_eos.cli.options import ConfigFile, Json, Url, admin, commas, once, open_log
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command
from spark_eos.cli.progress import Progress
from spark_eos.cli.usage.columns import LEFT, STARTS
from spark_eos.errors import ConfigError, EosLogError, NotALogError
from spark_eos.errors.counting import counted
from spark_eos.maintenance.steps import MIN_AGE_S, STEPS, check_steps
from spark_eos.protocol.types import TopicPartition

if TYPE_CHECKING:
    from spark_eos.maintenance.maintain import Maintainer

app = typer.Typer()


def seconds(description: str) -> Any:
    """An option that takes a number of seconds. Its text says the default, if there is one."""
    return typer.Option(parser=_seconds_of, metavar="SECONDS", help=description, show_default=False)


def _seconds_of(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise typer.BadParameter(f"{text} is not a number of seconds")
    return number


def _steps_of(incomplete: str) -> list[str]:
    before, comma, prefix = incomplete.rpartition(",")
    return [f"{before}{comma}{step}" for step in STEPS if step.startswith(prefix)]


_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
_MinAge = Annotated[
    float,
    seconds("Refuse writers that started earlier than this and have not committed (default: a day)."),
]


@app.command("maintain", cls=Command)
def maintain(
    url: Url,
    watch: Annotated[
        float | None,
        seconds("Run a pass every so many seconds, until it is stopped."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STEP[,STEP]",
            help=f"Only these steps, of {', '.join(STEPS)}. Repeatable.",
            autocompletion=_steps_of,
        ),
    ] = None,
    trust_clock: Annotated[
        bool,
        typer.Option("--trust-clock", help="Let retention believe this machine's clock, whatever it says."),
    ] = False,
    delete_names: Annotated[
        float | None,
        seconds("Delete the names of retired entries after so long, at least a day (default: never)."),
    ] = None,
    dry_run: _DryRun = False,
    min_age: _MinAge = MIN_AGE_S,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Run maintenance once, or periodically (--watch).

    A pass writes snapshots, applies retention, rolls and compacts batches, and deletes files without a reference.
    """
    from spark_eos.clients.consumer.heartbeat import heartbeat_name
    from spark_eos.maintenance.maintain import Maintainer
    from spark_eos.maintenance.rolling import TAIL_ROWS
    from spark_eos.protocol.rules.sealing import PAGE_ROWS

    steps = check_steps(commas(only) or STEPS)
    with stoppable() as stop, Progress() as progress:
        maintainer = Maintainer(
            open_log(url, command_config),
            only=steps,
            dry_run=dry_run,
            min_age_s=min_age,
            trust_clock=trust_clock,
            heartbeat_name=heartbeat_name,
            # What is rolled all the time waits for a boundary of the log, which seals as many rows.
            delete_names_s=delete_names,
            tail_rows=TAIL_ROWS if watch is None else PAGE_ROWS,
            tell=teller(stop, progress),
        )
        while True:
            failed = _pass(maintainer, progress, wait=watch is None, as_json=as_json)
            if watch is None:
                if failed is not None:
                    raise failed
                return
            sleep(watch, stop, progress)


def _pass(maintainer: Maintainer, progress: Progress, *, wait: bool, as_json: bool) -> EosLogError | None:
    """One pass, with a line for each step; the last error. With --watch it tries again, unless the log is gone."""
    failed = None
    try:
        for result in maintainer.run(wait=wait):
            progress.clear()
            failed = result.error or failed
            if as_json:
                print_json({"step": result.step, "text": result.text, "failed": result.error is not None})
            else:
                print(f"{result.step:<10} {result.text}")
            sys.stdout.flush()
    except NotALogError:
        raise
    except EosLogError as error:
        progress.clear()
        print(f"eoslog: {error}", file=sys.stderr)
        failed = error
    return failed


@app.command("vacuum", cls=Command)
def vacuum(
    url: Url,
    dry_run: _DryRun = False,
    min_age: _MinAge = MIN_AGE_S,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Delete files that nothing refers to."""
    from spark_eos.clients.consumer.heartbeat import heartbeat_name
    from spark_eos.maintenance.maintain import size_text
    from spark_eos.maintenance.vacuum import Vacuum

    with stoppable() as stop, Progress() as progress:
        cleaner = Vacuum(
            open_log(url, command_config),
            min_age_s=min_age,
            heartbeat_name=heartbeat_name,
            tell=teller(stop, progress),
        )
        if dry_run:
            garbage = cleaner.look()
            progress.clear()
            if as_json:
                for item in garbage:
                    print_json({"kind": item.kind, "name": item.name, "bytes": item.size})
                return
            if garbage:
                print_table(LEFT, [(item.kind, item.name, item.size) for item in garbage])
            total = size_text(sum(item.size for item in garbage))
            print(f"{counted(len(garbage), 'object')}, {total}: nothing was changed")
            return
        summary = cleaner.run()
        progress.clear()
        if as_json:
            print_json({"objects": summary.objects, "bytes": summary.size})
        else:
            print(f"deleted {counted(sum(summary.objects.values()), 'object')}, {size_text(summary.size)}")


@app.command("delete-records", cls=Command)
def delete_records(
    url: Url,
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC:PARTITION=OFFSET...",
            help="The new first offset of a partition; -1: its last stable offset. Repeatable.",
        ),
    ] = None,
    offset_json_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help='The same in Kafka\'s form: {"partitions": [{"topic", "partition", "offset"}]}',
        ),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Delete the records before an offset."""
    places = [*map(_place, to or ())]
    if offset_json_file is not None:
        places += _offsets_of(offset_json_file)
    offsets = once(places, "--to" if offset_json_file is None else "--offset-json-file")
    if not offsets:
        raise ConfigError("say which records: --to TOPIC:PARTITION=OFFSET, or --offset-json-file FILE")
    starts = admin(url, command_config).delete_records(offsets)
    if as_json:
        for at, start in starts.items():
            print_json({**at._asdict(), "start": start})
        return
    print_table(STARTS, [(*at, start) for at, start in starts.items()])


def _offsets_of(path: str) -> list[tuple[TopicPartition, int]]:
    try:
        places = json.loads(Path(path).read_text(encoding="utf-8"))["partitions"]
        rows = [(at["topic"], at["partition"], at["offset"]) for at in places]
        for row in rows:
            if [*map(type, row)] != [str, int, int]:
                raise TypeError(f"{row}")  # noqa: TRY301
        return [(TopicPartition(topic, number), offset) for topic, number, offset in rows]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f'{path} is not {{"partitions": [{{"topic": "t", "partition": 0, "offset": 7}}]}}: {error!r}'
        ) from error


def _place(text: str) -> tuple[TopicPartition, int]:
    match = re.fullmatch(r"(.+):([0-9]{1,9})=(-1|[0-9]{1,18})", text, re.ASCII)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not TOPIC:PARTITION=OFFSET", param_hint="'--to'")
    return TopicPartition(match[1], int(match[2])), int(match[3])


# -- Stopping -------------------------------------------------------------------------------------------


class Stop:
    """Set by Ctrl-C and SIGTERM. What is being done is finished first; a second Ctrl-C ends it at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


class _Stopped(BaseException):
    """The command has to end: as KeyboardInterrupt, so that no error handler stops it."""


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Within it, Ctrl-C and SIGTERM end the command between two steps."""
    stop = Stop()
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


def teller(stop: Stop, progress: Progress) -> Callable[[str], None]:
    """Shows what is done now, unless the command has to end."""

    def tell(text: str) -> None:
        if stop.signal is not None:
            raise _Stopped
        progress.show(text)

    return tell


def until_stopped(stop: Stop) -> NoReturn:
    """Wait until the command has to end."""
    while stop.signal is None:
        time.sleep(0.2)
    raise _Stopped


def sleep(seconds: float, stop: Stop, progress: Progress) -> None:
    """Wait for the next pass, unless the command has to end."""
    end = time.monotonic() + seconds
    while True:
        remaining_s = end - time.monotonic()
        if stop.signal is not None:
            raise _Stopped
        if remaining_s <= 0:
            return
        if progress.in_place:
            progress.show(f"next pass in {remaining_s:.0f} s")
        time.sleep(min(remaining_s, 0.2))
