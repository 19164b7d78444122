"""Arguments and options that several commands have, and what their texts mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from spark_eos.cli.usage.completion import group_ids, topic_names
from spark_eos.errors import ConfigError

if TYPE_CHECKING:
    from spark_eos.clients.admin import Admin
    from spark_eos.log.log import Log
    from spark_eos.protocol.types import TopicPartition
    from spark_eos.storage import Settings

K = TypeVar("K")
V = TypeVar("V")


def _place(urls: str | list[str]) -> str | list[str]:
    """Refuse what stands in the place of a log: nothing, or the address of a server, as other commands take it."""
    from spark_eos.storage.urls import SERVER

    for url in [urls] if isinstance(urls, str) else urls or ():
        if not url:
            raise typer.BadParameter("it is empty: give the log's folder or URL")
        if SERVER.fullmatch(url):
            raise typer.BadParameter(f"{url!r} is a server, and there are none: give the log's folder or URL")
    return urls


Url = Annotated[str, typer.Argument(metavar="URL", help="The log: a folder or a URL.", callback=_place)]
Urls = Annotated[
    list[str], typer.Argument(metavar="URL...", help="The logs: folders or URLs.", callback=_place)
]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="File with settings of the object store: NAME=VALUE on each line.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
TopicName = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=topic_names)
]
Group = Annotated[
    str, typer.Option("--group", metavar="GROUP", help="The group's id.", autocompletion=group_ids)
]

# Clients and Arrow are imported when a command runs: help and completion answer without them.


def admin(url: str, config_file: str | None) -> Admin:
    """The log's admin client, with the settings of ``--command-config``."""
    from spark_eos.clients.admin import Admin

    return Admin(url, store_settings(config_file))


def open_log(url: str, config_file: str | None) -> Log:
    """The log, with the settings of ``--command-config``."""
    from spark_eos.log.log import Log

    return Log.open(url, settings=store_settings(config_file))


def open_logs(urls: Sequence[str], config_file: str | None) -> list[Log]:
    """Several logs, each once, with the settings of ``--command-config``."""
    from spark_eos.log.log import Log

    settings = settings_of_each(urls, store_settings(config_file))
    logs = [Log.open(url, settings=of) for url, of in zip(urls, settings, strict=True)]
    refuse_twice([log.url for log in logs])
    return logs


def refuse_twice(labels: Sequence[str]) -> None:
    """Raise `ConfigError` if two of these logs are one."""
    if len({*labels}) < len(labels):
        raise ConfigError(f"a log is named twice: {', '.join(sorted(labels))}")


def settings_of_each(urls: Sequence[str], settings: Settings) -> list[Settings]:
    """The settings for each log: of several ones only a part may be in a store that has settings."""
    from spark_eos.storage import is_object_store, log_settings_of

    return [
        log_settings_of(url, settings) if is_object_store(url) or len(urls) > 1 else settings for url in urls
    ]


def store_settings(path: str | None, option: str = "--command-config") -> Settings:
    """The settings of an object store in a file, as `properties_file` reads it."""
    from spark_eos.storage import NO_SETTINGS, Settings

    if path is None:
        return NO_SETTINGS
    try:
        return Settings(properties_file(path, option))
    except ConfigError as error:
        raise typer.BadParameter(f"{path!r}: {error}", param_hint=f"'{option}'") from None


def properties_file(path: str | None, option: str = "--command-config") -> dict[str, str]:
    """Settings in a file, as Kafka's tools take them: ``name=value``; a line that begins with ``#`` is a comment.

    A file, because all users of the machine can see the arguments of a command.
    """
    if path is None:
        return {}
    try:
        with Path(path).open(encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path!r} cannot be read: {error}", param_hint=f"'{option}'") from None
    settings = {}
    for number, line in enumerate(lines, 1):
        name, sign, value = line.partition("=")
        if line and not line.startswith("#"):
            if not sign:
                raise typer.BadParameter(
                    f"line {number} of {path!r} is not NAME=VALUE", param_hint=f"'{option}'"
                )
            settings[name.strip()] = value.strip()
    return settings


def name_value(text: str, option: str) -> tuple[str, str]:
    """``NAME=VALUE``, as ``option`` was given it; the value may be empty."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=f"'{option}'")
    return name, value


def once(pairs: Iterable[tuple[K, V]], option: str) -> dict[K, V]:
    """The values by their names. Refuse a name that is there twice: nothing says which of its values is meant."""
    values: dict[K, V] = {}
    for name, value in pairs:
        if name in values:
            raise typer.BadParameter(f"{name} is named twice", param_hint=f"'{option}'")
        values[name] = value
    return values


def commas(texts: Iterable[str] | None) -> list[str] | None:
    """``a,b`` and ``c`` as one list: the values of an option that may also be repeated. None if it was not given."""
    return None if texts is None else [part for text in texts for part in text.split(",") if part]


def partitions(texts: Iterable[str] | None) -> list[TopicPartition | str]:
    """Kafka's ``--topic TOPIC`` or ``--topic TOPIC:0,1``, any number of times."""
    from spark_eos.protocol.types import TopicPartition

    selection: list[TopicPartition | str] = []
    for text in texts or ():
        topic, colon, numbers = text.partition(":")
        try:
            selection += (
                [TopicPartition(topic, int(number)) for number in numbers.split(",")] if colon else [topic]
            )
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not TOPIC or TOPIC:0,1", param_hint="'--topic'") from None
    return selection


def at_most_one(options: Mapping[str, object]) -> None:
    """Refuse two of these options together. ``options`` has their values; None, False and [] are those not given."""
    names = [
        name for name, value in options.items() if value is not None and value is not False and value != []
    ]
    if len(names) > 1:
        raise typer.BadParameter(
            f"it cannot be used with {names[0]}; give one of them", param_hint=f"'{names[1]}'"
        )


def exactly_one(options: Mapping[str, object]) -> None:
    """As `at_most_one`, and refuse none of them, too."""
    at_most_one(options)
    if all(value is None or value is False or value == [] for value in options.values()):
        raise typer.BadParameter(f"give one of {', '.join(options)}")
