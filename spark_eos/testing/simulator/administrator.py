"""Somebody who changes topics, ends transactions and sweeps, at any time."""

from __future__ import annotations

from collections.abc import Callable

from spark_eos.clients.admin import Admin
from spark_eos.errors import EosLogError
from spark_eos.testing.simulator.stage import INPUT, Stage
from spark_eos.testing.simulator.world import Process

__all__ = ["administrator"]


def administrator(stage: Stage) -> Callable[[Process], None]:
    """Makes, changes and deletes topics, looks at transactions and ends some, sweeps."""

    def body(process: Process) -> None:
        admin = _Administrator(stage, process)
        verbs = [admin.create, admin.delete, admin.sweep, admin.end_transactions, admin.grow, admin.look]
        while stage.goes_on:
            process.wait(stage.chance.choice([0.5, 5.0, 60.0]))
            try:
                stage.chance.choice(verbs)()
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

    def sweep(self) -> None:
        self.log.follow()
        self.log.sweep(everything=True)

    def end_transactions(self) -> None:
        for found in self.admin.list_transactions():
            if found.state == "Ongoing" and self.chance.random() < 0.3:
                self.admin.abort_transaction(found.transactional_id)

    def grow(self) -> None:
        count = len(self.admin.describe_topic(INPUT).partitions)
        if count < 4 and self.chance.random() < 0.2:
            self.admin.alter_topic(INPUT, partitions=count + 1)

    def look(self) -> None:
        self.admin.list_groups()
        self.admin.list_transactions()
