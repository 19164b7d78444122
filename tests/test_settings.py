"""Every setting of topics, logs, producers and consumers has an effect: two values of it, two outcomes.

The settings are those of the definitions in the code: one without a row here fails, and so does a row without a
setting. The options of Spark's source and sink have rows of their own (tests/spark/test_changed_options.py). What is
accepted only because it is so in any case (``acks=all``) has a row that shows that everything else is refused.
"""

from __future__ import annotations

import random
import threading

import numpy as np
import pyarrow as pa
import pytest
from immutables import Map

from spark_eos import Admin, Producer
from spark_eos.clients.consumer.heartbeat import HeartbeatThread, heartbeat_name
from spark_eos.config import log as log_table
from spark_eos.config import topic as topic_table
from spark_eos.config.consumer import CONSUMER
from spark_eos.config.producer import PRODUCER
from spark_eos.errors import (
    ConfigError,
    IllegalStateError,
    InvalidRecordError,
    InvalidTimestampError,
    NoOffsetForPartitionError,
    RecordDeserializationError,
    RecordTooLargeError,
    SerializationError,
    StoreUnavailableError,
    UnstableOffsetCommitError,
    WakeupError,
)
from spark_eos.log.data.parquet.reader import read_footer
from spark_eos.log.log import Log
from spark_eos.log.snapshots.maintenance import BackgroundMaintenance
from spark_eos.log.time_travel import earliest
from spark_eos.maintenance.retention import Retention
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.monitoring.lag import lags_of
from spark_eos.monitoring.troubles.of_state import LogView, troubles_of
from spark_eos.protocol.publication import Publication
from spark_eos.protocol.rules.notes import BACKUP, SOUND, VERIFY, note_actions
from spark_eos.storage import MemoryStore
from tests.clients.group_world import beats, held, member_id, settle
from tests.log.fakes import FakeClock
from tests.settings_world import AT, Effect, World, refusal

WORDS = [f"{number:x}" * (number % 5) for number in random.Random(1).sample(range(1, 10_000), 500)]
TEXT = " ".join(random.Random(2).choices(WORDS, k=20_000)).encode()
"""What levels of compression differ on."""
TYPED = pa.schema([("a", pa.int64()), ("b", pa.int64())])


# -- Topics ------------------------------------------------------------------------------------------------


def topic(world, name, value, **more):
    world.topic(**{name: value, **more})


def cleanup(world, name, value):
    topic(world, name, value, retention_ms="0", segment_ms="0", min_cleanable_dirty_ratio="0")
    world.fill(b"1", b"2", key=b"k")
    world.pass_time(10)
    left = world.compact()
    return left, len(Retention(world.log).run())


def compression(world, name, value):
    topic(world, name, value)
    world.fill(TEXT, compression_type="lz4")
    return world.codec


def level(world, name, value):
    topic(world, name, value, compression_type=name.split(".")[1])
    world.fill(TEXT)
    return world.rows[-1].batch.length


def tombstones(world, name, value):
    topic(world, name, value, cleanup_policy="compact", segment_ms="0", min_cleanable_dirty_ratio="0")
    world.fill(b"1", key=b"k")
    world.fill(None, key=b"k")
    world.pass_time(10)
    world.compact()
    world.pass_time(10)
    world.fill(b"1", key=b"other")
    world.pass_time(10)
    return world.compact()


def files_left(world, name, value):
    topic(world, name, value, retention_bytes="0")
    world.fill(b"1")
    world.admin.create_topic("later")
    Retention(world.log).run()
    cleaner = Vacuum(world.log, min_age_s=0)
    cleaner.run(wait=False)
    world.pass_time(1)
    cleaner.run(wait=False)
    return len([*world.store.list("data/")])


def partitions_by_key(world, name, value):
    world.topic(64, TYPED, **{name: value})
    with world.producer() as producer:
        rows = pa.table({"a": [1] * 20, "b": range(20)}, schema=TYPED)
        producer.send_arrow("t", rows)
        producer.flush()
    known = world.log.topic("t")
    state = world.log.state
    return sum(state.partitions[known.topic_id, number].end > 0 for number in range(64)) > 1


def sent(world, name, value):
    topic(world, name, value)
    return refusal(lambda: world.fill(b"x" * 100))


def made(world, name, value):
    return refusal(lambda: topic(world, name, value))


