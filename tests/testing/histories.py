"""Histories by hand, in a few words a line."""

from __future__ import annotations

import itertools

from spark_eos import TopicPartition
from spark_eos.testing.history import READ_COMMITTED, Poll, Recorder, Send

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def sends(text):
    """``"0:a@3 1:b"``: value a to partition 0, acknowledged at offset 3, and b to 1 at an unknown one."""
    found = []
    for word in text.split():
        number, _, rest = word.partition(":")
        value, _, offset = rest.partition("@")
        found.append(Send(TopicPartition("t", int(number)), value, int(offset) if offset else None))
    return found


def poll(number, text="", **flags):
    """``poll(0, "3:a 5:b")``: values a and b of partition 0, at offsets 3 and 5."""
    records = tuple((int(o), v) for o, v in (word.split(":") for word in text.split()))
    return Poll(TopicPartition("t", number), records, **flags)


class Story:
    """A recorder whose clock ticks once for each event."""

    def __init__(self):
        ticks = itertools.count()
        self.recorder = Recorder(clock=lambda: next(ticks) / 10)

    @property
    def history(self):
        return self.recorder.history

    def begin(self, process, actions="", *, txn=True, streamed=False, isolation=READ_COMMITTED):
        return self.recorder.invoke(
            process,
            "commit" if txn else "send",
            _plain(actions),
            transaction=process if txn else None,
            streamed=streamed,
            isolation=isolation,
        )

    def ok(self, token, actions=None):
        self.recorder.ok(token, _actions(actions))

    def fail(self, token, actions=None):
        self.recorder.fail(token, _actions(actions))

    def info(self, token, actions=None):
        self.recorder.info(token, _actions(actions))

    def txn(self, process, actions, **options):
        """A committed transaction."""
        self.ok(self.begin(process, actions, **options), actions)

    def aborted(self, process, actions, **options):
        self.fail(self.begin(process, actions, **options), actions)

    def unknown(self, process, actions, **options):
        self.info(self.begin(process, actions, **options), actions)

    def send(self, process, actions):
        self.txn(process, actions, txn=False)

    def read(self, process, *polls, isolation=READ_COMMITTED):
        token = self.recorder.invoke(process, "poll", isolation=isolation)
        self.recorder.ok(token, polls)


def _actions(actions):
    return sends(actions) if isinstance(actions, str) else actions


def _plain(actions):
    """What is known before it is done: no offsets and no records."""
    return [
        Send(action.partition, action.value) if isinstance(action, Send) else Poll(action.partition)
        for action in _actions(actions)
    ]


def final(**partitions):
    """``final(p0="0:a 1:b")``."""
    return {
        TopicPartition("t", int(name[1:])): list(poll(0, text).records) for name, text in partitions.items()
    }
