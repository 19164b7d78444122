"""The counted figures in docs/guide/sizing.md; scripts/generate writes them.

Requests of a store and bytes of entries and of the state are counted here, on a store in memory that counts as an
object store does. They are exact: the same on each machine. What stands outside of the marks is written by hand.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.log import paths
from spark_eos.protocol.encoding.snapshots import encode_snapshot
from spark_eos.storage.memory import MemoryStore
from verification.remote_store import RemoteStore

PAGE = Path(__file__).resolve().parent.parent / "docs/guide/sizing.md"
BEGIN = "<!-- Written by scripts/sizing_page.py: {}. Do not edit. -->"
END = "<!-- End of what is written by scripts/sizing_page.py: {}. -->"

VERBS = ("PUT", "GET", "LIST", "HEAD")
MANY = 1000


def page(text: str) -> str:
    """The page with the parts between the marks as they should be."""
    for name, table in {"requests": requests_table, "bytes": bytes_table}.items():
        before, _, rest = text.partition(BEGIN.format(name))
        after = rest.partition(END.format(name))[2]
        text = "\n".join([before + BEGIN.format(name), *table(), END.format(name) + after])
    return text


Scenario = Callable[["Counted"], Callable[[], object]]
"""Prepares a log, and gives the call that is counted."""


# -- Requests -------------------------------------------------------------------------------------------


class Counted:
    """A log in a store that counts, with one writer, which has committed before."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.store = RemoteStore(MemoryStore(f"sizing-{uuid.uuid4()}"))
        self.log = Log.create(self.store)
        self.admin = Admin(self.log)
        for topic in ("a", "b", "c"):
            self.admin.create_topic(topic, 4)

    def producer(self, **settings: object) -> Producer:
        producer = Producer(self.log, {"linger.ms": 60_000, **settings})
        self.stack.callback(producer.close)
        return producer

    def consumer(self, **settings: object) -> Consumer:
        consumer = Consumer(self.log, {"enable.auto.commit": False, **settings})
        self.stack.callback(consumer.close)
        return consumer


def transaction(topics: int, flushes: int = 0) -> Scenario:
    """A transaction with a record in each partition of so many topics, before each of the flushes and the commit."""

    def begin(world: Counted) -> Callable[[], None]:
        producer = world.producer(**{"transactional.id": "x"})
        producer.init_transactions()

        def run() -> None:
            producer.begin_transaction()
            for at in range(flushes + 1):
                send(producer, topics)
                if at < flushes:
                    producer.flush()
            producer.commit_transaction()

        run()
        return run

    return begin


def send(producer: Producer, topics: int) -> None:
    """A record to each partition of so many topics."""
    for topic in ("a", "b", "c")[:topics]:
        for partition in range(4):
            producer.send(topic, b"x" * 100, partition=partition, timestamp_ms=0)


def flush(world: Counted) -> Callable[[], object]:
    """A flush of an idempotent producer."""
    producer = world.producer()

    def run() -> None:
        send(producer, 1)
        producer.flush()

    run()
    return run


def offsets(world: Counted) -> Callable[[], object]:
    """A consumer commits the offsets of its partitions."""
    consumer = world.consumer(**{"group.id": "g"})
    consumer.assign([TopicPartition("a", 0)])
    return lambda: consumer.commit({TopicPartition("a", 0): 0})


