"""Alerts fire for logs that really have the trouble, and end after the runbook's cure: metrics are what logs export.

Each log is watched for some hours, by a clock that is set. What is exported in each minute goes to promtool.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.errors import CommitOutcomeUnknownError
from spark_eos.extensions.metrics.watch import LogWatch
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Retry
from spark_eos.monitoring import measured_store, register
from spark_eos.monitoring.status import Space
from spark_eos.protocol.actions import JoinGroup, LeaveGroup, RaiseStagingFloor
from spark_eos.protocol.rules.notes import BACKUP, VERIFY, note_actions
from spark_eos.storage import open_store
from spark_eos.testing import Fault, FaultyStore
from tests.extensions.metrics.metrics_world import Time, close
from tests.extensions.metrics.test_alerts import (
    ALERTS,
    BOOKS,
    RULES,
    SAMPLES,
    commands,
    needs_promtool,
    rule_alone,
    run_promtool,
)
from tests.monitoring.micro_batches import micro_batch

pytestmark = needs_promtool

_NUMBERS = count()


class Later:
    """This machine's clock, as far ahead as time has passed for the watch."""

    def __init__(self, now):
        self._now, self.ahead_ms = now, 0

    def __getattr__(self, name):
        return getattr(SYSTEM, name)

    def now_ms(self):
        return SYSTEM.now_ms() + self.ahead_ms

    def monotonic(self):
        return self._now()


class World:
    """A log that is watched each minute, and what Prometheus has scraped then."""

    def __init__(self, folder, stack, monkeypatch):
        # In memory where that is enough: it is quicker.
        self.url = str(folder / "log") if folder else f"memory://alerts-{next(_NUMBERS)}"
        self.stack, self.monkeypatch = stack, monkeypatch
        self.store = FaultyStore(open_store(self.url))
        self.log = Log.create(self.url)
        Admin(self.log).create_topic("orders", 1)
        self.send()
        self.now, self.registry = Time(), CollectorRegistry()
        self.clock = Later(self.now)
        self.space = Space(500 << 30, 1000 << 30)
        self.watch = LogWatch(self.store, now=self.now, clock=self.clock, space=lambda _: self.space)
        register(self.watch, registry=self.registry)
        self.each_minute = self.send
        self.minute, self.series = 0, {}

    def send(self, records=1):
        with Producer(self.log) as producer:
            for _ in range(records):
                producer.send("orders", b"x", timestamp_ms=SYSTEM.now_ms()).result()

    def pass_minutes(self, minutes):
        for _ in range(minutes):
            self.now.now_s += 60
            self.clock.ahead_ms += 60_000
            self.each_minute()
            self.watch.points(wait=True)
            for family in self.registry.collect():
                for sample in family.samples:
                    if sample.name in SAMPLES:
                        key = sample.name, frozenset(sample.labels.items())
                        self.series.setdefault(key, {})[self.minute] = sample.value
            self.minute += 1

    def follow(self, page, words):
        """Follow the runbook: its first command to do something that begins with these words."""
        names = {
            "LOG": self.url,
            "GROUP": "billing",
            "QUERY": "copy",
            "PUBLICATION": "nightly",
            "ID": "teller",
        }
        text = (BOOKS / page).read_text("utf-8").partition("## What to do")[2]
        found = next(command for command in commands(text) if command.startswith(words))
        arguments = [names.get(word, word).replace("TOPIC", "orders") for word in found.split()[1:]]
        if arguments[-1] == "--dry-run":
            assert main(arguments) == 0
            arguments[-1] = "--execute"
        assert main(arguments) == 0

    def open_transaction(self, timeout_ms=600_000):
        producer = Producer(self.log, {"transactional.id": "teller", "transaction.timeout.ms": timeout_ms})
        self.stack.callback(close, producer)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"x")
        producer.flush()
        return producer

    def input_series(self):
        shown = []
        for (name, labels), values in self.series.items():
            texts, has = [], False
            for minute in range(self.minute):
                texts.append(repr(values[minute]) if minute in values else "stale" if has else "_")
                has = minute in values
            pairs = sorted({**dict(labels), "instance": "here"}.items())
            series = ",".join(f'{label}="{text}"' for label, text in pairs)
            shown.append({"series": f"{name}{{{series}}}", "values": " ".join(texts)})
        return shown