def compacted(world, name, value):
    topic(
        world,
        name,
        value,
        **{"cleanup_policy": "compact", "segment_ms": "0", "min.cleanable.dirty.ratio": "0"} | {name: value},
    )
    world.fill(b"1", b"2", key=b"k")
    world.pass_time(10)
    return world.compact()


def moved(world, name, value):
    topic(world, name, value)
    world.fill(b"1", b"2")
    world.pass_time(10)
    Retention(world.log).run()
    return world.start


def files_of_a_roll(world, name, value):
    topic(world, name, value)
    # Two pages of a size that one file could hold.
    for number in range(130):
        world.fill(random.Random(number).randbytes(40_000))
    Roller(world.log, tail_rows=1).run()
    return len({row.file.name for row in world.rows}) > 1


def rolled(world, name, value):
    topic(world, name, value)
    world.fill(b"1", b"2", b"3")
    world.pass_time(10)
    Roller(world.log).run()
    return len(world.rows)


def form_of_a_roll(world, name, value):
    topic(world, name, value)
    world.fill(b"1", b"2", b"3")
    Roller(world.log, tail_rows=1).run()
    return {row.file.name.rpartition(".")[2] for row in world.rows}


def bloom_filters_of_a_roll(world, name, value):
    topic(world, name, value, segment_format="parquet")
    world.fill(b"1", b"2", b"3")
    Roller(world.log, tail_rows=1).run()
    (file,) = {row.file for row in world.rows}
    group = read_footer(world.log.store, file).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {one.path_in_schema for one in columns if one.bloom_filter_offset is not None}


def stamped(world, name, value, by_ms=30_000):
    topic(world, name, value)

    def send():
        with world.producer() as producer:
            producer.send("t", b"x", timestamp_ms=world.clock.now_ms() + by_ms)
        return world.values()

    return refusal(send)


def stamped_before(world, name, value):
    return stamped(world, name, value, -30_000)


RECORD = '{"type":"record","name":"R","fields":[{"name":"n","type":"long"}]}'
OF_TEXT = '{"type":"record","name":"R","fields":[{"name":"n","type":"string"}]}'
FRAMED = {"value.format": "avro-confluent", "value.schema": RECORD, "value.schema.id": "7"}
SEVEN = b"\x00\x00\x00\x00\x07\x02"
EIGHT = b"\x00\x00\x00\x00\x08\x02"


def sent_as(world, name, value):
    """What is stored of a dict."""

    def send():
        world.admin.create_topic("t", config={**({} if name == "value.format" else FRAMED), name: value})
        with world.producer() as producer:
            producer.send("t", {"n": 1}).result(timeout=60)
        return [record.value for record in world.reader(**{"value.deserializer": lambda data: data}).poll()]

    return refusal(send)


def first_value(world, **config):
    return refusal(lambda: world.reader(**config).poll()[0].value)


def read_of_eight(world, name, value):
    """What becomes of a value with the id 8."""
    world.admin.create_topic("t", config={**FRAMED, name: value})
    world.fill(EIGHT)
    return first_value(world)


def looked_up(world, name, value, *, of_topic=False):
    """What becomes of a value whose schema one registry has, and the other one has not."""
    from tests.extensions.value_formats.registry_server import RegistryServer

    with RegistryServer() as registry:
        registry.by_id[8] = {"schema": RECORD}
        given = {name: registry.url + ("" if value == "right" else "/other")}
        world.admin.create_topic("t", config={**FRAMED, **(given if of_topic else {})})
        world.fill(EIGHT)
        return first_value(world, **({} if of_topic else given))


def looked_up_as(world, name, value):
    from tests.extensions.value_formats.registry_server import RegistryServer

    with RegistryServer("me:secret") as registry:
        registry.by_id[8] = {"schema": RECORD}
        world.admin.create_topic("t", config={**FRAMED, "schema.registry.url": registry.url})
        world.fill(EIGHT)
        return first_value(world, **{name: value})


