"""What the arguments of all commands have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

from spark_eos.protocol.types import TopicPartition

__all__ = ["Commands", "add_command", "add_noun", "commas", "partitions", "setting"]

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
