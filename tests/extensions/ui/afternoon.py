"""A log that needs an operator: a hanging transaction, a query that lags, a damaged file, a zombie, and debt."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.errors import ProducerFencedError
from spark_eos.log.clock import SYSTEM
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.types import PartitionOffset, SourceProgress

__all__ = ["Later", "Trouble"]

HOSTILE = "<script>window.hacked=1</script>"


class Later:
    """This machine's clock, some time on: what was written just now was written so long ago."""

    monotonic, sleep = staticmethod(SYSTEM.monotonic), staticmethod(SYSTEM.sleep)
    unique, jitter = staticmethod(SYSTEM.unique), staticmethod(SYSTEM.jitter)

    def __init__(self, minutes: int = 30) -> None:
        self._ms = minutes * 60_000

    def now_ms(self) -> int:
        return SYSTEM.now_ms() + self._ms

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000


class Trouble:
    """The log, and the processes that are to blame."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder / "shop")
        self.log = Log.create(self.url, config={"health.small.batches.max": "50"})
        admin = Admin(self.log)
        admin.create_topic("orders", 3)
        rows = pa.table({"number": [1, 2], "from": ["JFK", None]})
        admin.create_topic("flights", 1, {"retention.ms": "86400000"}, rows.schema)
        with Producer(self.log, {"client.id": "till"}) as producer:
            for number in range(60):
                producer.send(
                    "orders", f"order {number} {HOSTILE}".encode(), key=b"anna", partition=number % 3
                )
        with Producer(self.log) as producer:
            producer.send_arrow("flights", rows)
        admin.alter_group_offsets(HOSTILE, {TopicPartition("orders", 0): 5})
        self.micro_batch("enrich", 10)
        self.hang("checkout")
        self.many_small_batches()
        self.zombie = self.replaced("billing")
        self.leave_garbage()
        self.damaged = self.damage()

    def micro_batch(self, query: str, end: int) -> None:
        """The first and only micro-batch of a Spark query, up to an offset."""
        topic_id = self.log.follow().topics["orders"].topic_id
        places = [(PartitionOffset("orders", topic_id, 0, offset),) for offset in (0, end)]
        source = SourceProgress('{"0": 0}', f'{{"0": {end}}}', query, *places)
        batch = MicroBatch(query, "q-1", "run-1", 0, (source,), (), ())
        self.log.commit(lambda state: propose(state, batch, finished=False))

    def hang(self, name: str) -> None:
        """A producer that has died in a transaction, and one that writes behind it."""
        self.hanging = Producer(self.log, {"transactional.id": name, "client.id": "shop-17"})
        self.hanging.init_transactions()
        self.hanging.begin_transaction()
        self.hanging.send("orders", b"never committed", partition=2)
        self.hanging.flush()
        with Producer(self.log, {"client.id": "till"}) as producer:
            for _ in range(7):
                producer.send("orders", b"waits", partition=2)

    def many_small_batches(self) -> None:
        with Producer(self.log, {"client.id": "clicker"}) as producer:
            for number in range(110):
                producer.send("clicks", b"click %d" % number, partition=0).get()

    def replaced(self, name: str) -> Producer:
        """The first of three producers of one transactional id, each of which takes over what the other has open."""
        old, *others = (
            Producer(self.log, {"transactional.id": name, "client.id": f"host-{at}"}) for at in "abc"
        )
        for one in (old, *others):
            one.init_transactions()
            one.begin_transaction()
            one.send("orders", b"a bill", partition=1)
            one.flush()
        for one in others:
            with suppress(ProducerFencedError):
                one.close()
        return old

    def leave_garbage(self) -> None:
        """A file that a writer has staged before it died."""
        folder = next(Path(self.url).glob("data/orders-*"))
        (folder / f"{1:020d}-{'ab' * 16}.arrow").write_bytes(b"x" * 5000)

    def damage(self) -> Path:
        """A file of which a byte has changed on the disk."""
        files = sorted(Path(self.url).glob("data/clicks-*/*"))
        found = next(file for file in files if b"click 50" in file.read_bytes())
        found.chmod(0o644)
        found.write_bytes(found.read_bytes().replace(b"click 50", b"click 5X"))
        return found

    def publish(self) -> None:
        """A topic as a Delta table."""
        from spark_eos.extensions.tables.tables import Tables

        tables = Tables(self.log)
        tables.create("lake", ["flights"])
        tables.publish("lake")

    def close(self) -> None:
        """Let go of the producers."""
        for one in (self.hanging, self.zombie):
            with suppress(ProducerFencedError):
                one.close(0)
