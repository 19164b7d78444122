"""What a process has done to get its requests into the log, counted since it opened the log: for metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CommitCounts:
    """Counts since the log was opened. The thread that has the turn to commit writes them, others may read.

    ``entries`` were created here, and ``requests`` are in them, of which ``grouped`` are other processes'.
    ``conflicts`` are creates that met a taken slot, ``lost_replies`` those without an answer.
    """

    entries: int = 0
    requests: int = 0
    grouped: int = 0
    conflicts: int = 0
    lost_replies: int = 0
