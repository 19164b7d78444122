"""What a handle on a log takes from its process, beside store and clock. Tests hand in another one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.rules.apply import apply_entry

if TYPE_CHECKING:
    from spark_eos.log.commit.loop import Committed, Propose
    from spark_eos.protocol.actions import Entry
    from spark_eos.protocol.rules.apply import Outcome
    from spark_eos.protocol.state import State
    from spark_eos.storage import Data


class Commit(Protocol):
    """The call of the commit loop, `spark_eos.log.commit.loop.Committer.commit`."""

    def __call__(
        self, propose: Propose, *, writer: str = "", request_id: bytes | None = None, alone: bool = False
    ) -> Committed: ...


Lock: TypeAlias = AbstractContextManager[object]


def _lock(_: str) -> Lock:
    return threading.RLock()


def is_held_here(lock: Lock) -> bool:
    """Whether this thread has ``lock``, if that is an ``RLock``."""
    is_owned = getattr(lock, "_is_owned", None)  # As conditions ask it.
    return is_owned is not None and bool(is_owned())


def refuse_second_call(lock: Lock) -> None:
    """Raise `RuntimeError` if this thread has ``lock``: it would wait for itself, for ever.

    Only the handler of a signal can call then, in the middle of the call that has the lock and goes on after it. It is
    Python's error for such a call, and none of ours, which the call in the middle would take for its own.
    """
    if is_held_here(lock):
        raise RuntimeError(
            "the handler of a signal has called a client in the middle of another call of the same log, which goes on "
            "after the handler, and cannot be waited for there: nothing was done. In a handler set a flag for the main "
            "loop, call Consumer.wakeup, or raise SystemExit; close the clients behind the loop"
        )


def _unchanged(commit: Commit) -> Commit:
    return commit


class Lag(NamedTuple):
    """When a process lags, and for how long.

    It has not led group commit for so many entries (``after``), and the newest ones hold so many ``requests`` in the
    mean: else it costs little to apply them. It goes on from the newest snapshot when it lacks so many (``skips``). It
    leaves a free lead to the others for as long as the last entries took, ``most_s`` seconds at most, and
    ``each_s`` more for each entry that it lacks.
    """

    after: int = 6
    requests: float = 3.0
    skips: int = 256
    most_s: float = 0.1
    each_s: float = 0.001


LAG = Lag()
"""That of production."""


@dataclass(frozen=True)
class Environment:
    """Durations, locks, threads, and how entries are read. The defaults are those of production.

    The simulator and the explorer run many processes in one thread: they hand in locks and threads of their own, and
    durations that a short run reaches.
    """

    away_s: float = 3600.0
    """After so many seconds a process trusts nothing that it finds in the log before it has read the newest snapshot
    (`spark_eos.log.commit.tail`).
    """
    names_kept_s: float = 24 * 3600.0
    """Names of retired entries are deleted so many seconds after they were noted as retired, at the earliest
    (`spark_eos.maintenance.name_deletion`).
    """
    leader_looks_s: tuple[float, float] = (0.0005, 0.01)
    """The shortest and the longest time between two looks whether the leader of group commit is done, in seconds."""
    lag: Lag = LAG
    """When a process leaves off applying what others write (`spark_eos.log.commit.lagging`)."""
    lock: Callable[[str], Lock] = _lock
    """Makes a lock of the commit loop or the tail, by its name (``commit``, ``tail``)."""
    thread: Callable[..., threading.Thread] = threading.Thread
    """Makes a thread of a client, as `threading.Thread`."""
    pool: Callable[[int, str], Executor] = ThreadPoolExecutor
    """Makes the threads that prefetch, by their number and name."""
    decode: Callable[[Data, int, str], Entry] = decode_entry
    """Reads an entry from its bytes."""
    apply: Callable[[State, Entry], tuple[State, tuple[Outcome, ...]]] = apply_entry
    """Applies an entry to a state."""
    around_commit: Callable[[Commit], Commit] = _unchanged
    """Gives the commit call that clients use, from that of the commit loop."""

    def started(self, target: Callable[[], None], name: str) -> threading.Thread | None:
        """A thread that does it; None where there is no new one, and the caller does it itself.

        Python 3.12 has none from the end of the main thread on, not even for threads that go on then. Later versions
        have none for handlers of `atexit`.
        """
        thread = self.thread(target=target, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return None
        return thread


PROCESS = Environment()
"""That of every process in production."""