TOPIC = {
    "schema.registry.url": Effect(
        lambda *given: looked_up(*given, of_topic=True),
        {"right": {"n": 1}, "wrong": RecordDeserializationError},
    ),
    "value.format": Effect(sent_as, {"json": [b'{"n":1}'], "bytes": InvalidRecordError, "avro": ConfigError}),
    "value.schema": Effect(sent_as, {RECORD: [SEVEN], OF_TEXT: SerializationError}),
    "value.schema.id": Effect(sent_as, {"7": [SEVEN], "8": [EIGHT]}),
    "value.writer.schemas": Effect(
        read_of_eight, {f'{{"8": {RECORD}}}': {"n": 1}, f'{{"9": {RECORD}}}': RecordDeserializationError}
    ),
    "cleanup.policy": Effect(
        cleanup, {"delete": ([b"1", b"2"], 1), "compact": ([b"2"], 0), "compact,delete": ([b"2"], 1)}
    ),
    "compression.lz4.level": Effect(level, {"1": ..., "12": ...}),
    "compression.type": Effect(compression, {"producer": "lz4", "zstd": "zstd", "lz4": "lz4", "none": None}),
    "compression.zstd.level": Effect(level, {"1": ..., "19": ...}),
    "delete.retention.ms": Effect(tombstones, {"1000": [b"1"], "1000000": [None, b"1"]}),
    "file.delete.delay.ms": Effect(files_left, {"0": 0, "60000": 1}),
    "key.columns": Effect(partitions_by_key, {"a": False, "b": True}),
    "max.message.bytes": Effect(sent, {"50": RecordTooLargeError, "1000": None}),
    "message.timestamp.after.max.ms": Effect(stamped, {"1000": InvalidTimestampError, "60000": [b"x"]}),
    "message.timestamp.before.max.ms": Effect(
        stamped_before, {"1000": InvalidTimestampError, "60000": [b"x"]}
    ),
    "message.timestamp.type": Effect(made, {"CreateTime": None, "LogAppendTime": ConfigError}),
    "min.cleanable.dirty.ratio": Effect(compacted, {"0": [b"2"], "1": [b"1", b"2"]}),
    "min.compaction.lag.ms": Effect(compacted, {"0": [b"2"], "60000": [b"1", b"2"]}),
    "retention.bytes": Effect(moved, {"0": 2, "-1": 0}),
    "retention.ms": Effect(moved, {"1000": 2, "60000": 0}),
    "segment.bloom.filter.columns": Effect(
        bloom_filters_of_a_roll, {"": set(), "key": {"key"}, "key, value": {"key", "value"}}
    ),
    "segment.bytes": Effect(files_of_a_roll, {"1000000": True, "1073741824": False}),
    "segment.format": Effect(form_of_a_roll, {"arrow": {"arrow"}, "parquet": {"parquet"}}),
    "segment.ms": Effect(rolled, {"1000": 1, "60000": 3, "-1": 3}),
}


# -- The log -----------------------------------------------------------------------------------------------


def expired(world, name, value):
    world.topic()
    world.admin.alter_log({name: value})
    world.fill(b"1")
    with world.producer(transactional_id="app") as producer:
        producer.init_transactions()
    world.admin.alter_group_offsets("g", {AT: 1})
    world.pass_time(100)
    found = world.admin.expire()
    return found.producers, found.transactional_ids, [*found.offsets]


def hours_ahead(world, name, value):
    """How far one whose clock is two days ahead takes the log's time, where the store cannot tell."""
    world.admin.alter_log({name: value})
    world.topic()
    before, ahead = world.log.follow().timestamp_ms, FakeClock()
    ahead.now += 2 * 86_400
    Admin(Log.open(world.store, ahead)).create_topic("by-a-wrong-clock")
    return (world.log.follow().timestamp_ms - before) // 3_600_000


def warned(world, name, value):
    """What is said of a log where everything is a hundred seconds late, and that many batches are small."""
    world.topic()
    world.fill(b"1")
    with world.producer(transactional_id="app", transaction_timeout_ms=900_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"x")
        producer.flush()
        world.admin.alter_group_offsets("g", {AT: 0})
        world.admin.alter_log({name: value})
        state, late = world.log.follow(), {"time_ms": 100_000}
        state = state._replace(publications=Map({"p": Publication("p", "delta", Map(), ())}))
        lags = [
            lag._replace(**late) for lag in lags_of(state, world.log.clock.now_ms()) if lag.kind == "group"
        ]
        lags.append(lags[0]._replace(kind="publication", name="p"))
        small = {(state.topics["t"].topic_id, 0): 100}
        seen = LogView(state, state.producer_of("app").started_ms + 100_000, lags, small)
        return [one.name for one in troubles_of(seen)]


