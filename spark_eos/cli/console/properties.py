"""Kafka's ``--property NAME=VALUE`` of the console tools, checked; and the settings of their clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import typer

from spark_eos.cli.options import name_value, properties_file
from spark_eos.config.nearest import suggestion

_IGNORED = frozenset({"key.deserializer", "value.deserializer", "header.deserializer"})
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\0": "\0"}


@dataclass(frozen=True)
class LineFormat:
    """What a line of text has besides the value, under the names of Kafka's LineMessageReader."""

    parse_key: bool = False
    parse_headers: bool = False
    ignore_error: bool = False
    key_separator: bytes = b"\t"
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None


@dataclass(frozen=True)
class PrintFormat:
    """What is printed of a record, under the names of Kafka's DefaultMessageFormatter."""

    print_timestamp: bool = False
    print_key: bool = False
    print_offset: bool = False
    print_partition: bool = False
    print_headers: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"


def line_format(properties: Iterable[str] | None, option: str = "--property") -> LineFormat:
    """The properties of ``eoslog produce``."""
    return LineFormat(**_read(properties, LineFormat(), option, frozenset()))  # type: ignore[arg-type]


def print_format(properties: Iterable[str] | None, option: str = "--property") -> PrintFormat:
    """The properties of ``eoslog consume``. Deserializers of Java are passed over: ``--format`` says how."""
    return PrintFormat(**_read(properties, PrintFormat(), option, _IGNORED))  # type: ignore[arg-type]


def client_settings(path: str | None, properties: Iterable[str] | None, option: str) -> dict[str, str]:
    """Settings of a client: those of the file ``--command-config``, and over them those of the command line."""
    settings = properties_file(path)
    for text in properties or ():
        name, value = name_value(text, option)
        settings[name] = value
    return settings


def _read(
    properties: Iterable[str] | None, defaults: LineFormat | PrintFormat, option: str, ignored: frozenset[str]
) -> dict[str, object]:
    default_values: Mapping[str, object] = {
        name.replace("_", "."): value for name, value in vars(defaults).items()
    }
    values: dict[str, object] = {}
    for text in properties or ():
        name, value = name_value(text, option)
        if name in ignored:
            continue
        if name not in default_values:
            raise typer.BadParameter(
                f"unknown property {name!r}; {suggestion(name, default_values)}", param_hint=f"'{option}'"
            )
        values[name.replace(".", "_")] = _value(name, value, default_values[name], option)
    return values


def _value(name: str, text: str, default: object, option: str) -> object:
    if isinstance(default, bool):
        if text not in {"true", "false"}:
            raise typer.BadParameter(f"{name}={text!r}: expected true or false", param_hint=f"'{option}'")
        return text == "true"
    if not text and name.endswith((".separator", ".delimiter")) and name != "line.separator":
        raise typer.BadParameter(f"{name} cannot be empty", param_hint=f"'{option}'")
    return _ESCAPES.get(text, text).encode("utf-8", "surrogateescape")
