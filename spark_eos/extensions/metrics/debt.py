"""What maintenance has to do: entries without a snapshot, entries to retire, garbage. It is listed, and so seldom."""

from __future__ import annotations

from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.errors import ObjectNotFoundError
from spark_eos.extensions.metrics.points import Point, point
from spark_eos.extensions.metrics.state_points import trouble_points
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.log.snapshots.horizon import Horizon
from spark_eos.log.snapshots.maintenance import Retirer, retirable
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.monitoring.troubles.of_state import of_snapshots
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.state import State


class Snapshots:
    """The newest stored snapshot of one log: one listing, and a few requests for each new one."""

    def __init__(self) -> None:
        self._seq = -1
        self._made_ms: int | None = None
        self._horizon: Horizon | None = None

    def look(self, log: Log, now_ms: int, label: str) -> list[Point]:
        """The points about snapshots and entries. Raises what the store raises."""
        state = log.state
        names = (paths.snapshot_seq(info.name) for info in log.store.list(paths.SNAPSHOTS))
        seqs = [seq for seq in names if seq is not None]
        newest = max(seqs, default=0)
        if newest != self._seq:
            self._seq, self._made_ms = newest, _time_of(log, newest, state)
        if self._horizon is None:
            self._horizon = Horizon(log.store)
        limit = retirable(state, newest, self._horizon.floor(state, seqs))
        unretired = Retirer(log.store).left(state, limit)
        points = [
            point("eoslog.maintenance.unsealed_entries", max(state.seq - newest, 0), label),
            point("eoslog.maintenance.unretired_entries", unretired, label),
            *trouble_points(label, of_snapshots(state, newest)),
        ]
        if self._made_ms is not None:
            age_ms = max(now_ms - self._made_ms, 0)
            points.append(point("eoslog.maintenance.snapshot.age", age_ms / 1000, label))
        return points


def _time_of(log: Log, seq: int, state: State) -> int | None:
    """The time of an entry; None if it is retired."""
    name = paths.entry(seq, state.entries_per_folder)
    try:
        data = log.store.read(name)
    except ObjectNotFoundError:
        return None
    if not data.size:
        return None
    return decode_entry(data, seq, f"{log.url}/{name}").requests[-1].timestamp_ms


def garbage(log: Log, label: str) -> list[Point]:
    """What a vacuum would delete now. It lists all files and reads all index pages. Raises what the store raises."""
    leftovers = Vacuum(log, heartbeat_name=heartbeat_name).look()
    return [
        point("eoslog.maintenance.garbage.objects", len(leftovers), label),
        point("eoslog.maintenance.garbage.size", sum(leftover.size for leftover in leftovers), label),
    ]