def warned_of_retention(world, name, value):
    """What is said of a log whose records are past their time for a hundred seconds."""
    world.topic(**{"retention.ms": "0"})
    world.fill(b"1")
    world.admin.alter_log({name: value})
    state = world.log.follow()
    (row,) = state.partitions[state.topics["t"].topic_id, 0].index.tail
    return [one.name for one in troubles_of(LogView(state, row.max_timestamp_ms + 100_000, [], {}))]


def warned_of_a_note(world, name, value):
    """What is said of a log whose last backup and verification have ended a hundred seconds ago."""
    world.admin.alter_log({name: value})
    world.log.commit(lambda state: (*note_actions(state, BACKUP), *note_actions(state, VERIFY, SOUND)))
    state = world.log.follow()
    return [one.name for one in troubles_of(LogView(state, state.timestamp_ms + 100_000, [], {}))]


def readable(world, name, value):
    """How many seconds of a log of 200 can be read entry by entry."""
    log = Log.create(MemoryStore(), world.log.clock, snapshot_interval=2, config={name: value})
    log.does_maintenance = False
    for at in range(20):
        log.clock.now += 10
        log.ensure_topic(f"t{at}")
        log.maintenance.snapshot()
        log.maintenance.retire(log.state, 100)
    return (log.state.timestamp_ms - earliest(log).timestamp_ms) // 1000


def told(world, name, value):
    """What `eoslog audit` tells a hundred seconds later."""
    world.admin.alter_log({name: value})
    world.pass_time(100)
    world.topic()
    return [one.what for one in world.log.follow().trail]


LOG = {
    "audit.retention.ms": Effect(
        told,
        {
            "99999": ["topic created"],
            "100000": ["log created", "settings of the log altered", "topic created"],
        },
    ),
    "entry.timestamp.after.max.ms": Effect(hours_ahead, {"3600000": 0, "172800000": 48}),
    "health.backup.age.max.ms": Effect(warned_of_a_note, {"99999": ["no backup"], "100000": []}),
    "health.lag.max.ms": Effect(warned, {"99999": ["group behind"], "100000": []}),
    "health.publication.lag.max.ms": Effect(warned, {"99999": ["publication behind"], "100000": []}),
    "health.retention.delay.max.ms": Effect(
        warned_of_retention, {"99999": ["retention behind"], "100000": []}
    ),
    "health.small.batches.max": Effect(warned, {"99": ["small batches"], "100": []}),
    "health.transaction.max.ms": Effect(warned, {"99999": ["held back"], "100000": []}),
    "health.verify.age.max.ms": Effect(warned_of_a_note, {"99999": ["no verify"], "100000": []}),
    "metadata.max.retention.ms": Effect(readable, {"1": 20, "60000": 60, "3600000": 200}),
    "offsets.retention.minutes": Effect(expired, {"1": ([], [], ["g"]), "2": ([], [], [])}),
    "producer.id.expiration.ms": Effect(expired, {"99000": ([0], [], []), "101000": ([], [], [])}),
    "transactional.id.expiration.ms": Effect(expired, {"99000": ([], ["app"], []), "101000": ([], [], [])}),
}


# -- Producers ---------------------------------------------------------------------------------------------


def taken(world, name, value):
    def send():
        with world.producer(**{name: value}) as producer:
            producer.send("t", b"x").result(timeout=60)

    return refusal(send)


def record(world, name, value):
    world.topic()
    return refusal(lambda: world.fill(b"x" * 100, **{name: value}))


def urgent(world, name, value):
    """A full batch does not wait for ``linger.ms``."""
    world.topic()
    with world.producer(linger_ms="60000", **{name: value}) as producer:
        future = producer.send("t", b"x" * 1000)
        if value == "100":
            future.result(timeout=50)
        return future.done()


def sent_at_once(world, name, value):
    world.topic()
    with world.producer(batch_size="1000000", linger_ms="60000", **{name: value}) as producer:
        future = producer.send("t", b"x" * 10_000)
        return future.done()


def lingering(world, name, value):
    world.topic()
    with world.producer(batch_size="1000000", **{name: value}) as producer:
        future = producer.send("t", b"x")
        if value == "0":
            future.result(timeout=60)
        threading.Event().wait(0.1)
        return future.done()


def written_by(world, name, value):
    world.topic()
    world.fill(b"1", **{name: value})
    return world.writer


def compressed(world, name, value):
    world.topic()
    world.fill(TEXT, **{name: value})
    return world.codec


def producers_level(world, name, value):
    world.topic()
    world.fill(TEXT, compression_type=name.split(".")[1], **{name: value})
    return world.rows[-1].batch.length


