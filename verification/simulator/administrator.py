"""An administrator that changes topics, settings and groups at any time; expiration tasks, and visitors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spark_eos.clients.admin import Admin
from spark_eos.clients.consumer.consumer import Consumer
from spark_eos.clients.producer.producer import Producer
from spark_eos.errors import EosLogError
from spark_eos.log.log import Log
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.rolling import TAIL_ROWS
from spark_eos.protocol.types import TopicPartition
from verification.simulator.context import AUTO, INPUT, RAW, SHARED, GivenUp, Stage
from verification.simulator.world import Process

__all__ = ["administrator", "expiration_task", "feeder", "maintainer", "visitor"]

RESET = "reset"
"""A group without readers: its offsets are moved around."""


def administrator(stage: Stage) -> Callable[[Process], None]:
    """Makes, changes and deletes topics and groups, ends transactions, and expires what is overdue."""

    def body(process: Process) -> None:
        try:
            admin = _Administrator(stage, process)
        except GivenUp:
            return
        verbs = [
            admin.create,
            admin.delete,
            admin.expire_overdue,
            admin.end_transactions,
            admin.fence,
            admin.grow,
        ]
        verbs += [admin.look, admin.reset, admin.forget, admin.recreate, admin.shorten, admin.evict]
        verbs += [admin.reset, admin.reset, admin.forget]
        while stage.goes_on:
            process.wait(stage.chance.choice([0.2, 2.0, 30.0]))
            try:
                stage.chance.choice(verbs)()
            except EosLogError as error:
                stage.world.note(f"was refused: {error}")

    return body


def expiration_task(stage: Stage) -> Callable[[Process], None]:
    """Watches for as long as it lives, and ends what is over."""

    def body(process: Process) -> None:
        try:
            log = stage.open(process)
        except GivenUp:
            return
        pause = stage.chance.choice([0.3, 1.0, 10.0])
        while stage.goes_on:
            process.wait(pause)
            try:
                if stage.chance.random() < 0.7:
                    log.follow()
                log.expire_overdue(everything=stage.chance.random() < 0.2)
            except EosLogError as error:
                stage.world.note(f"was refused: {error}")

    return body


def visitor(stage: Stage) -> Callable[[Process], None]:
    """Comes now and then, each time as if for the first time, and never stays for as long as a timeout."""

    def body(process: Process) -> None:
        at = TopicPartition(SHARED, 0)
        config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "group.id": RESET}
        visits: list[Callable[[Log], object]] = [
            lambda log: log.expire_overdue(),
            lambda log: len(log.overdue()) and log.expire_overdue(),
            lambda log: Consumer(log, config).end_offsets([at]),
            lambda log: Consumer(log, {**config, "default.api.timeout.ms": 50}).committed([at]),
        ]
        while stage.goes_on:
            process.wait(stage.chance.choice([0.5, 5.0, 40.0]))
            try:
                stage.chance.choice(visits)(stage.open(process))
            except GivenUp:
                return
            except EosLogError as error:
                stage.world.note(f"was refused: {error}")

    return body


def feeder(stage: Stage, pauses: Sequence[float] = (0.3, 5.0, 60.0)) -> Callable[[Process], None]:
    """Goes on writing what is to be copied."""

    def body(process: Process) -> None:
        try:
            producer = Producer(stage.open(process))
            while stage.goes_on:
                at = stage.partition(INPUT)
                future = producer.send(INPUT, stage.value(process), partition=at.partition)
                producer.flush()
                if (error := future.exception(0)) is not None:
                    stage.world.note(f"was refused: {error}")
                process.wait(stage.chance.choice(pauses))
        except (GivenUp, EosLogError) as error:
            stage.world.note(f"gives up: {error}")

    return body


def maintainer(stage: Stage, forget_s: float | None, *, is_eager: bool = False) -> Callable[[Process], None]:
    """Rolls, retires, cuts and vacuums, as soon as it may, now and then while others do as well.

    ``forget_s`` is after how long names of retired entries are deleted. ``is_eager``: it rolls and vacuums what it can,
    at once.
    """

    def body(process: Process) -> None:
        try:
            log = stage.open(process)
        except GivenUp:
            return
        chance = stage.chance
        keeper = Maintainer(
            log,
            min_age_s=0 if is_eager else chance.choice([0, 100, 86_400]),
            tail_rows=1 if is_eager else chance.choice([1, 4, TAIL_ROWS]),
            delete_names_s=forget_s,
        )
        while stage.goes_on:
            process.wait(0.7 if is_eager else stage.chance.choice([0.5, 5.0, 50.0]))
            try:
                for done in keeper.run(wait=False):
                    stage.world.note(f"{done.step}: {done.text}")
            except EosLogError as error:
                stage.world.note(f"was refused: {error}")

    return body


class _Administrator:
    def __init__(self, stage: Stage, process: Process) -> None:
        self.chance = stage.chance
        self.log = stage.open(process)
        self.admin = Admin(self.log)
        self.name = process.name.replace("#", "-")
        self.made = 0

    def create(self) -> None:
        self.made += 1
        self.admin.create_topic(f"extra-{self.name}-{self.made}", self.chance.randint(1, 3))

    def delete(self) -> None:
        if extra := [name for name in self.admin.list_topics() if name.startswith("extra")]:
            self.admin.delete_topic(self.chance.choice(extra))

    def recreate(self) -> None:
        """The topic of those who keep no rules goes, and comes again as another."""
        if RAW in self.admin.list_topics():
            self.admin.delete_topic(RAW)
        self.admin.create_topic(RAW, self.chance.choice([2, 2, 3]))

    def shorten(self) -> None:
        """Its first records go."""
        at = TopicPartition(RAW, 0)
        partition = self.admin.describe_topic(RAW).partitions[0]
        self.admin.delete_records({at: self.chance.choice([-1, partition.start, partition.end // 2])})

    def expire_overdue(self) -> None:
        self.log.follow()
        self.log.expire_overdue(everything=True)

    def end_transactions(self) -> None:
        for found in self.admin.list_transactions():
            if found.state == "Ongoing" and self.chance.random() < 0.3:
                self.admin.abort_transaction(found.transactional_id)

    def fence(self) -> None:
        # A fenced till has its prepared transaction aborted, as in Kafka, whatever its database says.
        known = [found.transactional_id for found in self.admin.list_transactions()]
        known = [name for name in known if not name.startswith("till")]
        # Nor may what another log decides be aborted: that is refused.
        known = [name for name in known if not name.startswith("pair")]
        if known and self.chance.random() < 0.5:
            self.admin.fence_producers([self.chance.choice(known)])

    def grow(self) -> None:
        count = len(self.admin.describe_topic(INPUT).partitions)
        if count < 4 and self.chance.random() < 0.2:
            self.admin.alter_topic(INPUT, partitions=count + 1)

    def reset(self) -> None:
        how = self.chance.choice(["to_earliest", "to_latest", "to_current"])
        self.admin.reset_group_offsets(RESET, [SHARED, RAW], **{how: True})  # type: ignore[arg-type]

    def forget(self) -> None:
        if self.chance.random() < 0.5:
            self.admin.delete_group(RESET)
        else:
            self.admin.delete_group_offsets(RESET, [TopicPartition(SHARED, 0)])

    def evict(self) -> None:
        if self.chance.random() < 0.3:
            self.admin.remove_members_from_group(AUTO)

    def look(self) -> None:
        self.admin.list_groups()
        self.admin.list_transactions()
        self.admin.describe_groups()