# -- Each is a trouble: what comes before the first yield is no trouble, what comes after the second one the cure -----


def down(world):
    yield 10
    Path(world.url).rename(f"{world.url}-away")
    world.each_minute = lambda: None
    yield 5
    Path(f"{world.url}-away").rename(world.url)


def disk_full(world):
    """Other programs fill it: the log itself takes little."""
    yield 10
    world.space = Space(9 << 30, 1000 << 30)
    yield 10
    world.space = Space(100 << 30, 1000 << 30)


def damage(world):
    """A file of rows, which no look reads."""
    world.each_minute = lambda: None
    yield 5
    (name,) = [info.name for info in world.log.store.list(paths.DATA)]
    data = bytes(world.log.store.read(name))
    world.log.store.overwrite(name, data[:-1])
    assert main(["verify", world.url, "--note"]) == 1
    yield 5
    world.log.store.overwrite(name, data)
    world.follow("damaged-file.md", "eoslog verify LOG --note")


def hanging_transaction(world):
    yield 10
    world.open_transaction(timeout_ms=1)
    world.each_minute = lambda: None  # Another process that writes would end it.
    yield 10
    while world.log.follow().open_transactions:  # By the store's clock it is past its timeout in a second.
        world.follow("hanging-transaction.md", "eoslog expire")


def prepared_waits(world):
    yield 10
    producer = Producer(
        world.log, {"transactional.id": "teller", "transaction.two.phase.commit.enable": True}
    )
    world.stack.callback(close, producer)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"x")
    producer.prepare_transaction()
    yield 25
    world.follow("prepared-waits.md", "eoslog transactions force-terminate")


def lso_stuck(world):
    """By the limit of this log: by default a transaction is past its timeout by then."""
    Admin(world.log).alter_log({"health.transaction.max.ms": 300_000})
    yield 1
    world.open_transaction(timeout_ms=900_000)
    yield 13
    world.follow("lso-stuck.md", "eoslog transactions abort")


def group_behind(world):
    Admin(world.log).alter_group_offsets("billing", {TopicPartition("orders", 0): 1})

    def read():
        world.send()
        end = world.log.follow().partitions[world.log.topic("orders").topic_id, 0].end
        Admin(world.log).alter_group_offsets("billing", {TopicPartition("orders", 0): end})

    world.each_minute = read
    yield 20
    world.send(7)
    world.each_minute = lambda: None  # It stands still, and nothing new comes.
    yield 40
    world.follow("group-lag.md", "eoslog groups reset-offsets")
    world.each_minute = read


def query_behind(world):
    micro_batch(world.log, "orders", 1)
    world.each_minute = lambda: None
    yield 20
    world.each_minute = world.send
    yield 40
    world.each_minute = lambda: None
    end = world.log.follow().partitions[world.log.topic("orders").topic_id, 0].end
    micro_batch(world.log, "orders", end, first=1, number=1)


def topic_deleted(world):
    micro_batch(world.log, "orders", 1)
    world.each_minute = lambda: None
    yield 10
    Admin(world.log).delete_topic("orders")
    Admin(world.log).create_topic("orders", 1)
    yield 10
    world.follow("topic-deleted.md", "eoslog groups delete")


def lag_unknown(world):
    yield 5
    consumer = Consumer(world.log, {"group.id": "billing", "enable.auto.commit": False})
    world.stack.callback(consumer.close)
    consumer.subscribe(["orders"])
    world.each_minute = lambda: consumer.poll(0)
    yield 20
    world.each_minute = lambda: (consumer.poll(0), consumer.commit())


