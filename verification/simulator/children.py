"""Forked processes of a simulated world: each begins with the memory of another one, as that was at some step.

The parent is wherever it stands: in the middle of a commit, in doubt, with requests handed over. Its client refuses
whatever the child asks for; the log is the child's own, and as good as one that was opened.
"""

from __future__ import annotations

from collections.abc import Callable

from spark_eos.clients.producer.producer import Producer
from spark_eos.errors import IllegalStateError
from spark_eos.log.log import Log
from verification.forks import log_in_child, producer_in_child
from verification.simulator.clock import SimulatedClock
from verification.simulator.context import INPUT, Stage
from verification.simulator.producers import idempotent
from verification.simulator.world import Process

__all__ = ["child"]


def child(stage: Stage) -> Callable[[Process], None]:
    """A child of one of those that live. What it was forked with it may not use; it makes a producer of its own."""

    def forked(process: Process) -> Log:
        living = [one for one in stage.memories if not (one[0].dead or one[0].ended)]
        if not living:
            return stage.open(process)
        parent, log, producer = stage.chance.choice(living)
        stage.world.note(f"is forked from {parent.name}")
        process.wall_skew_ms = parent.wall_skew_ms
        if producer is not None:
            _try_all(producer_in_child(producer))
        own = log_in_child(log, SimulatedClock(process))
        stage.memories.append((process, own, None))
        return own

    return idempotent(stage, forked)


def _try_all(producer: Producer) -> None:
    """Whatever it asks for is refused, and the end of it does nothing."""
    verbs: list[Callable[[], object]] = [
        lambda: producer.send(INPUT, "of a child"),
        producer.flush,
        producer.begin_transaction,
        producer.commit_transaction,
        producer.abort_transaction,
        producer.init_transactions,
    ]
    for verb in verbs:
        try:
            verb()
        except IllegalStateError:
            continue
        raise AssertionError(f"a forked process was let do {verb}")
    producer.close()
