"""What every process of a simulated world was told about its requests, to be held against the log later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from spark_eos.errors import CommitOutcomeUnknownError, EosLogError
from spark_eos.log.commit.loop import Committed, Committer, Propose
from verification.simulator.world import World

__all__ = ["Outcomes", "listening"]


class Outcomes(NamedTuple):
    """The answer to one request, ``at`` the world's time (s).

    ``seq`` is None if it was refused for certain, or nobody knows.

    One without an error that is ``unknown`` is none yet: somebody asks, and may be killed before it hears.
    ``error`` is the name of the error's class; ``unknown`` says that it may be in or not.
    """

    request_id: bytes
    at: float
    writer: str
    seq: int | None
    results: tuple[Any, ...] = ()
    error: str = ""
    unknown: bool = False


@contextmanager
def listening(world: World, hear: Callable[[Outcomes], None]) -> Iterator[None]:
    """Hear every answer that a commit loop gives, to whomever. Who is killed while it waits is told nothing."""
    original = Committer.commit

    def commit(
        self: Committer, propose: Propose, *, writer: str = "", request_id: bytes | None = None
    ) -> Committed:
        own = request_id or self._clock.unique()
        hear(Outcomes(own, world.now, writer, None, unknown=True))
        try:
            done = original(self, propose, writer=writer, request_id=own)
        except EosLogError as error:
            unknown = isinstance(error, CommitOutcomeUnknownError)
            hear(Outcomes(own, world.now, writer, None, error=type(error).__name__, unknown=unknown))
            raise
        hear(Outcomes(own, world.now, writer, done.seq, done.results))
        return done

    with mock.patch.object(Committer, "commit", commit):
        yield
