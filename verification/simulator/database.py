"""What is beside the log of a simulated world: a database, a second log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Database", "Pairs"]


@dataclass
class Database:
    """Never fails, and is outside of the simulated world: each call is one step. The newest owner alone may commit."""

    owner: str = ""
    token: str = ""
    sales: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The values of each commit, by its token."""
    offered: set[str] = field(default_factory=set)
    """All values that were sent to the log."""

    def take_over(self, owner: str) -> str:
        """Fence the owner before; the newest token."""
        self.owner = owner
        return self.token

    def commit(self, owner: str, token: str, values: tuple[str, ...]) -> bool:
        """The sale and the token in one commit; False: the owner was fenced."""
        if owner != self.owner:
            return False
        self.token, self.sales[token] = token, values
        return True


@dataclass
class Pairs:
    """What was sent to both logs, and what its process was told."""

    told: dict[str, bool | None] = field(default_factory=dict)
    """True: it was committed; None: that is not known."""
    there: Counter[str] = field(default_factory=Counter)
    """What the second log has in the end."""
