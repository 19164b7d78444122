"""Topics by name or pattern, and the arguments that several commands about topics have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from spark_eos.cli.options import name_value, once
from spark_eos.cli.parsing import ListedCommands

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_eos.clients.admin import Admin

topics_app = typer.Typer(
    name="topics", cls=ListedCommands, help="List, describe, create, alter and delete topics."
)

_COLUMN = re.compile(r"((?:`(?:[^`]|``)+`|[^`\s])+)\s+(\S.*)", re.DOTALL)
_NOT_NULL = re.compile(r"\s+not\s+null$", re.IGNORECASE)


def selected(client: Admin, topics: Iterable[str] | None) -> list[str]:
    """The topics that the names or regular expressions stand for, sorted; all topics for None or nothing.

    As in Kafka, an expression has to match the whole name. A name that is not there stays in the list: describing it
    says what is wrong with it.
    """
    all_names = client.list_topics()
    patterns = list(topics or ())
    if not patterns:
        return all_names
    names: set[str] = set()
    for pattern in patterns:
        names.update([pattern] if pattern in all_names else matching(all_names, pattern) or [pattern])
    return sorted(names)


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """The names that the regular expression matches as a whole."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise typer.BadParameter(
            f"{pattern!r} is no topic and no regular expression: {error}", param_hint="'TOPIC'"
        ) from None
    return [name for name in names if expression.fullmatch(name)]


def settings_of(texts: Iterable[str] | None, option: str) -> dict[str, str | None]:
    """Settings; an empty value takes one back to its default."""
    pairs = (name_value(text, option) for text in texts or ())
    return once(((name, value or None) for name, value in pairs), option)


def column(text: str, option: str) -> tuple[str, str]:
    """``NAME TYPE``."""
    match = _COLUMN.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(
            f"{text!r} is not NAME TYPE, such as 'note string'", param_hint=f"'{option}'"
        )
    return match[1], match[2]


def new_column(text: str, option: str) -> pa.Field:
    """``NAME TYPE [NOT NULL]``, as a column of a topic that does not exist yet."""
    import pyarrow as pa

    from spark_eos.log.schemas.type_names import parse_type

    name, type_ = column(text, option)
    if name.startswith("`"):
        name = name[1:-1].replace("``", "`")
    elif "." in name:
        raise typer.BadParameter(
            f"{text!r}: write a struct as 'shop struct<zip: int>', or a name with a dot in it in backticks",
            param_hint=f"'{option}'",
        )
    bare = _NOT_NULL.sub("", type_)
    return pa.field(name, parse_type(bare), nullable=bare == type_)
