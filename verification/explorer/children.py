"""Forked processes of an exploration: each has the memory of its parent, as that was at any of its steps."""

from __future__ import annotations

from contextlib import suppress

import greenlet

from spark_eos.errors import EosLogError
from spark_eos.log import paths
from spark_eos.protocol.actions import CreateTopic
from verification.explorer.actor import Actor, Body, FrozenClock, Thread
from verification.explorer.actor_programs import request
from verification.forks import log_in_child

__all__ = ["child"]


def child(topic: str) -> Body:
    """A thread that forks: the child creates a topic with the handle of its parent, and dies with that."""

    def body(actor: Actor) -> None:
        log = actor.open()
        with suppress(EosLogError):
            log.store.size(paths.entry(0))  # The parent may be anywhere when this is answered.
        thread = greenlet.getcurrent()
        assert isinstance(thread, Thread)
        thread.who = f"{thread.who}-child"
        own = log_in_child(log, FrozenClock(thread.who))
        with suppress(EosLogError):
            request(actor, own, lambda _state: (CreateTopic(topic, f"id-of-{topic}", 1),))

    return body