def silent_member(world):
    member = JoinGroup("billing", "m", ("orders",), ("range",), 45_000)
    world.log.commit(lambda _: (member,))
    Admin(world.log).alter_log({"entry.timestamp.after.max.ms": 10**9})

    def beat():
        world.store.overwrite(heartbeat_name("billing", "m"), b"1 %d" % world.clock.now_ms())

    world.each_minute = beat
    yield 10
    world.each_minute = lambda: None  # Its process was killed.
    yield 10
    world.follow("silent-member.md", "eoslog groups remove-members")


def rebalances(world):
    """A consumer that crashes and is started again joins beside the one that stays."""
    stays = JoinGroup("billing", "stays", ("orders",), ("range",), 45_000)
    world.log.commit(lambda _: (stays,))
    Admin(world.log).alter_log({"entry.timestamp.after.max.ms": 10**9})
    world.each_minute = lambda: None
    yield 10
    for number in range(20):
        member = f"crashes-{number}"
        world.log.commit(
            lambda _, member=member: (stays._replace(member_id=member), LeaveGroup("billing", (member,)))
        )
    yield 10
    yield 65


def fenced(world):
    """Two programs take one id from each other; the last one is left alone then."""
    world.each_minute = lambda: None
    yield 5
    for _ in range(4):
        world.open_transaction()
    yield 5
    yield 65


def records_lost(world):
    Admin(world.log).alter_group_offsets("billing", {TopicPartition("orders", 0): 1})
    world.send(5)
    yield 5
    Admin(world.log).delete_records({TopicPartition("orders", 0): 4})
    yield 2
    world.follow("records-lost.md", "eoslog groups reset-offsets")


def no_commits(world):
    world.each_minute = lambda: None
    patient = world.open_transaction(900_000)  # It waits for more to write, which is no trouble.
    yield 14
    producer = Producer(world.log, {"linger.ms": 3_600_000, "delivery.timeout.ms": 7_200_000})
    world.stack.callback(close, producer)
    register(producer, registry=world.registry)
    producer.send("orders", b"x")
    yield 15
    producer.flush()
    patient.commit_transaction()
    world.each_minute = world.send


def in_doubt(world):
    store = FaultyStore(open_store(world.url))
    log = Log.open(store, retry=Retry(deadline_s=0.0))
    register(log, registry=world.registry)
    world.each_minute = lambda: None
    yield 5
    store.inject(Fault.LOST, "create", "_log/*", times=None)
    with pytest.raises(CommitOutcomeUnknownError):
        log.ensure_topic("another")
    yield 8
    store.heal()
    log.ensure_topic("another")


def snapshots_missing(world):
    yield 5
    world.each_minute = lambda: None  # A writer would store one.
    log = world.log.without_maintenance()
    for number in range(1001):
        log.commit(lambda _, number=number: (RaiseStagingFloor(number),))
    yield 20
    world.follow("snapshots-missing.md", "eoslog maintain LOG --only snapshot,retire")


def storage_errors(world):
    yield 10
    world.store.inject(RuntimeError("a broken cable"), "read", "_log/*", times=None)

    def look():
        for _ in range(4):
            world.watch.points(wait=True)
            world.now.now_s += 1

    world.each_minute = look
    yield 15
    world.store.heal()
    world.each_minute = world.send


def storage_slow(world):
    yield 15
    passed = Time()
    world.monkeypatch.setattr(measured_store.time, "perf_counter", lambda: passed.later(1.1))
    yield 25
    world.monkeypatch.undo()


def publication_behind(world):
    from spark_eos.extensions.tables.tables import Tables

    Tables(world.log).create("nightly", ["orders"])
    world.each_minute = lambda: None
    world.follow("publication-behind.md", "eoslog tables publish")
    yield 5
    world.send(3)
    yield 150
    world.follow("publication-behind.md", "eoslog tables publish")


def publication_unfinished(world):
    from spark_eos.extensions.tables.delta.target import DeltaTarget
    from spark_eos.extensions.tables.tables import Tables

    Tables(world.log).create("nightly", ["orders"])
    world.each_minute = lambda: None
    yield 5

    def refuse(*_):
        raise RuntimeError("the publisher dies here")

    with world.monkeypatch.context() as patch:
        patch.setattr(DeltaTarget, "commit", refuse)
        with pytest.raises(RuntimeError):
            Tables(world.log).publish("nightly")
    yield 40
    world.follow("publication-unfinished.md", "eoslog tables publish LOG --name PUBLICATION")