def gives_up_after(world, name, value):
    world.topic()
    world.store.inject(StoreUnavailableError("away"), "create", "_log/*", times=None)
    begun = world.clock.now
    assert refusal(lambda: world.fill(b"1", **{name: value})) is StoreUnavailableError
    return 10 * ((world.clock.now - begun) // 10)


def tries(world, name, value):
    world.topic()
    world.store.inject(StoreUnavailableError("away"), "create", "_log/*", times=3)
    return refusal(lambda: world.fill(b"1", **{name: value}))


def blocks(world, name, value):
    """With a log that is opened by its URL; here the store stands in for that."""
    world.topic()
    world.store.inject(StoreUnavailableError("away"), "create", "_log/*", times=3)
    with Producer(world.store, {name: value, "retries": 1, "delivery.timeout.ms": 5}) as producer:
        return refusal(lambda: producer.send("t", b"x").result(timeout=60) and None)


def maintenance_done(world, name, value):
    world.topic()
    done = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BackgroundMaintenance, "run_slice", lambda _, state: done.append(state.seq))
        if "producer" in name:
            world.fill(b"1", auto_maintenance_enable=value)
        else:
            with world.reader(group_id="g", auto_maintenance_enable=value) as reader:
                reader.commit({AT: 0})
    return bool(done)


def partitions_created(world, name, value):
    world.fill(b"1", **{name: value})
    return world.log.topic("t").partitions


def second(rows, _partitions):
    """A partitioner: all rows go to partition 1."""
    return np.full(rows.num_rows, 1, np.int32)


def third(rows, _partitions):
    return np.full(rows.num_rows, 2, np.int32)


def chosen_partition(world, name, value):
    world.topic(3)
    with world.producer(**{name: value}) as producer:
        return producer.send("t", b"x").result(timeout=60).partition


def ended_by_others(world, name, value):
    world.topic()
    producer = world.producer(transactional_id="app", **{name: value})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"x")
    producer.flush()
    world.admin.expire()
    world.pass_time(10)
    return bool(world.admin.expire().transactions)


def transactions(world, name, value):
    world.topic()
    with world.producer(**({name: value} if value else {})) as producer:
        return refusal(producer.init_transactions)


