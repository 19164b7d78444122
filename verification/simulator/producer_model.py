"""One producer id, as the second book knows it (`verification.simulator.reference_model`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_eos.protocol.types import Decider

__all__ = ["Position", "ProducerModel", "Rows"]

Rows = tuple[str, int, int]
"""Where a batch of rows landed: id of the topic, number of the partition, first offset."""

Position = tuple[str, int]


@dataclass
class ProducerModel:
    """One producer id. ``decided`` are its transactions that ended, by number: True if committed.

    ``prepared`` is the epoch at which the open transaction was prepared (None: it was not), ``decider`` what it follows
    then. ``ended`` is the last one that followed another log: its epoch, what it followed, whether by COMMIT.
    ``decides`` are epoch, number and history of the newest transaction that decides for other logs, ``decided_for`` its
    decision, and ``awaited`` the logs that have yet to follow. ``pending`` are turns and offsets.
    """

    epoch: int
    transactional_id: str | None
    timeout_ms: int
    number: int = -1
    is_open: bool = False
    opened_at: float = 0.0
    prepared: int | None = None
    prepared_at: int = -1
    decider: Decider | None = None
    ended: tuple[int, Decider, bool] | None = None
    decides: tuple[int, int, bytes] | None = None
    decided_for: bool | None = None
    awaited: set[str] = field(default_factory=set)
    last_ms: int = 0
    decided: dict[int, bool] = field(default_factory=dict)
    pending: dict[tuple[str, Position], tuple[int, int]] = field(default_factory=dict)
    rows: list[Rows] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