def clock_trouble(world):
    world.each_minute = lambda: None
    yield 5
    writer = Later(world.now)
    writer.ahead_ms = world.clock.ahead_ms + 20 * 60_000
    Log.open(world.url, writer).ensure_topic("another")
    Admin(world.log).alter_log({"entry.timestamp.after.max.ms": 600_000})
    yield 8  # It ends when the true time comes near that of the entry.


def too_long_ago(job):
    """It was to be done each hour, and is not done any more; then it is done again."""

    def trouble(world):
        world.each_minute = lambda: None
        limit = f"health.{job.removeprefix('eoslog ')}.age.max.ms"
        Admin(world.log).alter_log({limit: 3_600_000, "entry.timestamp.after.max.ms": 10**9})

        def note():
            Log.open(world.url, world.clock).commit(lambda state: note_actions(state, job))

        note()
        yield 50
        yield 90
        note()

    return trouble


def small_batches(world):
    """Each commit has a small batch in each of many partitions."""
    partitions = 20
    Admin(world.log).create_topic("events", partitions)
    world.each_minute = lambda: None
    yield 5
    with Producer(world.log, {"linger.ms": 60_000}) as producer:
        for _ in range(10_000 // partitions + 20):
            for number in range(partitions):
                producer.send("events", b"x", partition=number, timestamp_ms=SYSTEM.now_ms())
            producer.flush()
    yield 65
    world.follow("small-batches.md", "eoslog maintain LOG --only roll")


def garbage(world):
    """A writer that had slept stages more than a GB below the staging floor, and dies.

    All files are listed once an hour.
    """
    world.each_minute = lambda: None
    yield 5
    Admin(world.log).alter_topic("orders", config={"file.delete.delay.ms": 0})
    topic, seq = world.log.topic("orders"), world.log.state.seq
    world.log.commit(lambda _: (RaiseStagingFloor(seq + 1),))  # As a vacuum has done meanwhile.
    left = Path(world.url, paths.data_file("orders", topic.topic_id, seq, "left"))
    with left.open("wb") as file:
        file.truncate(1_100_000_000)  # It takes no room: nothing is written.
    yield 290
    world.follow("garbage.md", "eoslog vacuum LOG")
    assert not left.exists()


TROUBLES = {
    "EoslogDown": down,
    "EoslogDiskFull": disk_full,
    "EoslogDamage": damage,
    "EoslogHangingTransaction": hanging_transaction,
    "EoslogPreparedWaits": prepared_waits,
    "EoslogLsoStuck": lso_stuck,
    "EoslogGroupBehind": group_behind,
    "EoslogQueryBehind": query_behind,
    "EoslogTopicDeleted": topic_deleted,
    "EoslogLagUnknown": lag_unknown,
    "EoslogSilentMember": silent_member,
    "EoslogRebalances": rebalances,
    "EoslogFenced": fenced,
    "EoslogRecordsLost": records_lost,
    "EoslogNoCommits": no_commits,
    "EoslogInDoubt": in_doubt,
    "EoslogSnapshotsMissing": snapshots_missing,
    "EoslogStorageErrors": storage_errors,
    "EoslogStorageSlow": storage_slow,
    "EoslogPublicationBehind": publication_behind,
    "EoslogPublicationUnfinished": publication_unfinished,
    "EoslogClockTrouble": clock_trouble,
    "EoslogBackupOld": too_long_ago(BACKUP),
    "EoslogVerifyOld": too_long_ago(VERIFY),
    "EoslogSmallBatches": small_batches,
    "EoslogGarbage": garbage,
}


def check_rules(folder, world, expected, rules=RULES):
    """Give promtool what was scraped. ``expected``: queries, each with a minute and the alerts that it counts then."""
    tests = [
        {
            "interval": "1m",
            "input_series": world.input_series(),
            "promql_expr_test": [
                {
                    "expr": query,
                    "eval_time": f"{minute}m",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts],
                }
                for query, minute, alerts in expected
            ],
        }
    ]
    path = folder / "test.yml"
    whole = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}
    path.write_text(json.dumps(whole))  # It is YAML, too, and quicker.
    run_promtool("test", "rules", path)


