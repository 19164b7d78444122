"""The policies of conf/policies for one log, and what each role does with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.clients.arrow_reader import read_arrow
from spark_eos.errors import ProducerFencedError
from spark_eos.maintenance.maintain import Maintainer, StepResult
from spark_eos.storage.objects.clients import parse_location
from spark_eos.storage.objects.store import ObjectStore
from spark_eos.storage.settings import Settings
from verification.retiring import RETIRED_AT_ONCE

POLICIES = Path(__file__).parents[2] / "conf" / "policies"
EARLIEST = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
TOPIC = {"file.delete.delay.ms": 0, "segment.format": "parquet"}


def policy(role: str, path: str) -> dict[str, object]:
    """A role's policy for the log at this path of the tests' bucket."""
    text = (POLICIES / "s3" / f"{role}.json").read_text("utf-8")
    return json.loads(text.replace("BUCKET", "bucket").replace("PATH", path))


def allowed_by_google(condition: str, name: str) -> bool:
    """Whether the condition of a binding is met by an object of the log."""
    python = condition.replace("resource.name", "name").replace("||", "or").replace("&&", "and")
    python = python.replace(".startsWith(", ".startswith(")
    return bool(eval(python, {"name": f"projects/_/buckets/BUCKET/objects/PATH/{name}"}))


def allowed_by_azure(condition: str, action: str, name: str, *, lists: bool = False) -> bool:
    """Whether the condition of a role assignment is met by a request for an object of the log; ``lists``: for names."""
    python = re.sub(r"@Resource\[[^]]*:path\]", "name", condition)
    python = re.sub(r"SubOperationMatches\{'Blob.List'\}", "lists", python)
    python = re.sub(r"ActionMatches\{('[^']*')\}", r"(action == \1)", python)
    python = re.sub(r"StringNotEquals ('[^']*')", r"!= \1", python)
    python = re.sub(r"name StringStartsWith ('[^']*')", r"name.startswith(\1)", python)
    for operator in ("AND", "OR", "NOT"):
        python = python.replace(f" {operator} ", f" {operator.lower()} ")
    values = {"name": f"PATH/{name}", "action": action, "lists": lists}
    return bool(eval(python.replace("!(", "not ("), values))


def values(url: str | Log, settings: Settings, topic: str = "t", partitions: int = 2) -> list[bytes]:
    """All values that are committed."""
    places = [TopicPartition(topic, number) for number in range(partitions)]
    with Consumer(url, {**settings, **EARLIEST}) as consumer:
        consumer.assign(places)
        found: list[bytes] = []
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in places):
            found += [record.value for record in consumer.poll(timeout_ms=1000)]
    return sorted(found)


def transact(url: str, settings: Settings, count: int, *, first: int = 0) -> None:
    """``count`` transactions of one record each, the last but one of them aborted as well."""
    with Producer(url, {**settings, "transactional.id": "clerk"}) as producer:
        producer.init_transactions()
        for number in range(first, first + count):
            producer.begin_transaction()
            producer.send("t", b"%04d" % number, partition=number % 2)
            producer.commit_transaction()
        producer.begin_transaction()
        producer.send("t", b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()


def write(url: str, settings: Settings) -> None:
    """All that a writer does: a log, a topic, transactions, a group, a fenced producer, large files, maintenance."""
    log = Log.create(url, settings=settings, snapshot_interval=5, config=RETIRED_AT_ONCE)
    admin = Admin(url, settings)
    admin.create_topic("t", 2, config=TOPIC)
    transact(url, settings, 12)
    log.follow()
    log.maintenance.snapshot()
    with Producer(url, {**settings, "linger.ms": "0"}) as producer:
        producer.send("t", b"0012", partition=0).result()
    # A zombie: what it has staged is in no entry.
    config = {**settings, "transactional.id": "twin"}
    with Producer(url, config) as zombie, Producer(url, config) as producer:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send("t", b"never", partition=0)
        producer.init_transactions()
        try:
            zombie.commit_transaction()
        except ProducerFencedError:
            pass
        else:
            raise AssertionError("the zombie has committed")
    with Consumer(url, {**settings, **EARLIEST, "group.id": "g", "heartbeat.interval.ms": "50"}) as consumer:
        consumer.subscribe(["t"])
        found = 0
        while found < 13:
            found += len(consumer.poll(timeout_ms=1000))
        consumer.commit()
        log.clock.sleep(0.2)  # For a heartbeat.
    store = ObjectStore(parse_location(url), settings, single_bytes=5 << 20)
    folder = f"data/t-{log.follow().topics['t'].topic_id}/"
    with store.upload(f"{folder}large") as file:
        file.write(bytes(12 << 20))
    given_up = store.upload(f"{folder}given-up")
    given_up.__enter__().write(bytes(12 << 20))
    assert not given_up.__exit__(RuntimeError, RuntimeError("stop"), None)
    log.follow()
    log.maintenance.snapshot()
    transact(url, settings, 6, first=13)
    log.follow()
    log.maintenance.snapshot()
    log.maintenance.retire(log.state, 100)
    assert log.maintenance.retired(log.state) > 10


def read(url: str, settings: Settings) -> None:
    """All that a reader does: open, follow, read records and columns, look at settings."""
    assert values(url, settings) == [b"%04d" % number for number in range(19)]
    assert read_arrow(Log.open(url, settings=settings), "t").read_all().num_rows == 19
    admin = Admin(url, settings)
    assert admin.list_topics() == ["t"]
    assert admin.list_group_offsets("g")
    assert admin.list_transactions()


def maintain(url: str, settings: Settings, *steps: str, wait: bool = True) -> Iterator[StepResult]:
    """One pass of all steps, or of these. Without ``wait`` what is due in a minute is left for a later one."""
    log = Log.open(url, settings=Settings(settings))
    more = {"only": steps} if steps else {}
    yield from Maintainer(log, min_age_s=0, tail_rows=2, **more).run(wait=wait)
