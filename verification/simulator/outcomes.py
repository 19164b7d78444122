"""The answers that the processes of a simulated world got to their requests, to be compared with the log later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from spark_eos.errors import CommitOutcomeUnknownError, EosLogError
from spark_eos.log.commit.loop import Committed, Propose
from spark_eos.log.environment import Commit
from verification.simulator.world import World

__all__ = ["Outcomes", "heard"]


class Outcomes(NamedTuple):
    """The answer to one request, ``at`` the world's time (s).

    ``seq`` is None if it was refused for certain, or if the outcome is not known.

    One without an error that is ``unknown`` is none yet: the process waits, and may be killed before the answer.
    ``error`` is the name of the error's class; ``unknown`` says that it may be in or not.
    """

    request_id: bytes
    at: float
    writer: str
    seq: int | None
    results: tuple[Any, ...] = ()
    error: str = ""
    unknown: bool = False


def heard(
    world: World, hear: Callable[[Outcomes], None], unique: Callable[[], bytes]
) -> Callable[[Commit], Commit]:
    """Commit calls whose answers are heard. A process that is killed while it waits gets no answer."""

    def around(original: Commit) -> Commit:
        def commit(
            propose: Propose, *, writer: str = "", request_id: bytes | None = None, alone: bool = False
        ) -> Committed:
            own = request_id or unique()
            hear(Outcomes(own, world.now, writer, None, unknown=True))
            try:
                done = original(propose, writer=writer, request_id=own, alone=alone)
            except EosLogError as error:
                unknown = isinstance(error, CommitOutcomeUnknownError)
                hear(Outcomes(own, world.now, writer, None, error=type(error).__name__, unknown=unknown))
                raise
            hear(Outcomes(own, world.now, writer, done.seq, done.results))
            return done

        return commit

    return around
