"""Checkpoints that get lost: deleted, or put back to an older copy, after a killed driver.

What has to happen (docs/reference/spark.md): a new checkpoint that reads from the beginning, or an old one,
is refused with
`CheckpointMismatchError` and nothing is written; a new checkpoint with ``startingOffsets=committed``, the same
``group.id`` and ``transactional.id`` goes on where the log stands.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from spark_eos.log.log import Log
from verification.chaos.actors import Actor, Run

__all__ = ["LostCheckpoints"]

REFUSED = "CheckpointMismatchError"


class LostCheckpoints:
    """The checkpoint of one query, and what was done to it."""

    def __init__(self, folder: Path, query: str, log: Log) -> None:
        self._folder = folder
        self._query = query
        self._log = log
        self._generation = 0
        self._copy: tuple[int, Path] | None = None
        self._state = "fine"
        self.starting = "earliest"
        self.deleted = self.put_back = self.refused = self.went_on = 0
        self.problems: list[str] = []

    def __str__(self) -> str:
        return f"{self.deleted} deleted, {self.put_back} put back; {self.refused} refused, {self.went_on} went on"

    @property
    def path(self) -> Path:
        """Where the checkpoint is now."""
        return self._folder / f"{self._query}-{self._generation}"

    @property
    def can_strike(self) -> bool:
        """Whether the last blow is got over, and the query has written something."""
        return self._state == "fine" and self._query in self._log.follow().queries

    def strike(self, actor: Actor, run: Run, chance: random.Random) -> str:
        """Kill the driver and take its checkpoint away; what was done."""
        actor.kill(run)
        kept = self._copy
        last = self._log.follow().queries[self._query]
        at = self._newest(kept[1]) if kept is not None else -1
        older = kept is not None and (kept[0] != self._generation or at < last.batch_id)
        if older and kept is not None and chance.random() < 0.6:
            self._generation += 1  # so that no leftover of the dead run writes to it
            shutil.copytree(kept[1], self.path)
            self._copy = None
            self.put_back += 1
            self._state, self.starting = "put back", "earliest"
            return f"put back to its batch {at}, while the log has {last.batch_id}"
        self._keep()
        self._generation += 1
        self.deleted += 1
        if chance.random() < 0.7:
            self._state, self.starting = "deleted", "earliest"
            return "deleted, started from the beginning"
        self.starting = "committed"
        self._state = "going on"
        return "deleted, started from what is committed"

    def keep(self) -> None:
        """A copy for later, of a query that does not run."""
        if self._state == "fine":
            self._keep()

    def heard(self, _: Run, note: dict[str, Any]) -> None:
        """A note of the driver."""
        if note["what"] != "failed" or note["error"] != REFUSED:
            return
        if self._state not in {"deleted", "put back"}:
            self.problems.append(
                f"{self._query} was refused though its checkpoint was {self._state}: {note['text']}"
            )
        self.refused += 1
        # What the message says to do.
        self._generation += 1
        self._state, self.starting = "going on", "committed"

    def tick(self) -> None:
        """See whether the query goes on."""
        if self._state == "fine":
            return
        query = self._log.follow().queries.get(self._query)
        metadata = self.path / "metadata"
        if query is None or not metadata.exists() or query.query_id not in metadata.read_text("utf-8"):
            return
        if self._state == "deleted":
            self.problems.append(f"{self._query} began again with a new checkpoint, and was not refused")
        # A batch that is replayed in the very same slices is recognised: as good as a refusal.
        if self._state == "put back" and not (self.path / "commits" / str(query.batch_id)).exists():
            return
        self.went_on += 1
        self._state = "fine"

    def _keep(self) -> None:
        if not (self.path / "offsets").exists():
            return
        target = self._folder / f"{self._query}-{self._generation}.copy"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.path, target)
        self._copy = (self._generation, target)

    @staticmethod
    def _newest(path: Path) -> int:
        names = [entry.name for entry in (path / "offsets").glob("*")] if path.exists() else []
        return max((int(name) for name in names if name.isdecimal()), default=-1)
