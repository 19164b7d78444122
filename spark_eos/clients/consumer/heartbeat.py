"""Signs of life of a group's members: small objects outside the chain of entries, never needed for safety.

Every member overwrites its own object from time to time and watches the next one in the ring of the sorted
member ids, so that N members cost N reads. If the object of a member does not change for its session timeout, the
watcher takes it for dead and proposes that it leaves. Only time in which the watcher was looking counts, by its own
monotonic clock. A mistake costs the member a rebalance, no more: the rules refuse what it commits afterwards.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NamedTuple
from urllib.parse import quote

from spark_eos.errors import EosLogError, ObjectNotFoundError
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, LeaveGroup
from spark_eos.protocol.state import Member, State
from spark_eos.storage import Data
from spark_eos.storage.forks import tell_in_child

_LOG = logging.getLogger(__name__)

_LONGEST_PART = 200
"""Of an object's name, in bytes; a store takes 255, and room is left for what people add."""


def heartbeat_name(group_id: str, member_id: str) -> str:
    """Where a member shows that it is alive."""
    return f"_groups/{_part(group_id)}/{_part(member_id)}"


def written_ms(content: Data) -> int:
    """When a sign of life was written, by the clock of the member's machine. For people: members count by their own."""
    return int(bytes(content).partition(b" ")[2])


class _Look(NamedTuple):
    """What was found when a member's object was last read, when, and since how long it is the same (s)."""

    content: bytes | None
    at: float
    silent: float


class Heartbeats:
    """The work of one member's background thread: `step` does all that is due now.

    ``member_id`` is empty while there is no member to show alive. The consumer says by `polled` that it is at
    work: one that does not poll for ``max.poll.interval.ms`` leaves the group (KIP-62); a static member only
    falls silent, as in Kafka.
    """

    def __init__(self, log: Log, settings: Mapping[str, Any]) -> None:
        self.member_id = ""
        self.interval_s: float = settings["heartbeat.interval.ms"] / 1000
        self._log = log
        self._group_id: str = settings["group.id"]
        self._is_static = settings["group.instance.id"] is not None
        self._writer: str = settings["client.id"] or self._group_id
        self._max_poll_s: float = settings["max.poll.interval.ms"] / 1000
        self.by_polls = False
        """Whether no thread calls `step`: then polls do."""
        self._polled = log.clock.monotonic()
        self._stepped = -inf
        self._beats = 0
        self._watched: dict[str, _Look] = {}
        self._late = ""
        self._troubled = False
        self._lock = threading.Lock()

    def begin(self, member_id: str) -> None:
        """Show this member alive from now on, and none before it."""
        self.polled()
        with self._lock:
            self.member_id = member_id

    def polled(self) -> None:
        """The application asks for records."""
        self._polled = self._log.clock.monotonic()
        if self.by_polls and self._polled - self._stepped >= self.interval_s:
            self._stepped = self._polled
            self.step()

    def end(self) -> None:
        """Show no member alive any more. Its object is deleted, if the store lets it."""
        with self._lock:
            member_id, self.member_id = self.member_id, ""
        if member_id:
            self.clear(member_id)

    def clear(self, member_id: str) -> None:
        """Delete what a member left behind, if the store lets it: it does no harm."""
        try:
            self._delete(member_id)
        except EosLogError as error:
            _LOG.debug("the heartbeat of member %s was not deleted: %s", member_id, error)

    def step(self) -> None:
        """Beat and look around, once. An error of the store is logged when it first occurs, and never raised."""
        with self._lock:
            member_id = self.member_id
        if not member_id:
            return
        try:
            if self._log.clock.monotonic() - self._polled >= self._max_poll_s:
                self._step_down(member_id)
            else:
                self._late = ""
                self._beat(member_id)
        except (EosLogError, OSError) as error:
            if not self._troubled:
                _LOG.warning(
                    "member %s of group %r cannot show that it is alive, and goes on trying: %s",
                    member_id,
                    self._group_id,
                    error,
                )
            self._troubled = True
        else:
            self._troubled = False

    def _beat(self, member_id: str) -> None:
        members = self._members(self._log.follow())
        if member_id not in members:
            self._watched = {}
            self._delete(member_id)
            return
        self._beats += 1
        content = b"%d %d" % (self._beats, self._log.clock.now_ms())
        self._log.store.overwrite(heartbeat_name(self._group_id, member_id), content)
        if self.member_id != member_id:
            self._delete(member_id)  # It left while its last beat was on the way.
            return
        silent = self._look_around(members, member_id)
        if silent:
            self._evict(silent)

    def _look_around(self, members: Mapping[str, Member], member_id: str) -> dict[str, int]:
        """The members that have been silent for too long, and for how many ms.

        Looks at the next member of the ring; if that one may be dead, at the one after it as well, and so
        on, so that many that die together are found together. Only time in which this one was looking
        counts: a process that was suspended has seen nothing.
        """
        ring = sorted(members)
        place = ring.index(member_id)
        doubtful = 2 * self.interval_s
        watched: dict[str, _Look] = {}
        silent: dict[str, int] = {}
        for other in ring[place + 1 :] + ring[:place]:
            content, now = self._read(other), self._log.clock.monotonic()
            before = self._watched.get(other)
            same_s = 0.0
            if before is not None and before.content == content:
                same_s = before.silent + min(now - before.at, doubtful)
            watched[other] = _Look(content, now, same_s)
            silent_ms = round(same_s * 1000)
            if silent_ms >= members[other].session_timeout_ms:
                silent[other] = silent_ms
            if same_s < doubtful:
                break
        self._watched = watched
        return silent

    def _evict(self, silent: Mapping[str, int]) -> None:
        _LOG.warning(
            "members %s of group %r were silent for longer than their session.timeout.ms: they leave",
            ", ".join(silent),
            self._group_id,
        )

        def propose(state: State) -> tuple[Action, ...]:
            members = self._members(state)
            return tuple(
                LeaveGroup(self._group_id, (other,), silent_ms)
                for other, silent_ms in silent.items()
                if other in members
            )

        self._log.commit(propose, writer=self._writer)
        for other in silent:
            self._watched.pop(other, None)
            self._delete(other)

    def _step_down(self, member_id: str) -> None:
        """The application does not poll: let others do its work. Its next poll joins again."""
        self._watched = {}
        if self._late != member_id:
            self._late = member_id
            _LOG.warning(
                "member %s of group %r has not polled for max.poll.interval.ms (%d ms): it %s. Poll more often, "
                "take fewer records at a time (max.poll.records), or raise the interval",
                member_id,
                self._group_id,
                round(self._max_poll_s * 1000),
                "falls silent" if self._is_static else "leaves",
            )
        if self._is_static:
            return

        def propose(state: State) -> tuple[Action, ...]:
            is_member = member_id in self._members(state)
            return (LeaveGroup(self._group_id, (member_id,)),) if is_member else ()

        self._log.commit(propose, writer=self._writer)
        with self._lock:
            # Unless its poll has come back by now, and joined again.
            if self.member_id == member_id:
                self.member_id = ""
        self._delete(member_id)

    def _members(self, state: State) -> Mapping[str, Member]:
        group = state.groups.get(self._group_id)
        return {} if group is None else group.members

    def _read(self, member_id: str) -> bytes | None:
        try:
            return bytes(self._log.store.read(heartbeat_name(self._group_id, member_id)))
        except ObjectNotFoundError:
            return None

    def _delete(self, member_id: str) -> None:
        self._log.store.delete(heartbeat_name(self._group_id, member_id))