def prepares(world, name, value):
    world.topic()
    with world.producer(transactional_id="app", **{name: value}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        return refusal(lambda: producer.prepare_transaction() and None)


def upper(value):
    return value.upper()


def doubled(value):
    return value * 2


def stored(world, name, value):
    world.topic()
    with world.producer(**{name: value}) as producer:
        producer.send("t", b"v", key=b"k")
    (record,) = world.reader().poll()
    return record.key + record.value


def shown(world, name, value):
    world.topic()
    world.fill(b"v", key=b"k")
    (record,) = world.reader(**{name: value}).poll()
    return record.key + record.value


def servers_of_producer(world, name, value):
    return refusal(lambda: world.producer(**{name: value, "bootstrap.servers": "b:9092"}) and None)


PRODUCERS = {
    "acks": Effect(taken, {"all": None, "1": ConfigError}),
    "auto.create.topics.enable": Effect(taken, {"true": None, "false": ...}),
    "batch.size": Effect(urgent, {"100": True, "1000000": False}),
    "buffer.memory": Effect(sent_at_once, {"1000": True, "1000000": False}),
    "client.id": Effect(written_by, {"me": "me", "you": "you"}),
    "compression.lz4.level": Effect(producers_level, {"1": ..., "12": ...}),
    "compression.type": Effect(compressed, {"none": None, "lz4": "lz4", "zstd": "zstd"}),
    "compression.zstd.level": Effect(producers_level, {"1": ..., "19": ...}),
    "delivery.timeout.ms": Effect(gives_up_after, {"10000": 10.0, "60000": 60.0}),
    "enable.idempotence": Effect(taken, {"true": None, "false": ConfigError}),
    "kafka.options": Effect(servers_of_producer, {"refuse": ConfigError, "ignore": None}),
    "key.serializer": Effect(stored, {upper: b"Kv", doubled: b"kkv"}),
    "linger.ms": Effect(lingering, {"0": True, "60000": False}),
    "auto.maintenance.enable": Effect(
        lambda world, _, value: maintenance_done(world, "producer", value), {"true": True, "false": False}
    ),
    "max.block.ms": Effect(blocks, {"0": StoreUnavailableError, "60001": None}),
    "max.in.flight.requests.per.connection": Effect(taken, {"1": None, "5": ConfigError}),
    "max.request.size": Effect(record, {"50": RecordTooLargeError, "1000": None}),
    "num.partitions": Effect(partitions_created, {"1": 1, "3": 3}),
    "partitioner.class": Effect(chosen_partition, {f"{__name__}:second": 1, f"{__name__}:third": 2}),
    "retries": Effect(tries, {"2": StoreUnavailableError, "3": None}),
    "transaction.timeout.ms": Effect(ended_by_others, {"5000": True, "60000": False}),
    "transaction.two.phase.commit.enable": Effect(prepares, {"true": None, "false": IllegalStateError}),
    "transactional.id": Effect(transactions, {"": IllegalStateError, "app": None}),
    "value.serializer": Effect(stored, {upper: b"kV", doubled: b"kvv"}),
}


# -- Consumers ---------------------------------------------------------------------------------------------


def committed_by(world, seconds, **config):
    world.topic()
    world.fill(b"1", b"2")
    with world.reader(**config) as reader:
        reader.poll()
        world.pass_time(seconds)
        reader.poll()
        return world.admin.list_group_offsets("g") if "g" in world.admin.list_groups() else {}


def auto_committed(world, name, value):
    return bool(committed_by(world, 10, group_id="g", **{name: value}))


def begins(world, name, value):
    world.topic()
    world.fill(b"1")
    with world.reader(**{name: value}) as reader:
        return refusal(lambda: [record.value for record in reader.poll()])


def consumer_taken(world, name, value):
    world.topic()
    return refusal(lambda: world.reader(**{name: value}).close())


def committed_as(world, name, value):
    world.topic()
    with world.reader(group_id="g", enable_auto_commit="false", **{name: value}) as reader:
        reader.commit({AT: 0})
        return world.writer


def waits_for_stable(world, name, value):
    world.topic()
    world.fill(b"1")
    producer = world.producer(transactional_id="app", transaction_timeout_ms="900000")
    producer.init_transactions()
    producer.begin_transaction()
    with world.reader(
        group_id="g", isolation_level="read_committed", enable_auto_commit="false", **{name: value}
    ) as reader:
        producer.send_offsets_to_transaction({AT: 1}, reader.group_metadata())
        producer.flush()
        begun = world.clock.now
        assert refusal(lambda: reader.committed([AT])) is UnstableOffsetCommitError
        return 10 * ((world.clock.now - begun) // 10)


def group_of(world, name, value):
    world.topic()
    with world.reader(**{name: value}) as reader:
        reader.commit({AT: 0})
    return world.admin.list_groups()[0]


def member_of(world, config, topics=("t",)):
    consumer = world.consumer(**{"group_id": "g", "enable_auto_commit": "false", **config})
    consumer.subscribe(topics)
    return consumer


def instance(world, name, value):
    world.topic()
    with member_of(world, {name: value} if value else {}) as consumer:
        settle(consumer)
        return world.admin.describe_group("g").members[0].instance_id


def many_beats(world, name, value):
    world.topic()
    with member_of(world, {name: value, "session_timeout_ms": "100000"}) as consumer:
        settle(consumer)
        heart = heartbeat_name("g", member_id(consumer))
        pause = threading.Event()
        for _ in range(6000 if value == "10" else 10):
            if int(world.store.read(heart).to_pybytes().split()[0]) > 5:
                return True
            pause.wait(0.01)
        return False


def values_seen(world, name, value):
    world.topic()
    producer = world.producer(transactional_id="app")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"open")
    producer.flush()
    with world.reader(**{name: value}) as reader:
        return [record.value for record in reader.poll()]


def in_group_after(world, name, value, *, polls):
    """Whether a member is in its group 20 s later, with another one that looks around."""
    world.topic(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeartbeatThread, "start", lambda _: None)
        one = member_of(
            world, {"session_timeout_ms": "900000", "heartbeat_interval_ms": "3000"} | {name: value}
        )
        other = member_of(world, {"session_timeout_ms": "900000", "max_poll_interval_ms": "900000"})
        settle(one, other)
        known = member_id(one)
        for _ in range(20):
            world.pass_time(1)
            beats(other).step()
            if not polls:
                beats(one).step()
        return known in world.log.follow().groups["g"].members


def records_of_a_poll(world, name, value):
    world.topic()
    world.fill(b"1", b"2", b"3")
    with world.reader(**{name: value}) as reader:
        return len(reader.poll())


def shared_out(world, name, value):
    world.admin.create_topic("t", 3)
    world.admin.create_topic("u", 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeartbeatThread, "start", lambda _: None)
        members = [member_of(world, {name: value}, ("t", "u")) for _ in range(2)]
        settle(*members)
        return sorted(held(one) for one in members)


def servers_of_consumer(world, name, value):
    return refusal(lambda: world.consumer(**{name: value, "bootstrap.servers": "b:9092"}) and None)


def iterated(world, name, value):
    """How long an iteration waits, in seconds of the log's own clock; it is woken after a minute."""
    world.topic()
    reader, begun = world.reader(**{name: value}), world.clock.monotonic()
    pass_time = world.clock.sleep

    def sleep(seconds):
        pass_time(seconds)
        if world.clock.monotonic() - begun > 60:
            reader.wakeup()

    world.clock.sleep = sleep
    try:
        return list(reader) or round(world.clock.monotonic() - begun)
    except WakeupError:
        return "waits"


CONSUMERS = {
    "schema.registry.basic.auth.user.info": Effect(
        looked_up_as, {"me:secret": {"n": 1}, "me:wrong": ConfigError}
    ),
    "schema.registry.url": Effect(looked_up, {"right": {"n": 1}, "wrong": RecordDeserializationError}),
    "auto.commit.interval.ms": Effect(auto_committed, {"1000": True, "60000": False}),
    "auto.offset.reset": Effect(
        begins, {"earliest": [b"1"], "latest": [], "none": NoOffsetForPartitionError}
    ),
    "check.crcs": Effect(consumer_taken, {"true": None, "false": ConfigError}),
    "client.id": Effect(committed_as, {"me": "me", "you": "you"}),
    "consumer.timeout.ms": Effect(iterated, {"2000": 2, "5000": 5, "-1": "waits", "inf": "waits"}),
    "default.api.timeout.ms": Effect(waits_for_stable, {"10000": 10.0, "60000": 60.0}),
    "enable.auto.commit": Effect(auto_committed, {"true": True, "false": False}),
    "group.id": Effect(group_of, {"g": "g", "h": "h"}),
    "group.instance.id": Effect(instance, {"": None, "one": "one"}),
    "heartbeat.interval.ms": Effect(many_beats, {"10": True, "60000": False}),
    "isolation.level": Effect(values_seen, {"read_committed": [], "read_uncommitted": [b"open"]}),
    "auto.maintenance.enable": Effect(
        lambda world, _, value: maintenance_done(world, "consumer", value), {"true": True, "false": False}
    ),
    "kafka.options": Effect(servers_of_consumer, {"refuse": ConfigError, "ignore": None}),
    "key.deserializer": Effect(shown, {upper: b"Kv", doubled: b"kkv"}),
    "max.poll.interval.ms": Effect(
        lambda *given: in_group_after(*given, polls=False), {"5000": False, "60000": True}
    ),
    "max.poll.records": Effect(records_of_a_poll, {"1": 1, "2": 2}),
    "partition.assignment.strategy": Effect(
        shared_out, {"range": ["t0 t1 u0 u1", "t2 u2"], "roundrobin": ["t0 t2 u1", "t1 u0 u2"]}
    ),
    "session.timeout.ms": Effect(
        lambda *given: in_group_after(*given, polls=True), {"5000": False, "60000": True}
    ),
    "value.deserializer": Effect(shown, {upper: b"kV", doubled: b"kvv"}),
}


KINDS = [
    ("topic", TOPIC, topic_table.TOPIC),
    ("log", LOG, log_table.LOG),
    ("producer", PRODUCERS, PRODUCER),
    ("consumer", CONSUMERS, CONSUMER),
]


@pytest.mark.parametrize(
    ("effects", "settings"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS]
)
def test_there_is_a_row_for_every_setting(effects, settings):
    assert sorted(effects) == sorted(settings)


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        pytest.param(name, effect, id=f"{kind}-{name}")
        for kind, effects, _ in KINDS
        for name, effect in effects.items()
    ],
)
def test_a_setting_has_an_effect(name, effect):
    found = {value: effect.observe(World(), name, value) for value in effect.outcomes}
    assert found == {
        value: found[value] if known is ... else known for value, known in effect.outcomes.items()
    }
    assert len({repr(outcome) for outcome in found.values()}) > 1, "no value of it changes anything"
