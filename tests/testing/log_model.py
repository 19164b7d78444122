"""A tiny log that is correct, and clients whose steps a seed mixes: what they record has nothing forbidden."""

from __future__ import annotations

import random

from spark_eos import TopicPartition
from spark_eos.testing.history import READ_COMMITTED, READ_UNCOMMITTED, Poll, Recorder, Send

PARTITIONS = [TopicPartition("t", number) for number in range(3)]
OUT = TopicPartition("out", 0)
CONTROL = None


class ModelLog:
    """Per partition a list of (value, transaction); per transaction "open", "committed" or "aborted"."""

    def __init__(self):
        self.partitions = {partition: [] for partition in [*PARTITIONS, OUT]}
        self.state = {None: "committed"}

    def append(self, partition, value, transaction):
        self.state.setdefault(transaction, "open")
        self.partitions[partition].append((value, transaction))
        return len(self.partitions[partition]) - 1

    def end(self, transaction, verdict):
        if self.state.get(transaction) != "open":
            return
        self.state[transaction] = verdict
        for records in self.partitions.values():
            if any(owner == transaction for _, owner in records):
                records.append((CONTROL, transaction))

    def limit(self, partition, isolation):
        records = self.partitions[partition]
        if isolation == READ_COMMITTED:
            for offset, (_, transaction) in enumerate(records):
                if self.state[transaction] == "open":
                    return offset
        return len(records)

    def read(self, partition, start, most, isolation):
        """Records, next position, and whether it is the end."""
        limit, found, position = self.limit(partition, isolation), [], start
        while position < limit and len(found) < most:
            value, transaction = self.partitions[partition][position]
            if value is not CONTROL and (
                isolation != READ_COMMITTED or self.state[transaction] == "committed"
            ):
                found.append((position, value))
            position += 1
        return tuple(found), position, position == limit


class World:
    """Clients as generators; each ``yield`` is a place where others may go on."""

    def __init__(self, seed, *, streams=True):
        self.random = random.Random(seed)
        self.log = ModelLog()
        self.recorder = Recorder(clock=lambda: 0.0)
        self.names = 0
        self.streams = streams

    def run(self, steps):
        actors = [self.writer(f"w{i}") for i in range(3)] + [self.plain("p"), self.copier("c")]
        actors += [self.reader("r1", READ_COMMITTED), self.reader("r2", READ_COMMITTED)]
        actors += [self.reader("u", READ_UNCOMMITTED)]
        for _ in range(steps):
            next(self.random.choice(actors))
        for transaction, state in [*self.log.state.items()]:
            if state == "open":
                self.log.end(transaction, "aborted")  # its client never came to commit it
        return self.recorder.history, {
            partition: [*self.log.read(partition, 0, 10**9, READ_COMMITTED)[0]]
            for partition in self.log.partitions
        }

    def unique(self):
        self.names += 1
        return self.names

    def new_sends(self, most=4):
        return [
            Send(self.random.choice(PARTITIONS), self.unique()) for _ in range(self.random.randint(1, most))
        ]

    def one_shot(self, sends, name):
        sent = [Send(s.partition, s.value, self.log.append(s.partition, s.value, name)) for s in sends]
        self.log.end(name, "committed")
        return sent

    def writer(self, process):
        while True:
            sends, name = self.new_sends(), f"{process}-{self.unique()}"
            streamed = self.streams and self.random.random() < 0.4
            token = self.recorder.invoke(process, "txn", sends, transaction=process, streamed=streamed)
            yield
            fate, sent = self.random.random(), sends
            if streamed:
                sent = []
                for send in sends:
                    sent.append(
                        Send(send.partition, send.value, self.log.append(send.partition, send.value, name))
                    )
                    yield
                if fate < 0.1:  # killed while it is open: somebody else ends it at some time
                    self.recorder.info(token, sent)
                    yield
                    self.log.end(name, "aborted")
                    continue
                self.log.end(name, "aborted" if fate < 0.3 else "committed")
            elif fate < 0.05 or fate >= 0.2:
                sent = self.one_shot(sends, name)
            yield
            if fate < 0.1:
                self.recorder.info(token)
            elif fate < 0.3 and (streamed or fate < 0.2):
                self.recorder.fail(token, sent)
            else:
                self.recorder.ok(token, sent)
            yield

    def plain(self, process):
        while True:
            sends = self.new_sends(2)
            token = self.recorder.invoke(process, "send", sends)
            yield
            sent = []
            for send in sends:
                sent.append(
                    Send(send.partition, send.value, self.log.append(send.partition, send.value, None))
                )
                yield
            if self.random.random() < 0.1:
                self.recorder.info(token)
            else:
                self.recorder.ok(token, sent)
            yield

    def reader(self, process, isolation):
        positions = dict.fromkeys(PARTITIONS, 0)
        reset = True
        while True:
            token = self.recorder.invoke(process, "poll", isolation=isolation)
            yield
            if self.random.random() < 0.05:
                positions, reset = {p: self.random.randint(0, positions[p]) for p in PARTITIONS}, True
            polls = []
            for partition in self.random.sample(PARTITIONS, 3):
                most = self.random.choice([2, 100])
                records, position, end = self.log.read(partition, positions[partition], most, isolation)
                positions[partition] = position
                given = position if self.random.random() < 0.8 else None
                polls.append(Poll(partition, records, reset, end, given))
            reset = False
            yield
            self.recorder.ok(token, polls)
            yield

    def copier(self, process):
        position, reset = 0, True
        while True:
            records, after, end = self.log.read(PARTITIONS[0], position, 3, READ_COMMITTED)
            poll = Poll(PARTITIONS[0], records, reset, end, after)
            sends = [Send(OUT, (value, self.unique())) for _, value in records]
            token = self.recorder.invoke(process, "copy", [poll, *sends], transaction=process)
            yield
            if self.random.random() < 0.2:
                self.recorder.fail(token)
                reset = True
                continue
            sends = self.one_shot(sends, f"{process}-{self.unique()}")
            position, reset = after, False
            yield
            self.recorder.ok(token, [poll, *sends])
            yield
