"""The recorder: writes a history down while it happens.

A simulator has a `Recorder` with its own clock; processes that may be killed give the recorder a file each. The files
are merged afterwards::

    with open("writer-1.jsonl", "a") as file:
        recorder = Recorder(file=file)
        token = recorder.invoke("writer-1", "commit", [Send(t0, "a")], transaction="orders")
        ...
        recorder.ok(token, [Send(t0, "a", offset=17)])

    report = check(merge(*(read_history(path) for path in paths)))
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TextIO

from spark_eos.errors import IllegalStateError
from spark_eos.testing.history.events import READ_COMMITTED, Action, Event, Isolation, Kind
from spark_eos.testing.history.files import dump_event


@dataclass(frozen=True, eq=False)
class Token:
    """A call that was invoked and not yet completed."""

    invoke: Event


class Recorder:
    """Writes a history down while it happens. Safe to share between threads.

    Parameters
    ----------
    clock
        Gives seconds. All processes of one machine share the default, `time.monotonic`.
    file
        Where each event is written as a line of JSON, and flushed at once, so that it survives a killed process.

    Examples
    --------
    >>> from spark_eos import TopicPartition
    >>> from spark_eos.testing import Poll, Recorder, Send, check
    >>> orders = TopicPartition("orders", 0)
    >>> recorder = Recorder()
    >>> call = recorder.invoke("writer", "send", [Send(orders, "a")])
    >>> recorder.ok(call, [Send(orders, "a", offset=0)])
    >>> call = recorder.invoke("reader", "poll")
    >>> recorder.ok(call, [Poll(orders, ((0, "a"),))])
    >>> check(recorder.history).ok
    True
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, file: TextIO | None = None) -> None:
        self._clock, self._file = clock, file
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._open: dict[str, Token] = {}

    @property
    def history(self) -> list[Event]:
        """A copy of the events so far."""
        with self._lock:
            return [*self._events]

    def invoke(
        self,
        process: str,
        call: str,
        actions: Iterable[Action] = (),
        *,
        transaction: str | None = None,
        streamed: bool = False,
        isolation: Isolation = READ_COMMITTED,
    ) -> Token:
        """Note that a process begins a call. An earlier call that it left open counts as `info`.

        Parameters
        ----------
        process
            The name of the process; it has one call open at a time.
        call
            The name of the call, for people.
        actions
            What it sends or polls, as far as that is known now.
        transaction
            The ``transactional.id``; None: outside of transactions.
        streamed
            The transaction appends records before its end.
        isolation
            The ``isolation.level`` of its polls.

        Returns
        -------
        Token
            For `ok`, `fail` or `info`.
        """
        with self._lock:
            event = self._append(
                process, Kind.INVOKE, call, (*actions,), transaction, streamed=streamed, isolation=isolation
            )
            token = self._open[process] = Token(event)
            return token

    def ok(self, token: Token, actions: Iterable[Action] | None = None, *, streamed: bool = False) -> None:
        """Note that a call has succeeded.

        Parameters
        ----------
        token
            What `invoke` returned.
        actions
            What it sent, with offsets, and what it polled. None: those of the invocation.
        streamed
            The transaction turned out to append records before its end.

        Raises
        ------
        IllegalStateError
            The call was completed before, or its process went on without it.
        """
        self._complete(token, Kind.OK, actions, streamed)

    def fail(self, token: Token, actions: Iterable[Action] | None = None, *, streamed: bool = False) -> None:
        """Note that a call certainly has no effect, or that its transaction was aborted. As `Recorder.ok`."""
        self._complete(token, Kind.FAIL, actions, streamed)

    def info(self, token: Token, actions: Iterable[Action] | None = None, *, streamed: bool = False) -> None:
        """Note that the outcome of a call is not known. As `Recorder.ok`."""
        self._complete(token, Kind.INFO, actions, streamed)

    def _complete(self, token: Token, kind: Kind, actions: Iterable[Action] | None, streamed: bool) -> None:
        invoke = token.invoke
        with self._lock:
            if self._open.get(invoke.process) is not token:
                raise IllegalStateError(
                    f"{invoke.call} of {invoke.process} (event {invoke.index}) is not open any more: "
                    "complete each call once, before its process invokes the next one"
                )
            del self._open[invoke.process]
            self._append(
                invoke.process,
                kind,
                invoke.call,
                invoke.actions if actions is None else (*actions,),
                invoke.transaction,
                streamed=invoke.streamed or streamed,
                isolation=invoke.isolation,
            )

    def _append(
        self,
        process: str,
        kind: Kind,
        call: str,
        actions: tuple[Action, ...],
        transaction: str | None,
        *,
        streamed: bool,
        isolation: Isolation,
    ) -> Event:
        index, now = len(self._events), self._clock()
        event = Event(index, now, process, kind, call, actions, transaction, streamed, isolation)
        self._events.append(event)
        if self._file is not None:
            self._file.write(dump_event(event) + "\n")
            self._file.flush()
        return event
