"""The offset map: which offset of Kafka became which of the log. Pure.

Where Kafka's partition has a record at every offset, the log's offsets go on in step with Kafka's, and one run says it
all. A run ends where Kafka has a gap (the marker of a transaction, aborted records, compaction), or where another
writer has added records to the log's topic. A row of the map has the runs that begin in one batch, so a topic without
gaps has one row for all times.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_eos.errors import CorruptRecordError

KAFKA, LOG = 0, 1
"""The sides of a run: its first two fields."""


class Run(NamedTuple):
    """Records with offsets from ``kafka`` on in Kafka and from ``log`` on in the log, without a gap on either side."""

    kafka: int
    log: int
    count: int  # type: ignore[assignment]

    @property
    def end(self) -> tuple[int, int]:
        """The offsets after its last record, by side."""
        return self.kafka + self.count, self.log + self.count


class MapRow(NamedTuple):
    """The runs that began in one batch, and the ``end`` (by side) of the run before them; None if they are the first.

    The last run of a row goes on until the next row's ``end`` says where it ended.
    """

    end: tuple[int, int] | None
    runs: tuple[Run, ...]

    @property
    def data(self) -> bytes:
        """As the value of a record: JSON."""
        return json.dumps({"end": self.end, "runs": self.runs}, separators=(",", ":")).encode()

    @classmethod
    def of(cls, data: bytes | None, where: str) -> MapRow:
        """The row in such a value. Raises `CorruptRecordError`, which names ``where``."""
        try:
            fields = json.loads(data or b"")
            end = None if fields["end"] is None else (int(fields["end"][0]), int(fields["end"][1]))
            runs = tuple(Run(*map(int, run)) for run in fields["runs"])
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise CorruptRecordError(
                f"{where} is no row of an offset map ({error}): another program than the mirror has written to it"
            ) from error
        return cls(end, runs)


class Place(NamedTuple):
    """Where an offset of one side lies on the other. ``exact``: that very record is mirrored.

    Else ``offset`` is that of the first mirrored record after it, or the end if there is none.
    """

    offset: int
    exact: bool


def runs_of(offsets: npt.NDArray[np.int64], log: int) -> list[Run]:
    """The runs of records with these offsets in Kafka, ascending, which are in the log from the offset ``log`` on."""
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    starts = [0, *breaks.tolist()]
    ends = [*starts[1:], len(offsets)]
    return [Run(int(offsets[at]), log + at, end - at) for at, end in zip(starts, ends, strict=True)]


def joined(end: tuple[int, int] | None, runs: Sequence[Run]) -> MapRow | None:
    """The row that the map gets for ``runs``, after a run that ended at ``end``; None if they only go on with that."""
    if end is not None and runs and (runs[0].kafka, runs[0].log) == end:
        end, runs = runs[0].end, runs[1:]
    return MapRow(end, tuple(runs)) if runs else None


def located(runs: Sequence[Run], offset: int, side: int) -> Place | None:
    """Where ``offset`` of one side lies on the other; None if all these runs end before it."""
    other_side = 1 - side
    for run in runs:
        if offset < run[side]:
            return Place(run[other_side], exact=False)
        if offset < run.end[side]:
            return Place(run[other_side] + offset - run[side], exact=True)
    return None
