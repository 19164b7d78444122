"""A table that a command prints: its columns, and what they mean."""

from __future__ import annotations

from typing import NamedTuple


class Columns(NamedTuple):
    """The columns of a table, in their order, with their meanings.

    ``command`` are the words that print it, ``of`` says which of its tables this is, where it has several.
    """

    command: str
    meanings: dict[str, str]
    of: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The head of the table."""
        return (*self.meanings,)

    def without(self, *names: str) -> Columns:
        """The table without these columns."""
        meanings = {name: meaning for name, meaning in self.meanings.items() if name not in names}
        return self._replace(meanings=meanings)

    def only(self, *names: str) -> Columns:
        """The table with these columns alone, in the order in which they are given."""
        return self._replace(meanings={name: self.meanings[name] for name in names})