IN_A_FOLDER = {"EoslogDown", "EoslogGarbage", "EoslogPublicationBehind", "EoslogPublicationUnfinished"}


def test_all_alerts_have_a_trouble():
    assert ALERTS.keys() == TROUBLES.keys()


@pytest.mark.deep
def test_jobs_that_run_once_a_day_and_once_an_hour(tmp_path, monkeypatch):
    """No alert fires while they run; then one of each, by its own limit."""
    hour_ms = 3_600_000
    with ExitStack() as stack:
        world = World(None, stack, monkeypatch)
        Admin(world.log).alter_log(
            {"health.lag.max.ms:copy": 26 * hour_ms, "health.lag.max.ms:billing": 2 * hour_ms}
        )
        Admin(world.log).alter_topic("orders", config={"message.timestamp.after.max.ms": 10**12})

        def end():
            return world.log.follow().partitions[world.log.topic("orders").topic_id, 0].end

        def hourly():
            Admin(world.log).alter_group_offsets("billing", {TopicPartition("orders", 0): end()})

        def send_each_ten_minutes():
            if world.minute % 10 == 0:
                with Producer(world.log) as producer:
                    producer.send("orders", b"x", timestamp_ms=world.clock.now_ms()).result()

        world.each_minute = send_each_ten_minutes
        first = end()
        micro_batch(world.log, "orders", first)
        for _ in range(24):
            hourly()
            world.pass_minutes(60)
        world.pass_minutes(
            3 * 60
        )  # Neither runs any more: the hourly one has run for the last time 23 hours in.
        micro_batch(world.log, "orders", end(), first=first, number=1)
        hourly()
        world.pass_minutes(10)
    ever, now = (
        f"count by (alertname) ({alerts})"
        for alerts in ('count_over_time(ALERTS{alertstate="firing"}[2d])', 'ALERTS{alertstate="firing"}')
    )
    expected = [
        (ever, 25 * 60, []),
        (ever, 25 * 60 + 50, ["EoslogGroupBehind"]),
        (ever, 26 * 60, ["EoslogGroupBehind"]),
        (ever, 26 * 60 + 50, ["EoslogGroupBehind", "EoslogQueryBehind"]),
        (now, 27 * 60 + 5, []),
    ]
    check_rules(tmp_path, world, expected)


@pytest.mark.deep(
    "EoslogBackupOld",
    "EoslogGarbage",
    "EoslogGroupBehind",
    "EoslogLsoStuck",
    "EoslogPublicationBehind",
    "EoslogSmallBatches",
    "EoslogSnapshotsMissing",
    "EoslogStorageSlow",
    "EoslogVerifyOld",
)
@pytest.mark.parametrize("alert", TROUBLES)
def test_an_alert_fires_for_a_log_in_trouble_and_ends_with_the_cure(alert, tmp_path, monkeypatch):
    with ExitStack() as stack:
        world = World(tmp_path if alert in IN_A_FOLDER else None, stack, monkeypatch)
        trouble, phases = TROUBLES[alert](world), []
        for healthy_minutes in (None, None, 30):
            phases.append(next(trouble, healthy_minutes))
            world.pass_minutes(phases[-1])
    ends = [sum(phases[:upto]) - 1 for upto in (1, 2, 3)]
    fires = f'count by (alertname) (ALERTS{{alertstate="firing",alertname="{alert}"}})'
    check_rules(
        tmp_path,
        world,
        [
            (fires, end, [alert] if is_ill else [])
            for end, is_ill in zip(ends, (False, True, False), strict=True)
        ],
        rule_alone(tmp_path, alert),
    )