class HeartbeatThread:
    """Calls `Heartbeats.step` at its interval until it is stopped. Knows no consumer, so that one may be lost."""

    def __init__(
        self, beats: Heartbeats, name: str, thread: Callable[..., threading.Thread] = threading.Thread
    ) -> None:
        self.is_refused = False
        """Whether there was no new thread, see `spark_eos.log.environment.Environment.started`."""
        self._stopped = threading.Event()
        self._thread = thread(
            target=_run,
            args=(beats.step, beats.interval_s, self._stopped),
            name=f"eoslog-heartbeat-{name}",
            daemon=True,
        )
        tell_in_child(self)

    def forked(self) -> None:
        """See `spark_eos.storage.forks.Forked`: the thread is not here, and may have held the event's lock."""
        self._stopped = threading.Event()

    def start(self) -> None:
        """The first step is done at once."""
        try:
            self._thread.start()
        except RuntimeError:
            self.is_refused = True

    def stop(self) -> None:
        """No further step begins; returns at once."""
        self._stopped.set()

    def join(self) -> None:
        """Stop, and wait for the end of a step that is being done."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join()


def _run(step: Callable[[], None], interval_s: float, stopped: threading.Event) -> None:
    while True:
        try:
            step()
        except Exception:  # noqa: BLE001  (a thread that died of a fault would look like a member that died)
            _LOG.exception("a heartbeat failed; the next one comes in %s s", interval_s)
        if stopped.wait(interval_s):
            return


def _part(text: str) -> str:
    """Text as one part of an object's name."""
    name = quote(text, safe="")
    if not name.strip("."):
        name = name.replace(".", "%2E")
    return name if len(name) <= _LONGEST_PART else hashlib.sha256(text.encode()).hexdigest()
