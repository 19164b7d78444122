"""Where the records of a batch went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from spark_eos.clients.records import RecordMetadata
from spark_eos.log.commit.loop import Committed
from spark_eos.log.data.partitioners import Partitions
from spark_eos.protocol.actions import Action, AppendBatches
from spark_eos.protocol.actions.appends import Appended

NO_OFFSET = -1

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Places:
    """Where the rows of a chunk went: worked out when it is asked for, which is rare.

    ``bases`` are the first offsets of the request by partition, `NO_OFFSET` where it has none; ``before`` is how many
    rows of each partition came in earlier chunks.
    """

    topic: str
    targets: Partitions
    timestamps: _Numbers
    bases: _Numbers
    before: _Numbers

    def of(self, row: int) -> RecordMetadata:
        targets = self.targets
        partition = targets if isinstance(targets, int) else targets.item(row)
        base = self.bases.item(partition)
        offset = NO_OFFSET if base < 0 else base + self.before.item(partition) + self._rank(row)
        return RecordMetadata(self.topic, partition, offset, self.timestamps.item(row))

    def _rank(self, row: int) -> int:
        """How many rows of the chunk come before this one in its partition."""
        return row if isinstance(self.targets, int) else int(self._ranks[row])

    @property
    def _ranks(self) -> _Numbers:
        """Worked out once. No `cached_property`: its lock (before Python 3.12) may be taken in a forked process."""
        ranks = vars(self).get("ranks")
        if ranks is None:
            ranks = vars(self)["ranks"] = self._worked_out()
        return cast("_Numbers", ranks)

    def _worked_out(self) -> _Numbers:
        targets = self.targets
        assert not isinstance(targets, int)
        counts = np.bincount(targets, minlength=len(self.bases))
        starts = np.cumsum(counts) - counts
        order = np.argsort(targets, kind="stable")
        ranks = np.empty(len(targets), np.int64)
        ranks[order] = np.arange(len(targets)) - starts[targets[order]]
        return ranks


def appended_by(request: tuple[Action, ...], committed: Committed) -> list[Appended]:
    """Where the rows of the request went; nothing if it was found done without its reply."""
    return [
        batch
        for action, result in zip(request, committed.results, strict=False)
        if isinstance(action, AppendBatches)
        for batch in result
    ]
