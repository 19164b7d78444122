"""A log at work with long and hostile names and values: what a view has to find room for. Its time is handed in."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.extensions.ui.follower import Follower
from spark_eos.log.clock import SYSTEM
from spark_eos.protocol.actions import JoinGroup
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.types import PartitionOffset, SourceProgress
from spark_eos.storage import MemoryStore
from tests.extensions.ui.afternoon import HOSTILE, Later
from tests.log.fakes import FakeClock

__all__ = ["GROUP", "LONG_TOPIC", "QUERY", "Crowded"]

LONG_TOPIC = "eu-west-1.warehouse." + "returns-and-exchanges." * 8 + "v2"
GROUP = f"billing {HOSTILE} {'of-the-night-shift.' * 4}\u202egnp"
QUERY = "enrich-orders"
LONG = "A parcel that was sent back, unopened, with a letter of three pages. " * 40
UNBROKEN = "0123456789abcdef" * 60
BEGUN_MS = 1_795_278_600_000  # 2026-11-21T16:30 UTC

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("from", pa.string()),
        ("price", pa.decimal128(18, 2)),
        ("weight", pa.float64()),
        ("sent", pa.timestamp("ms", "UTC")),
        ("note", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("<img src=x onerror=hacked=1>", pa.string()),
        ("checksum", pa.binary()),
    ]
)


class Crowded:
    """The log, and a follower that has seen its last half hour."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.clock.now = BEGUN_MS / 1000
        self.log = Log.create(MemoryStore("shop"), self.clock)
        admin = Admin(self.log)
        admin.create_topic("parcels", 6, {"retention.ms": "604800000"}, SCHEMA)
        admin.create_topic(LONG_TOPIC, 1)
        admin.create_topic("orders", 12)
        admin.create_topic("enriched", 1)
        with Producer(self.log, {"client.id": "till"}) as producer:
            producer.send_arrow("parcels", self.parcels(1_200_000, 300_000), partition=4)
        self.query_at, self.batches = 0, 0
        self.follower = Follower(self.log.store, clock=self.clock, interval_s=3600)
        for minute in range(30):
            self.work(minute)
        self.join("worker-1", "k8s/eu-west-1/billing-7c9f6b5d8-" + "x" * 120)
        self.join("worker-2", HOSTILE)
        self.hang(f"checkout-of-{'eu-west-1.' * 12}")
        self.orders(60)
        self.clock.sleep(180)
        self.follower.poll()

    def parcels(self, first: int, count: int) -> pa.Table:
        """So many rows, which are small; but for the last six."""
        ids = range(first, first + count)
        small = {
            "id": ids,
            "from": pa.array(["JFK", "LHR", "CDG"] * (count // 3)),
            "price": pa.array([Decimal("12.50"), None, Decimal("99999.9")] * (count // 3), SCHEMA.field("price").type),
            "weight": pa.array([0.25, 1e-7, 12.125] * (count // 3)),
            "sent": pa.array([BEGUN_MS] * count, SCHEMA.field("sent").type),
            "note": pa.array(["fragile", "", None] * (count // 3)),
            "tags": pa.array([["new"], [], None] * (count // 3)),
            SCHEMA.names[7]: pa.array([None] * count, pa.string()),
            "checksum": pa.array([b"\x00\xff" * 4] * count, pa.binary()),
        }  # fmt: skip
        return pa.table(small, schema=SCHEMA)

    def long_ones(self) -> pa.Table:
        """Rows with what is hard to show."""
        when = datetime.fromtimestamp(BEGUN_MS / 1000, timezone.utc)
        rows = [
            (2**63 - 1, HOSTILE, Decimal("-1234567890123456.78"), math.nan, when, LONG, [LONG, None], None, b"x" * 900),
            (-(2**63), UNBROKEN, None, -math.inf, None, UNBROKEN, ["a"] * 300, HOSTILE, bytes(range(256))),
            (0, "", Decimal("0.00"), 0.1 + 0.2, when, "safe\u202etxt.exe\u200b", [], "\n\n\tlines\r\n", b""),
        ]  # fmt: skip
        return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)

    def work(self, minute: int) -> None:
        """A minute of it: producers, the query and the group."""
        self.orders(200 + 150 * (minute % 7))
        with Producer(self.log, {"client.id": "till"}) as producer:
            producer.send_arrow("parcels", self.parcels(1_500_000 + 3 * minute, 3), partition=minute % 6)
            if minute % 10 == 9:
                producer.send_arrow("parcels", self.long_ones(), partition=5)
                producer.send(
                    LONG_TOPIC, LONG.encode(), key=UNBROKEN.encode(), headers=[("h", HOSTILE.encode())]
                )
        if minute % 3 == 0:
            if minute < 20:  # It is stopped then.
                self.micro_batch()
            self.commit(1_000 + 9_000 * minute)
        self.clock.sleep(60)
        self.follower.poll()

    def orders(self, count: int) -> None:
        """Some records of a topic without columns."""
        with Producer(self.log, {"client.id": "till", "linger.ms": 60_000}) as producer:
            for number in range(count):
                producer.send("orders", b'{"order": %d}' % number, key=b"%d" % number, partition=number % 12)

    def micro_batch(self) -> None:
        """One of the query, of a topic of this log and a source elsewhere."""
        topic = self.log.follow().topics["orders"]
        end = self.log.state.partitions[topic.topic_id, 0].end
        places = [(PartitionOffset("orders", topic.topic_id, 0, at),) for at in (self.query_at, end - 10)]
        number, to = self.batches, self.log.topic("enriched")
        with self.log.stage(to) as writer:
            writer.append(pa.table({"value": [b"x"] * 40}), 0)
            files = writer.finish()
        kafka = [f'{{"{UNBROKEN}": {{"0": {at}}}}}' for at in (number, number + 1)]
        sources = (
            SourceProgress(f'{{"0": {self.query_at}}}' if number else None, f'{{"0": {end - 10}}}', QUERY, *places),
            SourceProgress(kafka[0] if number else None, kafka[1]),
        )  # fmt: skip
        run = "run-1" if number < 6 else "run-2"
        batch = MicroBatch(QUERY, "q-1", run, number, sources, (("enriched", to.topic_id),), files)
        self.log.commit(lambda state: propose(state, batch, finished=False), writer="spark")
        self.query_at, self.batches = end - 10, number + 1

    def join(self, member: str, client: str) -> None:
        """A member of the group."""
        action = JoinGroup(
            GROUP, f"{client}-{member}", ("orders", "parcels"), ("range",), 60_000, client_id=client
        )
        self.log.commit(lambda _state: (action,))

    def commit(self, offset: int) -> None:
        """What the group has read, by a program that is no member."""
        places = {TopicPartition("parcels", 4): offset, TopicPartition(LONG_TOPIC, 0): 1}
        Admin(self.log).alter_group_offsets(GROUP, places)

    def hang(self, name: str) -> None:
        """A producer that has died in a transaction. What it waits for does not move the time."""
        minutes = (self.clock.now_ms() - SYSTEM.now_ms()) // 60_000
        producer = Producer(
            Log.open(self.log.store, Later(minutes)), {"transactional.id": name, "client.id": "shop-17"}
        )
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"never committed", partition=2)
        producer.flush()
