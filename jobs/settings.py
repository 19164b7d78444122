"""What the jobs share: their settings (command line and conf/flights.ini), their Spark, their last words."""

from __future__ import annotations

import argparse
import configparser
import difflib
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_eos import Admin, require_own_log, start_query
from spark_eos.errors import EosLogError

__all__ = [
    "Setting",
    "existing",
    "positive",
    "read_settings",
    "require_topic",
    "run",
    "spark_session",
    "write",
]

_DEFAULT_FILE = Path(__file__).resolve().parent.parent / "conf" / "flights.ini"
_REMOTE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


class Setting(NamedTuple):
    """One setting: its name in the INI file (``max_files``), which is ``--max-files`` on the command line."""

    name: str
    help: str
    kind: Callable[[str], Any] = str


def positive(text: str) -> int:
    """A whole number from 1 up."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a number from 1 up")
    return number


_COMMON = (
    Setting("log", "the log: a folder or URL"),
    Setting("checkpoints", "the folder in which every job keeps its checkpoint, under its own name"),
    Setting("transactional_id", "who the job is to the log; the same one in every run"),
    Setting("partitions", "partitions of topics that are created", positive),
    Setting("trigger", "available-now (take what is there, then end), or an interval such as '10 seconds'"),
)


def read_settings(
    job: str, description: str, own: Sequence[Setting], arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """The settings of ``job``: the command line's, else those of the section ``[job]`` of the INI file.

    Ends the program with a message that names the setting if one is missing, unknown or wrong.
    """
    parser = argparse.ArgumentParser(prog=f"{job}.py", description=description)
    parser.add_argument(
        "--settings", type=Path, default=_DEFAULT_FILE, help="INI file (default: %(default)s)"
    )
    settings = (*_COMMON, *own)
    for setting in settings:
        flag = f"--{setting.name.replace('_', '-')}"
        parser.add_argument(flag, type=setting.kind, help=setting.help, metavar="VALUE")
    chosen, _ = parser.parse_known_args(arguments)
    # Text defaults are converted like arguments, so that both give the same errors.
    parser.set_defaults(**_read_section(parser, chosen.settings, job, [setting.name for setting in settings]))
    found = parser.parse_args(arguments)
    for setting in settings:
        if getattr(found, setting.name) in {None, ""}:
            parser.error(
                f"{setting.name} is missing ({setting.help}): give --{setting.name.replace('_', '-')}, or set it in "
                f"section [{job}] of {found.settings}"
            )
    found.log = _absolute(found.log)
    found.checkpoint = f"{_absolute(found.checkpoints)}/{job}"
    return found


def existing(text: str) -> str:
    """The path of a file or folder, which must be there; a URL is left to Spark."""
    if text and not _REMOTE.match(text) and not Path(text).exists():
        raise argparse.ArgumentTypeError(f"there is no file or folder {os.path.abspath(text)}")  # noqa: PTH100
    return _absolute(text)


def require_topic(log: str, topic: str) -> None:
    """Raise `EosLogError`, in a second and without Spark's traceback, if the log or the topic is not there."""
    with Admin(log) as admin:
        admin.describe_topic(topic)


def spark_session(job: str) -> SparkSession:
    """The session, with those settings on which the jobs' results depend."""
    # Timestamps in JSON are written in the session's time zone: the output must not depend on the machine.
    return SparkSession.builder.appName(job).config("spark.sql.session.timeZone", "UTC").getOrCreate()


def write(rows: DataFrame, settings: argparse.Namespace, topic: str | None = None) -> None:
    """Write the stream to the log until the trigger says that all is done.

    ``topic`` None: the rows' column of that name says where each goes.
    """
    # Where there is nothing to read the sink is not called, and the job would say that all is done.
    require_own_log(settings.checkpoint, settings.log)
    # The id is fixed, so that a run that was thought dead is fenced, and a lost checkpoint does not start over.
    writer = (
        rows.writeStream.format("eoslog")
        .queryName(settings.transactional_id)
        .option("checkpointLocation", settings.checkpoint)
        .option("transactional.id", settings.transactional_id)
        .option("num.partitions", settings.partitions)
    )
    if topic is not None:
        writer = writer.option("topic", topic)
    if settings.trigger == "available-now":
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=settings.trigger)
    start_query(lambda: writer.start(settings.log)).awaitTermination()
    print(f"{settings.transactional_id}: done, {_batches(settings.checkpoint)} batches so far")


def run(main: Callable[[], None]) -> None:
    """Run a job. An error is printed in one line, with the exit status 1 that a traceback has."""
    try:
        main()
    except EosLogError as error:
        sys.exit(f"error: {error}")
    except PySparkException as error:
        sys.exit(f"{error}\n\nerror: {_last_words(str(error))}")


def _read_section(parser: argparse.ArgumentParser, path: Path, job: str, known: list[str]) -> dict[str, str]:
    reader = configparser.ConfigParser(interpolation=None)
    try:
        if not reader.read(path, encoding="utf-8"):
            parser.error(f"there is no settings file {path}: give one with --settings")
    except (configparser.Error, UnicodeDecodeError) as error:
        parser.error(f"{path}: {error}")
    if not reader.has_section(job):
        return {name: value for name, value in reader.defaults().items() if name in known}
    section = dict(reader[job])
    for name in section:
        if name not in known and name not in reader.defaults():
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            parser.error(f"{path}, section [{job}]: unknown setting {name!r}; {hint}")
    return {name: value for name, value in section.items() if name in known}


def _absolute(path: str) -> str:
    """Spark and its workers need not have the folder in which the job was started."""
    return path if not path or _REMOTE.match(path) else os.path.abspath(path)  # noqa: PTH100


def _batches(checkpoint: str) -> int:
    folder = Path(checkpoint) / "commits"
    return sum(path.name.isdecimal() for path in folder.iterdir()) if folder.is_dir() else 0


def _last_words(text: str) -> str:
    """The log's own error in what Spark reports, else the first line."""
    own = [line for line in text.splitlines() if line.startswith("spark_eos.errors.")]
    return own[-1].partition(": ")[2] if own else text.strip().splitlines()[0]