def idle_poll(world: Counted) -> Callable[[], object]:
    """A poll that finds nothing."""
    consumer = world.consumer(**{"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("a", 0)])

    def poll() -> None:
        assert not consumer.poll(0)

    poll()
    return poll


def news_poll(world: Counted) -> Callable[[], object]:
    """A poll of another process, after a commit."""
    write = flush(world)
    consumer = Consumer(Log.open(world.store), {"auto.offset.reset": "earliest"})
    world.stack.callback(consumer.close)
    consumer.assign([TopicPartition("a", at) for at in range(4)])
    assert len(consumer.poll(0)) == 4
    write()

    def poll() -> None:
        assert len(consumer.poll(0)) == 4

    return poll


COMMITS: dict[str, Scenario] = {
    "transaction of a producer, 1 topic of 4 partitions": transaction(1),
    "… 3 topics": transaction(3),
    "… 1 topic, and a `flush` inside of it": transaction(1, flushes=1),
    "`flush` of an idempotent producer": flush,
    "offsets of a group, without records": offsets,
    "`Consumer.poll` without news": idle_poll,
    "`Consumer.poll` in another process after one commit of a file": news_poll,
}


def counted(begin: Scenario) -> tuple[int, int, dict[str, int]]:
    """Data files, entries and requests by verb of one call."""
    with ExitStack() as stack:
        world = Counted(stack)
        run = begin(world)
        world.store.clear()
        run()
        puts = [request.name for request in world.store.requests if request.verb == "PUT"]
        counts = world.store.counts
    files = sum(name.startswith(paths.DATA) for name in puts)
    return files, sum(name.startswith("_log/") for name in puts), counts


def requests_table() -> Iterator[str]:
    """What each call costs."""
    yield "| call | data files | entries | " + " | ".join(VERBS) + " |"
    yield "|---|--:|--:|" + "--:|" * len(VERBS)
    for name, begin in COMMITS.items():
        files, entries, counts = counted(begin)
        assert counts.keys() <= {*VERBS}, counts
        cells = [files, entries, *(counts.get(verb, 0) for verb in VERBS)]
        yield f"| {name} | {' | '.join(map(str, cells))} |"


# -- Bytes ----------------------------------------------------------------------------------------------


def entry_bytes(partitions: int) -> int:
    """Of the entry of a transaction with a batch in each of so many partitions."""
    with ExitStack() as stack:
        world = Counted(stack)
        world.admin.create_topic("t", MANY)
        producer = world.producer(**{"transactional.id": "x"})
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(partitions):
            producer.send("t", b"x" * 100, partition=partition, timestamp_ms=0)
        producer.commit_transaction()
        state = world.log.state
        return world.store.size(paths.entry(state.seq, state.entries_per_folder))


def state_bytes(change: Callable[[Counted], None]) -> int:
    """What a change adds to a snapshot of the state."""
    with ExitStack() as stack:
        world = Counted(stack)
        before = len(encode_snapshot(world.log.state))
        change(world)
        return len(encode_snapshot(world.log.follow())) - before


def partitions(world: Counted) -> None:
    """So many more."""
    world.admin.alter_topic("a", partitions=4 + MANY)


def rows(world: Counted) -> None:
    """So many batches."""
    producer = world.producer()
    for _ in range(MANY // 4):
        send(producer, 1)
        producer.flush()


def committed(world: Counted) -> None:
    """So many committed offsets."""
    partitions(world)
    world.admin.alter_group_offsets("g", {TopicPartition("a", at): 0 for at in range(MANY)})


def producers(world: Counted) -> None:
    """So many producers with a ``transactional.id``."""
    for number in range(MANY):
        with Producer(world.log, {"transactional.id": f"producer-{number:04d}"}) as producer:
            producer.init_transactions()


def bytes_table() -> Iterator[str]:
    """Of entries, and of the state."""
    one, many = entry_bytes(1), entry_bytes(MANY)
    more = state_bytes(partitions)
    figures = {
        "entry of a transaction with one batch": one,
        f"… for each further batch, of {MANY:,}": (many - one) / (MANY - 1),
        "snapshot, for each partition without records": more / MANY,
        "… for each batch in a tail, of commits with 4 batches": state_bytes(rows) / MANY,
        "… for each committed offset of a group": (state_bytes(committed) - more) / MANY,
        "… for each producer with a `transactional.id` of 13 letters": state_bytes(producers) / MANY,
    }
    yield "| what | bytes |"
    yield "|---|--:|"
    yield from (f"| {name} | {value:.0f} |" for name, value in figures.items())
