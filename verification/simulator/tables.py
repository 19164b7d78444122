"""Publishers and readers of tables in a simulated world, and the model of a table.

The model is what Delta's log is to its writers: a version is an object that is created once, under the name that
follows the last one. `tests/testing/test_simulated_tables.py` holds it against what delta-rs does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from spark_eos.errors import (
    EosLogError,
    InvalidRequestError,
    ObjectExistsError,
    ObjectNotFoundError,
    ProducerFencedError,
    SegmentsReplacedError,
    TableChangedError,
)
from spark_eos.log import paths
from spark_eos.log.commit import tail
from spark_eos.log.data.parquet.plan import plan_sealed
from spark_eos.maintenance.segments.sealer import Cut, seal
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.publishing.versions import pages_of
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.index import Kind
from spark_eos.protocol.publication import Publication, PublicationVersion
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition
from spark_eos.storage import Store
from verification.simulator.context import INPUT, SHARED, GivenUp, Stage
from verification.simulator.world import Process

__all__ = ["PUBLICATION", "SimulatedTable", "TableVersion", "publisher", "table_reader"]

PUBLICATION = "tables"
_TOPICS = (INPUT, SHARED)
_RETENTION_S = 30.0
_TRIES = 6


class TableVersion(NamedTuple):
    """A version of a table: which files it has, and what it stands for (offsets by partition: start and end)."""

    native: int
    sequence: int
    entry: int
    offsets: dict[int, tuple[int, int]]
    files: tuple[str, ...]


class SimulatedTable:
    """The log of a table. A commit names the version that it was planned on, and is refused if there is a later one."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = f"{folder}_delta_log/"

    def versions(self) -> list[TableVersion]:
        """All of them, oldest first."""
        names = sorted(info.name for info in self._store.list(self._folder))
        return [_read(number, bytes(self._store.read(name))) for number, name in enumerate(names)]

    def current(self) -> TableVersion | None:
        """The newest version."""
        names = sorted(info.name for info in self._store.list(self._folder))
        return _read(len(names) - 1, bytes(self._store.read(names[-1]))) if names else None

    def commit(self, before: int, content: dict[str, Any]) -> None:
        """Make the version after ``before`` (-1: the first one).

        Raises `TableChangedError` if there is one, and what the store raises: then it may be there or not.
        """
        name = f"{self._folder}{before + 1:020d}.json"
        try:
            self._store.create(name, json.dumps(content, sort_keys=True).encode())
        except ObjectExistsError:
            raise TableChangedError(f"{name} is there") from None


def _read(native: int, data: bytes) -> TableVersion:
    content = json.loads(data)
    offsets = {int(number): (start, end) for number, (start, end) in content["offsets"].items()}
    return TableVersion(native, content["sequence"], content["entry"], offsets, tuple(content["files"]))


def publisher(stage: Stage) -> Callable[[Process], None]:
    """Publishes two topics together, again and again; now and then it drops the publication and makes a new one."""

    def body(process: Process) -> None:
        try:
            work = _Publisher(stage, process)
        except GivenUp:
            return
        while stage.goes_on:
            process.wait(stage.chance.choice([0.1, 1.0, 20.0]))
            try:
                work.publish()
                if stage.chance.random() < 0.03:
                    work.drop()
            except ProducerFencedError as error:
                stage.world.note(f"gives up: {error}")
                return
            except EosLogError as error:
                stage.world.note(f"was refused: {error!r}")

    return body


