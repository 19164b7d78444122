"""What the arguments of all commands have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from spark_eos.errors import ConfigError
from spark_eos.protocol.types import TopicPartition
from spark_eos.storage import NO_SETTINGS, Settings

__all__ = ["Commands", "add_command", "add_noun", "commas", "partitions", "setting", "store_settings"]

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001  (see below)
"""What ``add_subparsers`` gives; argparse has no public name for it."""


def add_noun(commands: Commands, name: str, text: str) -> Commands:
    """A command that has commands of its own: ``eoslog groups list``."""
    noun = commands.add_parser(name, help=text, description=f"{text}.".capitalize())
    return noun.add_subparsers(required=True, metavar="COMMAND")


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], None], text: str
) -> argparse.ArgumentParser:
    """A command that looks into the log at URL, with ``--json``."""
    command = commands.add_parser(name, help=text, description=f"{text}.".capitalize())
    command.add_argument("url", metavar="URL", help="the log: a folder or URL")
    command.add_argument(
        "--command-config",
        dest="settings",
        metavar="FILE",
        type=store_settings,
        default=NO_SETTINGS,
        help="settings of an object store, NAME=VALUE on each line",
    )
    command.add_argument("--json", action="store_true", help="one JSON object per line")
    command.set_defaults(run=run)
    return command


def commas(text: str) -> list[str]:
    """``a,b`` as a list: an option that may also be repeated."""
    return [part for part in text.split(",") if part]


def partitions(text: str) -> list[TopicPartition | str]:
    """Kafka's ``topic`` or ``topic:0,1``."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return [topic]
    try:
        return [TopicPartition(topic, int(number)) for number in numbers.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC or TOPIC:0,1") from None


def setting(text: str) -> tuple[str, str | None]:
    """``name=value``; nothing behind the sign takes the setting back to its default."""
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value or None


def store_settings(path: str) -> Settings:
    """The settings in a file, as Kafka's tools take them: ``name=value``; ``#`` begins a line that does not count.

    In a file and not as arguments, which all users of the machine can see.
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{path!r} cannot be read: {error}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        name, sign, value = line.partition("=")
        if line and not line.startswith("#"):
            if not sign:
                raise argparse.ArgumentTypeError(f"line {number} of {path!r} is not NAME=VALUE")
            found[name.strip()] = value.strip()
    try:
        return Settings(found)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{path!r}: {error}") from None
