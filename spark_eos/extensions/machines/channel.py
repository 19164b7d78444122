"""The group channel of many machines. It makes no decision that safety rests on: `Store.create` alone decides.

On each machine one process at a time speaks for it (the lead of the machine's own channel). It hands all submissions
of the machine to the leader of all machines, and hears from it which entries are there. The leader is one of the
writers: the one that the hint names. It leads as long as it commits.

What the leader says is only a reason to read the log. A leader that does not answer, says that it leads no more,
names an entry that is not there, or leaves out what it was given again and again is asked no more: the process
writes for itself, looks at the hint again, and leads itself if the hint still names that leader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from spark_eos.extensions.machines.hint import Hint, Hints
from spark_eos.extensions.machines.limits import (
    BEGUN_S,
    FORGIVEN_S,
    LOOK_S,
    OBJECT_FORGIVEN_S,
    OBJECT_PATIENCE,
    OBJECT_SILENT_S,
    OBJECT_WAITS_S,
    PATIENCE,
    POLL_S,
    REACH,
    REACHES_S,
    REFRESH_S,
    SILENCE_S,
    SILENT_S,
    SPREAD_S,
    VISIT_S,
)
from spark_eos.extensions.machines.mailbox import Host
from spark_eos.extensions.machines.message import Answer, Peer, encode_bundle
from spark_eos.extensions.machines.objects import Aside, Collector, RequestObjects, reached
from spark_eos.storage.group_channel import GroupChannel


class MachinesChannel(GroupChannel):
    """One process's place in it. For one thread at a time.

    Parameters
    ----------
    local
        The channel of this machine, for processes that take part in this one only: what is submitted there may be in
        `REACH` slots.
    hints
        Where the hint is.
    listen
        Begins to listen for other machines; None if that is not possible.
    call
        The way to a leader; None if there is none.
    now
        A monotonic clock, in seconds.
    chance
        A random number from 0 to 1.
    aside
        Does something while this process goes on: no commit waits for a look at the hint.
    objects
        The way for machines that cannot reach the leader; None: there is none.
    """

    reach = REACH
    is_trusted = False

    def __init__(
        self,
        local: GroupChannel,
        hints: Hints,
        listen: Callable[[], Host | None],
        call: Callable[[Hint], Peer | None],
        now: Callable[[], float],
        chance: Callable[[], float],
        aside: Aside,
        objects: RequestObjects | None = None,
    ) -> None:
        self._local = local
        self._hints = hints
        self._listen = listen
        self._call = call
        self._now = now
        self._chance = chance
        self._aside = aside
        self._objects = objects
        self._host: Host | None = None
        self._peer: Peer | None = None
        self._leader = ""
        """The leader at the other end of ``_peer``."""
        self._failed: dict[str, float] = {}
        """Leaders that are asked no more, and since when."""
        self._suspects: dict[str, tuple[int, float]] = {}
        """A leader that has failed this process: the beat in its hint, and since when it is the same."""
        self._speaks = False
        """Whether this process has the lead of its machine."""
        self._look_s = -math.inf
        """When it looks at the hint next."""
        self._begun = 0
        """How often it has looked at the hint since it began to lead."""
        self._lead_s = -math.inf
        """It does not lead before that."""
        self._own: bytes | None = None
        self._newest = -1
        self._is_news = False
        self._is_from_peer = False
        """Whether the leader, and no process of this machine, has said that an entry is there."""
        self._left_out = 0
        self._answers = 0
        self._news_s = -math.inf
        self._arrivals = 0
        self._is_by_objects = False
        """Whether ``_peer`` is the way through the store."""
        self._given_s = -math.inf
        """Since when it has waited for what it has submitted."""
        self._no_objects: dict[str, float] = {}
        """Leaders that have left out objects, and since when they are given none."""
        self._poll_s = -math.inf
        """When it looks for the next entry, if so."""
        self._stride = 1
        """For so many entries it looks at a time, if so: for more where it has found all."""
        self._reach_s = -math.inf
        """When it tries to reach the leader, if so."""
        self._again: Future[tuple[Hint | None, Peer | None]] | None = None
        """That is under way."""
        self._collector: Collector | None = None
        """Of the term in which this process leads."""
        self._visit_s = now() + VISIT_S
        self._glance: Future[Hint | None] | None = None
        """A look at the hint that is under way."""
        self._last_beat: tuple[str, int] | None = None
        """Leader and beat in the hint, as it was read last."""

    def forked(self) -> None:
        """This is a child: it leads nothing. Called by the channel's owner (`spark_eos.storage.forks`)."""
        if self._host is not None:
            self._host.abandon()
        self._host, self._peer, self._own, self._speaks = None, None, None, False
        self._glance, self._again, self._collector, self._is_by_objects = None, None, None, False

    # -- Who leads --------------------------------------------------------------------------------------

    def try_lead(self) -> bool:
        if self._host is not None and self._still_leads(self._host):
            return True
        if not self._local.try_lead():
            self._speaks = False
            return False
        self._speaks = True
        if self._is_by_objects:
            self._look_again()
        return self._peer is None and not self._finds_leader()

    def _still_leads(self, host: Host) -> bool:
        now = self._now()
        if self._glance is None and now >= self._look_s:
            self._begun += 1
            self._look_s = now + (BEGUN_S if self._begun < 5 else REFRESH_S)
            self._glance = self._aside(self._hints.read)
        if self._glance is not None and self._glance.done():
            hint = self._note(self._glance.result())
            if hint is not None and hint.leader != host.hint.leader:
                self._host = None
                host.close()
                return False
            if hint is None or self._begun >= 5:
                host.hint = replace(host.hint, beat=host.hint.beat + (self._begun >= 5))
                self._last_beat = host.hint.leader, host.hint.beat
                self._aside(partial(self._hints.write, host.hint))
                if self._collector is not None:
                    self._collector.look()
        if self._collector is not None:
            for member, body in self._collector.found().items():
                host.mailbox.put(f"{member} by object", body)
        host.mailbox.note_lead()
        return True

    def _finds_leader(self) -> bool:
        """Whether another process leads. If none does, this one leads from here on, or writes for itself."""
        now = self._now()
        if now < self._look_s:
            return False
        self._look_s = now + LOOK_S * (0.5 + self._chance())
        self._failed = {leader: at for leader, at in self._failed.items() if now - at < FORGIVEN_S}
        hint = self._note(self._hints.read())
        if hint is not None and self._may_be_alive(hint, now):
            return self._peer is not None
        if hint is not None and hint.leader not in self._failed:
            self._follow(self._call(hint), hint.leader, now)
            if self._peer is None:
                self._failed[hint.leader] = now
                self._suspects.pop(hint.leader, None)
            return self._peer is not None
        if now < self._lead_s:
            self._look_s = self._lead_s
            return False
        host = self._listen()
        if host is not None:
            self._last_beat, self._glance = (host.hint.leader, host.hint.beat), None
            if not self._hints.write(host.hint):
                host.close()
                return False
            self._host, self._begun, self._arrivals = host, 0, 0
            self._collector = None if self._objects is None else self._objects.collector()
            self._look_s = self._now() + BEGUN_S
            host.mailbox.note_lead()
        return False

    def _may_be_alive(self, hint: Hint, now: float) -> bool:
        """Whether the leader of the hint may have failed this process alone: then this one does not lead.

        If it leads others for certain, it gets the requests as objects from here on.
        """
        if hint.leader not in self._suspects or hint.leader not in self._failed:
            return False
        beat, since = self._suspects[hint.leader]
        if beat != hint.beat:
            self._suspects[hint.leader] = hint.beat, now
            forgiven = now - self._no_objects.get(hint.leader, -math.inf) > OBJECT_FORGIVEN_S
            if beat >= 0 and self._objects is not None and forgiven:
                self._follow(self._objects.peer(), hint.leader, now)
                self._is_by_objects, self._reach_s = True, now + REACHES_S
            return True
        return now - since < SILENCE_S

    def _follow(self, peer: Peer | None, leader: str, now: float) -> None:
        """Let this leader have the requests of this machine from here on."""
        self._peer, self._leader, self._is_by_objects = peer, leader, False
        self._newest, self._is_news, self._left_out = -1, False, 0
        self._news_s = self._given_s = now

    def _look_again(self) -> None:
        """Without a way to the leader: see whether another one leads by now, or this one can be reached."""
        now = self._now()
        if self._again is None and now >= self._look_s:
            self._look_s = now + REFRESH_S
            reach = now >= self._reach_s
            self._reach_s = now + REACHES_S if reach else self._reach_s
            self._again = self._aside(
                partial(reached, self._hints, self._call, self._leader, at_any_rate=reach)
            )
        if self._again is None or not self._again.done():
            return
        (hint, peer), self._again = self._again.result(), None
        if hint is not None and peer is not None and self._peer is not None:
            self._peer.close()
            self._failed.pop(hint.leader, None)
            self._follow(peer, hint.leader, now)
        elif hint is not None:
            self._leader = hint.leader

    def _note(self, hint: Hint | None) -> Hint | None:
        self._glance = None
        self._visit_s = self._now() + VISIT_S
        self._last_beat = None if hint is None else (hint.leader, hint.beat)
        return hint

    def _is_waited_for(self) -> bool:
        """Whether others wait for a leader, as far as the hint tells this process, which writes alone."""
        if self._glance is None and self._now() >= self._visit_s:
            self._glance = self._aside(self._hints.read)
        if self._glance is None or not self._glance.done():
            return False
        before = self._last_beat
        self._note(self._glance.result())
        return self._last_beat not in (None, before)

    def release_lead(self) -> None:
        self._speaks = False
        self._local.release_lead()

    def leader_token(self) -> int:
        if self._speaks and self._peer is not None:
            return self._answers + 1
        if self._host is not None and self._host.mailbox.arrivals != self._arrivals:
            self._arrivals = self._host.mailbox.arrivals
            return self._arrivals
        token = self._local.leader_token()
        if (
            not token
            and not self._speaks
            and self._peer is None
            and self._host is None
            and self._is_waited_for()
        ):
            return -1
        return token

    def distrust(self) -> None:
        if self._is_from_peer and self._is_by_objects:
            self._newest, self._is_news, self._stride = -1, False, 1  # Nothing has said that it is there.
            self._poll_s = self._now() + POLL_S
        elif self._is_from_peer:
            self._lose(gone=True)
        else:
            self._local.distrust()

    def _lose(self, *, gone: bool) -> None:
        """Ask this leader no more. ``gone``: it leads no more for certain, or lies; else it may lead others."""
        if self._peer is not None:
            self._peer.close()
            self._peer, self._is_by_objects, self._again = None, False, None
            now = self._now()
            self._failed[self._leader] = now
            if gone:
                self._suspects.pop(self._leader, None)
            else:
                self._suspects = {self._leader: (-1, now)}
            # The hint may name another one by now.
            self._look_s, self._lead_s = now, now + SPREAD_S * self._chance()
        self._newest = -1

    # -- What is handed over ----------------------------------------------------------------------------

    def submit(self, data: bytes) -> bool:
        if self._own is None:
            self._given_s = self._now()
        self._own = data
        return self._local.submit(data)

    def withdraw(self) -> bool:
        self._own, self._left_out = None, 0
        return self._local.withdraw()

    def submissions(self) -> Iterator[bytes]:
        yield from self._local.submissions()
        if self._host is not None:
            self._arrivals = self._host.mailbox.arrivals
            yield from self._host.mailbox.submissions()

    def publish(self, seq: int, data: bytes) -> None:
        self._local.publish(seq, data)
        if self._host is not None:
            self._host.mailbox.publish(seq)

    def published(self, seq: int) -> bytes | None:
        self._is_from_peer = False
        if (data := self._local.published(seq)) is not None:
            if not data and self._speaks:
                self._local.try_lead()  # As below.
            return data
        if self._peer is None or not self._speaks or self._own is None:
            return None
        self._local.try_lead()  # A sign for this machine: reading many entries takes long.
        if self._newest < seq:
            if self._is_news:
                self._is_news = False  # It has just answered.
                return None
            if self._is_by_objects and self._now() < self._poll_s:
                return None
            self._exchange(self._peer, seq - 1)
            # A leader on this machine has told it here, too, and its bytes.
            if (data := self._local.published(seq)) is not None:
                return data
        if self._newest < seq:
            return None
        self._is_from_peer = True
        return b""

    def newest(self) -> int:
        return max(self._newest, self._local.newest())

    def note_entry(self, seq: int) -> None:
        self._local.note_entry(seq)

    def relay(self, seq: int, data: bytes) -> None:
        self._local.publish(seq, data)
        if self._is_by_objects:
            self._news_s = self._now()
            self._left_out += 1

    def _exchange(self, peer: Peer, seq: int) -> None:
        assert self._own is not None
        answer: Answer | None = peer.exchange(encode_bundle([self._own, *self._local.submissions()]), seq)
        now = self._now()
        if answer is None or not answer.leads:
            self._lose(gone=answer is not None)
            return
        self._answers += 1
        if self._is_by_objects:
            self._newest, self._is_news = seq + self._stride, True
            self._stride = min(2 * self._stride, REACH)
            if self._left_out > OBJECT_PATIENCE and now - self._given_s > OBJECT_WAITS_S:
                self._no_objects = {self._leader: now}
                self._lose(gone=False)
            elif now - self._news_s > OBJECT_SILENT_S:
                self._lose(gone=False)
            return
        if answer.newest > seq:
            self._newest, self._is_news, self._news_s = answer.newest, True, now
            # What a process submits that is far behind may be too old.
            self._left_out += answer.newest <= seq + 2
        if self._left_out > PATIENCE or now - self._news_s > SILENT_S:
            self._lose(gone=False)