class _Publisher:
    def __init__(self, stage: Stage, process: Process) -> None:
        self._stage = stage
        self._process = process
        self._log = stage.open(process)
        self._epoch = -1

    def publish(self) -> None:
        """Finish what was begun, or make the next version."""
        publication = self._publication()
        if self._epoch < 0:
            fence = a.FencePublisher(PUBLICATION)
            (self._epoch,) = self._log.commit(lambda _: (fence,), writer="publisher").results
            publication = self._publication()
        if publication.begun is None:
            self._begin()
            self._stage.dawdle(self._process)
        self._finish()

    def drop(self) -> None:
        """The publication goes; its tables stay, and the next publication finds them."""
        action = a.DropPublication(PUBLICATION, self._epoch)
        self._log.commit(lambda _: (action,), writer="publisher")
        self._epoch = -1

    def _publication(self) -> Publication:
        state = self._log.follow()
        if PUBLICATION not in state.publications:
            topics = tuple((name, state.topics[name].topic_id) for name in _TOPICS)
            retention = ("retention.ms", str(int(_RETENTION_S * 1000)))
            create = a.CreatePublication(PUBLICATION, "delta", (retention,), topics)
            try:
                self._log.commit(lambda _: (create,), writer="publisher")
            except InvalidRequestError as error:
                self._stage.world.note(f"was refused: {error}")
        known = self._log.follow().publications.get(PUBLICATION)
        if known is None:
            raise TableChangedError("the publication was dropped right away")
        return known

    def _begin(self) -> None:
        for _ in range(_TRIES):
            then = self._log.follow()
            try:
                action = self._planned(then)
                self._log.commit(lambda _, action=action: (action,), writer="publisher")  # type: ignore[misc]
            except SegmentsReplacedError as error:
                self._stage.world.note(f"plans again: {error}")
            else:
                return
        raise SegmentsReplacedError("other processes were faster each time")

    def _planned(self, then: State) -> a.BeginPublish:
        publication = then.publications.get(PUBLICATION)
        if publication is None:
            raise TableChangedError("the publication was dropped")
        wanted = []
        for name, topic_id in publication.topics:
            for number in range(then.topics[name].partitions):
                known = then.partitions[topic_id, number]
                wanted.append(Cut(name, topic_id, number, known.start, known.last_stable_offset))
        sealed = seal(self._log, wanted, writer="publisher")
        ranges = []
        for cut in wanted:
            at = TopicPartition(cut.topic, cut.partition)
            if plan_sealed(sealed, at, cut.start, cut.end, load=self._log.load).rest:
                raise SegmentsReplacedError(f"{at} is not sealed any more")
            key = (cut.topic_id, cut.partition)
            _, pages = pages_of(key, sealed.partitions[key], cut.start, cut.end)
            ranges.append(a.PinnedRange(*key, cut.start, cut.end, checksum(pages)))
        last, chance = publication.published, self._stage.chance
        if last is not None and chance.random() < 0.3:  # What is as it was need not be named.
            ranges = [one for one in ranges if not _is_kept(one, last)]
        return a.BeginPublish(
            *(PUBLICATION, self._epoch, publication.sequence + 1, then.seq, tuple(ranges), then.timestamp_ms)
        )

    def _finish(self) -> None:
        publication = self._log.follow().publications.get(PUBLICATION)
        version = None if publication is None else publication.begun
        if publication is None or version is None:
            return
        natives = []
        for name, topic_id in publication.topics:
            table = SimulatedTable(self._stage.store, paths.table_folder(name, topic_id))
            pins = sorted((key, pin) for key, pin in version.pins.items() if key[0] == topic_id)
            files = dict.fromkeys(
                row.file.name
                for _, pin in pins
                for row in pin.rows(self._log.load)
                if row.file is not None and row.kind is Kind.DATA
            )
            content = {
                "sequence": version.sequence,
                "entry": version.entry,
                "offsets": {str(key[1]): [pin.start, pin.end] for key, pin in pins},
                "files": [*files],
            }
            natives.append((name, self._commit(table, version.sequence, content)))
        action = a.EndPublish(PUBLICATION, self._epoch, version.sequence, tuple(natives))
        self._log.commit(lambda _: (action,), writer="publisher")

    def _commit(self, table: SimulatedTable, sequence: int, content: dict[str, Any]) -> int:
        for _ in range(_TRIES):
            try:
                now = table.current()
                if now is not None and now.sequence >= sequence:
                    return now.native
                # A publisher that was paused comes with what the log said long ago.
                self._stage.dawdle(self._process)
                table.commit(-1 if now is None else now.native, content)
            except (EosLogError, ObjectNotFoundError) as error:
                self._stage.world.note(f"looks at the table again: {error!r}")
        raise TableChangedError("the table did not answer")


def _is_kept(one: a.PinnedRange, last: PublicationVersion) -> bool:
    pin = last.pins.get((one.topic_id, one.partition))
    return pin is not None and pin.is_whole and (pin.start, pin.end) == (one.start, one.end)


def table_reader(stage: Stage) -> Callable[[Process], None]:
    """Opens the newest version of a table and reads its files later on, as slowly as the retention allows."""

    def body(process: Process) -> None:
        world, chance = stage.world, stage.chance
        try:
            log = stage.open(process)
        except GivenUp:
            return
        while stage.goes_on:
            process.wait(chance.choice([0.1, 2.0, 20.0]))
            topic = chance.choice(_TOPICS)
            folder = paths.table_folder(topic, log.state.topics[topic].topic_id)
            try:
                found = SimulatedTable(stage.store, folder).current()
            except EosLogError as error:
                world.note(f"was refused: {error}")
                continue
            if found is None:
                continue
            began = world.now
            stage.dawdle(process)
            for name in found.files:
                try:
                    stage.store.read(name)
                except ObjectNotFoundError:
                    if _is_promised(stage, folder, found, began):
                        stage.broken.append(
                            f"version {found.sequence} of the table of {topic} has lost {name}"
                        )
                except EosLogError as error:
                    world.note(f"was refused: {error}")

    return body


def _is_promised(stage: Stage, folder: str, found: TableVersion, began: float) -> bool:
    """Whether the version should have its files still: it is the newest one, or has been so until a moment ago."""
    publication = tail.Tail(stage.store.inner).follow().publications.get(PUBLICATION)
    if publication is None or publication.first >= found.sequence:
        return False
    newest = SimulatedTable(stage.store.inner, folder).current()
    if newest is not None and newest.native == found.native:
        return True
    # Clocks that jump make a promise longer or shorter.
    return not stage.world.fault_profile.jump and stage.world.now - began < _RETENTION_S
