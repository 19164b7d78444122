"""Where the processes of a simulated world meet: without a wait, and not to be relied upon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_eos.storage.group_channel import ANNOUNCED, LEADER_TTL_S, SUBMISSION_TTL_S, GroupChannel
from verification.simulator.world import Process, World

__all__ = ["Place", "SimulatedGroupChannel"]


@dataclass
class Place:
    """What all of them see."""

    leader: SimulatedGroupChannel | None = None
    led_by: SimulatedGroupChannel | None = None
    led_at: float = 0.0
    led: int = 0
    requests: dict[SimulatedGroupChannel, bytes] = field(default_factory=dict)
    entries: dict[int, tuple[int, float, bytes]] = field(default_factory=dict)
    outcomes: tuple[float, bytes] | None = None
    newest: int = -1


class SimulatedGroupChannel(GroupChannel):
    """One process's place in it. With faults two processes may hold the lock, and a write may fail or not."""

    def __init__(self, world: World, place: Place) -> None:
        self._world = world
        self._place = place
        self._process: Process = world.current()
        self.reports_outcomes = world.reports_outcomes
        self._in_vain = -1

    def try_lead(self) -> bool:
        leader = self._place.leader
        if leader is None or leader._process.dead or leader._process.ended:  # noqa: SLF001  (its own class)
            self._place.leader = self
        if self._place.leader is self:
            self._place.led += 1
            self._place.led_by, self._place.led_at = self, self._world.now
        return self._place.leader is self or self._world.strikes("lost")

    def release_lead(self) -> None:
        if self._place.leader is self:
            self._place.leader = None

    def leader_token(self) -> int:
        place = self._place
        of_late = self._world.now - place.led_at < LEADER_TTL_S and not self._world.strikes("lost")
        return place.led if of_late and place.led_by is not self else 0

    def submit(self, data: bytes) -> bool:
        if self._world.strikes("lost"):
            return False
        self._place.requests[self] = data
        self._world.note("handed over")
        return not self._world.strikes("reply_lost")

    def withdraw(self) -> bool:
        if self._world.strikes("lost"):
            return False
        self._place.requests.pop(self, None)
        return not self._world.strikes("reply_lost")

    def submissions(self) -> Iterator[bytes]:
        found = [data for group_channel, data in self._place.requests.items() if group_channel is not self]
        self._world.random.shuffle(found)
        self._world.note(f"found {len(found)} handed over")
        return iter(found)

    def publish(self, seq: int, data: bytes) -> None:
        if not self._world.strikes("lost"):
            self._place.entries[seq % ANNOUNCED] = (seq, self._world.now, data)
            self.note_entry(seq)

    def note_entry(self, seq: int) -> None:
        self._place.newest = max(self._place.newest, seq)

    def relay(self, seq: int, data: bytes) -> None:
        self.publish(seq, data)

    def report_outcomes(self, data: bytes) -> None:
        if not self._world.strikes("lost"):
            self._place.outcomes = self._world.now, data

    def outcomes(self) -> bytes | None:
        if self._place.outcomes is None or self._world.strikes("lost"):
            return None
        at, data = self._place.outcomes
        return data if self._world.now - at <= SUBMISSION_TTL_S else None

    def published(self, seq: int) -> bytes | None:
        told, at, data = self._place.entries.get(seq % ANNOUNCED, (-1, 0.0, b""))
        if told < seq or self._world.now - at > SUBMISSION_TTL_S:
            return b"" if self.newest() >= seq else None
        return data if told == seq else b""

    def newest(self) -> int:
        newest = self._place.newest
        return -1 if newest == self._in_vain else newest

    def distrust(self) -> None:
        self._in_vain = self._place.newest
