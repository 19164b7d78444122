"""What verification says: findings one by one as they are made, and how much it has looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum


class Verdict(Enum):
    """How bad a finding is."""

    WRONG = "wrong"
    UNREAD = "unread"
    """This process may not read it, or has not its key: whether it is whole is not known."""
    REPAIRED = "repaired"
    NOTE = "note"
    """Worth to know: explains something, or harms nothing."""


@dataclass(frozen=True)
class Finding:
    """``name`` is the object in the store; ``text`` says what is the matter, ``remedy`` what to do."""

    verdict: Verdict
    name: str
    text: str
    remedy: str = ""


@dataclass
class Summary:
    """How much was looked at, and what came of it."""

    entries: int = 0
    retired: int = 0
    refused_requests: int = 0
    snapshots: int = 0
    index_pages: int = 0
    partitions: int = 0
    batches: int = 0
    records: int = 0
    files: int = 0
    bytes: int = 0
    unread_files: int = 0
    """Of the files those whose content was not read: encrypted, without the keys for them, or hidden otherwise."""
    unreferenced_files: int = 0
    unreferenced_bytes: int = 0
    unreferenced_index_pages: int = 0
    last_entry: int = -1
    found: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong (any more), and all was read that was to be read."""
        return not (self.found[Verdict.WRONG] or self.found[Verdict.UNREAD])


class FindingCollector:
    """Takes findings and passes them on at once: a log can have more of them than fit into memory.

    ``progress`` is called with what is done now, how much of it, and of how much.
    """

    def __init__(
        self, on_finding: Callable[[Finding], None], progress: Callable[[str, int, int], None] | None = None
    ) -> None:
        self.summary = Summary()
        self._on_finding = on_finding
        self._progress = progress

    def add(self, verdict: Verdict, name: str, text: str, remedy: str = "") -> None:
        """A finding."""
        self.summary.found[verdict] += 1
        # Errors begin with the name, which stands in front anyway.
        self._on_finding(Finding(verdict, name, text.removeprefix(f"{name} "), remedy))

    def wrong(self, name: str, text: str, remedy: str) -> None:
        """Something is wrong and stays so."""
        self.add(Verdict.WRONG, name, text, remedy)

    def unread(self, name: str, text: str) -> None:
        """It could not be looked at."""
        self.add(Verdict.UNREAD, name, text, "run eoslog verify again when it can be opened")

    def at(self, stage: str, count: int, of: int) -> None:
        """So far it is."""
        if self._progress is not None:
            self._progress(stage, count, of)
