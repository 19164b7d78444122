"""One producer id, as the second book knows it (`verification.simulator.reference_model`)."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Position", "ProducerModel", "Rows"]

Rows = tuple[str, int, int]
"""Where a batch of rows landed: id of the topic, number of the partition, first offset."""

Position = tuple[str, int]


@dataclass
class ProducerModel:
    """One producer id. ``decided`` are its transactions that ended, by number: True if committed.

    ``prepared`` is the epoch at which the open transaction was prepared (None: it was not).
    """

    epoch: int
    transactional_id: str | None
    timeout_ms: int
    number: int = -1
    is_open: bool = False
    opened_at: float = 0.0
    prepared: int | None = None
    last_ms: int = 0
    decided: dict[int, bool] = field(default_factory=dict)
    pending: dict[tuple[str, Position], int] = field(default_factory=dict)
    rows: list[Rows] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
