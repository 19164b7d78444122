"""Time as a simulated process sees it: the world's, with a wall clock that may be wrong."""

from __future__ import annotations

from verification.simulator.world import Process

__all__ = ["EPOCH_MS", "SimulatedClock"]

EPOCH_MS = 1_800_000_000_000


class SimulatedClock:
    """`spark_eos.log.clock.Clock` for one process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        return EPOCH_MS + int(self._process.world.now * 1000) + self._process.wall_skew_ms

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def monotonic(self) -> float:
        return self._process.world.now

    def sleep(self, seconds: float) -> None:
        self._process.wait(max(seconds, 1e-6))

    def unique(self) -> bytes:
        return self._process.world.random.randbytes(16)

    def jitter(self) -> float:
        return self._process.world.random.random()
