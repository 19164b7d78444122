"""The book of publications: who may publish, which versions were begun and ended, and what they have."""

from __future__ import annotations

from spark_eos.protocol import actions as a
from spark_eos.protocol.state import State

__all__ = ["PublicationModel"]


class PublicationModel:
    """What the accepted requests about publications have come to.

    ``begun`` are all intents by publication and sequence, ``finished`` those that were ended, ``starts`` where the
    partitions of an intent began when it was accepted.
    """

    def __init__(self) -> None:
        self.begun: dict[tuple[str, int], a.BeginPublish] = {}
        self.finished: dict[str, int] = {}
        self._newest: dict[str, int] = {}
        self._publishers: dict[str, int] = {}
        self._topics: dict[str, dict[str, str]] = {}
        self._stale: set[tuple[str, int]] = set()
        """Epochs that were given once: none comes again, also not after a drop."""

    def _must(self, holds: bool, otherwise: str) -> None:
        raise NotImplementedError

    def _CreatePublication(self, action: a.CreatePublication, *_: object) -> None:  # noqa: N802
        self._must(action.name not in self._topics, f"publication {action.name} was created twice")
        self._topics[action.name] = dict(action.topics)

    def _FencePublisher(self, action: a.FencePublisher, epoch: int, *_: object) -> None:  # noqa: N802
        self._must(
            action.name in self._topics, f"publication {action.name} is not there, and has a publisher"
        )
        given = (action.name, epoch)
        self._must(given not in self._stale, f"epoch {epoch} of publication {action.name} was given twice")
        self._stale.add(given)
        self._publishers[action.name] = epoch

    def _may_publish(self, name: str, epoch: int) -> None:
        newest = self._publishers.get(name)
        # Before the first fence the epoch of the creation is the newest one; no publisher has it.
        self._must(
            newest in {None, epoch}, f"a publisher of {name} with epoch {epoch}: {newest} has taken over"
        )

    def _BeginPublish(self, action: a.BeginPublish, _r: object, _b: object, after: State) -> None:  # noqa: N802
        self._may_publish(action.name, action.epoch)
        what = f"version {action.sequence} of {action.name}"
        last = self._newest.get(action.name)
        before = None if last is None else self.begun[action.name, last]
        if before is not None:
            self._must(action.sequence > before.sequence, f"{what} was begun after version {before.sequence}")
            self._must(self.finished.get(action.name) == last, f"{what} was begun while {last} was open")
            self._must(
                action.entry >= before.entry, f"{what} is of entry {action.entry} after {before.entry}"
            )
        named = {(one.topic_id, one.partition): one for one in action.ranges}
        version = after.publications[action.name].begun if action.name in after.publications else None
        if version is None or version.sequence != action.sequence:
            version = None  # Ended by the same request.
        for key, one in named.items():
            partition = after.partitions[key]
            self._must(one.topic_id in self._topics[action.name].values(), f"{what} has another topic")
            self._must(one.end <= partition.last_stable_offset, f"{what} has records of an open transaction")
            if version is not None:
                at = one.start
                for row in version.pins[key].rows():
                    self._must(row.base_offset <= at < row.next_offset, f"{what} lacks offset {at} of {key}")
                    at = row.next_offset
                self._must(at >= one.end, f"{what} lacks offset {at} of {key}")
        self._newest[action.name] = action.sequence
        self.begun[action.name, action.sequence] = action

    def _EndPublish(self, action: a.EndPublish, *_: object) -> None:  # noqa: N802
        self._may_publish(action.name, action.epoch)
        what = f"version {action.sequence} of {action.name}"
        self._must((action.name, action.sequence) in self.begun, f"{what} ended and was not begun")
        done = self.finished.get(action.name, action.sequence)
        self._must(action.sequence >= done, f"{what} ended after version {done}")
        self.finished[action.name] = action.sequence

    def _DropPublication(self, action: a.DropPublication, *_: object) -> None:  # noqa: N802
        self._must(action.name in self._topics, f"publication {action.name} was dropped and is not there")
        self._topics.pop(action.name, None)
        self._publishers.pop(action.name, None)
        if action.name in self._newest:
            self.finished[action.name] = self._newest[action.name]
