"""A trouble: what is wrong, how bad it is, the commands that show more, and what to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

Level: TypeAlias = "Literal['critical', 'warning', 'note']"
Command: TypeAlias = "tuple[str, ...]"

LEVELS: tuple[Level, ...] = ("critical", "warning", "note")

LOG = "\0LOG"
"""Stands for the log's URL in commands. No name has a NUL."""

_WORST = 5
"""Troubles of one kind that are listed; of others their number is."""


class Trouble(NamedTuple):
    """Something that is wrong, or worth knowing (``note``).

    ``look`` are commands that show more, ``cure`` those that change something. Each is a list of words for `eoslog`,
    with `LOG` for the log. ``advice`` is what no command can do. ``page`` is a page of docs/. ``about`` is the name of
    the group, query, topic or publication; empty if it is about the log, or about several of them.
    """

    level: Level
    name: str
    text: str
    page: str
    look: tuple[Command, ...] = ()
    cure: tuple[Command, ...] = ()
    advice: str = ""
    about: str = ""


def worst_first(troubles: Iterable[Trouble]) -> list[Trouble]:
    """Sort by the level."""
    return sorted(troubles, key=lambda trouble: LEVELS.index(trouble.level))


def at_most(troubles: Iterable[Trouble], noun: str, more: Command) -> Iterator[Trouble]:
    """The first of them, and how many more there are of each kind."""
    counts: dict[str, int] = defaultdict(int)
    last = {}
    for trouble in troubles:
        counts[trouble.name] += 1
        if counts[trouble.name] <= _WORST:
            yield trouble
        last[trouble.name] = trouble
    for name, count in counts.items():
        if count > _WORST:
            text = f"{count - _WORST:,} more {noun} have the same trouble"
            yield last[name]._replace(text=text, look=(more,), cure=(), about="")


def age(time_ms: int) -> str:
    """How long something takes, roughly."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if time_ms >= 2 * size:
            return f"{time_ms // size} {unit}"
    return f"{max(time_ms, 0) / 1000:.1f} s"


def in_one_line(texts: Iterable[str], most: int = 5) -> str:
    """In one line; of more than ``most`` the others are counted."""
    all_texts = list(texts)
    if len(all_texts) > most:
        return f"{', '.join(all_texts[:most])} and {len(all_texts) - most:,} more"
    return ", ".join(all_texts)
