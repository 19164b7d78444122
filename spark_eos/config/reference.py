"""The tables of options as people read them: in the pages of the reference, and in ``eoslog configs``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from spark_eos.config.option import Option, Table


class SettingRow(NamedTuple):
    """A setting of a topic or a log as it is in force: its value, its default, and what it does."""

    name: str
    value: str
    default: str
    doc: str


def in_force(table: Table, stored: Mapping[str, str]) -> Iterator[SettingRow]:
    """All settings of the table, sorted; the value is the stored one, or else the default.

    Stored settings that the table does not have were set by a newer version: they come with an empty default.
    """
    for name in sorted({*table, *stored}):
        option = table.get(name)
        default, doc = ("", "") if option is None else (option.shown_default, option.doc)
        if option is not None and option.name != name:  # Of one reader: else the limit of all holds.
            default = stored.get(option.name, default)
        yield SettingRow(name, stored.get(name, default), default, doc)


def markdown(table: Table) -> str:
    """The table for a page of the reference."""
    for_spark = any(option.uses for option in table.values())
    heads = [
        "option",
        "allowed",
        "default",
        "what it does",
        *(["for"] if for_spark else []),
        "named by",
        "since",
    ]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for option in table.values():
        cells = [
            f"`{option.name}`",
            option.type.summary.replace("<", "&lt;"),
            _default(option),
            option.doc,
            *([_uses(option)] if for_spark else []),
            option.origin,
            option.since,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _default(option: Option) -> str:
    shown = option.shown_default
    if option.default_text:
        return shown
    return f"`{shown}`" if shown else "–"


def _uses(option: Option) -> str:
    words = {"stream": "streams", "batch": "batches"}
    uses = [words[kind] for kind in words if any(use.startswith(kind) for use in option.uses)]
    return ", ".join(uses)
