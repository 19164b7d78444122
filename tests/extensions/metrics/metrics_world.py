"""A log with one of everything, whose metrics are exported from outside and from inside."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.errors import ProducerFencedError
from spark_eos.extensions.metrics.watch import LogWatch
from spark_eos.monitoring import MeasuredStore
from spark_eos.monitoring.status import Space
from spark_eos.protocol.rules.notes import BACKUP, SOUND, VERIFY, note_actions
from spark_eos.spark.query_figures import QueryFigures
from spark_eos.storage import open_store
from tests.monitoring.micro_batches import micro_batch

SECRET = "a-secret-record-value"
REPORT = {
    "id": "2f5d",
    "name": "copy",
    "batchId": 7,
    "numInputRows": 15,
    "durationMs": {"triggerExecution": 1500},
    "sources": [
        {
            "metrics": {
                "numInputBytes": "900",
                "maxOffsetsBehindLatest": "5",
                "estimatedTotalBytesBehindLatest": "300",
            }
        }
    ],
    "sink": {"metrics": {"numOutputRecords": "15", "numOutputBytes": "800", "entry": "3"}},
}


class Listener:
    """As `ProgressListener`, without Spark."""

    def __init__(self):
        heard = QueryFigures()
        heard.begin("of-the-query", "copy")
        heard.add(REPORT)
        self.figures = heard.all


def scraped(registry):
    """What Prometheus gets: {(sample, labels): value}, and the names of the metrics."""
    text = generate_latest(registry).decode()
    families = [*text_string_to_metric_families(text)]
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    names = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    return samples, names, text


def value(samples, name, **labels):
    """The only sample of that name which has these labels."""
    (found,) = [
        number
        for (known, of), number in samples.items()
        if known == name and labels.items() <= dict(of).items()
    ]
    return found


def has(samples, name, **labels):
    return any(known == name and labels.items() <= dict(of).items() for known, of in samples)


def watched(watch):
    """The points of a watch by the metric's name without `eoslog.`, and the labels but for the log."""
    return {
        (one.metric.name.removeprefix("eoslog."), *one.labels[1:]): one.value
        for one in watch.points(wait=True)
    }


class Time:
    """A monotonic clock that stands still."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s

    def later(self, seconds):
        """The time, after so many seconds more."""
        self.now_s += seconds
        return self.now_s


def close(producer):
    with suppress(ProducerFencedError):  # A test may have aborted its transaction.
        producer.close()


@contextmanager
def one_of_everything(url):
    """The exporters of a log with topics, groups, a query, a publication and transactions; and its clients."""
    with ExitStack() as stack:
        log = Log.create(MeasuredStore(open_store(url)))
        Admin(log).create_topic("orders", 2)
        producer = stack.enter_context(Producer(log, {"client.id": "till", "linger.ms": 5}))
        now = Time()
        watch = LogWatch(url, by_partition=True, now=now, space=lambda _: Space(4 << 30, 100 << 30))
        watch.points(wait=True)
        for _ in range(3):
            producer.send("orders", SECRET.encode(), key=b"key-" + SECRET.encode(), partition=0).result()
        consumer = stack.enter_context(
            Consumer(log, {"group.id": "billing", "client.id": "biller", "auto.offset.reset": "earliest"})
        )
        consumer.subscribe(["orders"])
        while not consumer.poll(timeout_ms=1000):
            pass
        consumer.commit()
        producer.send("orders", SECRET.encode(), partition=0).result()
        teller = Producer(log, {"transactional.id": "teller"})
        stack.callback(close, teller)
        teller.init_transactions()
        for ends in (teller.abort_transaction, teller.commit_transaction, lambda: None):
            teller.begin_transaction()
            teller.send("orders", SECRET.encode(), partition=1)
            teller.send_offsets_to_transaction({TopicPartition("orders", 0): 1}, "tellers")
            teller.flush()
            ends()
        log.commit(lambda state: (*note_actions(state, BACKUP), *note_actions(state, VERIFY, SOUND)))
        micro_batch(log, "orders", 2)
        from spark_eos.extensions.tables.tables import Tables

        Tables(log).create("nightly", ["orders"])
        Admin(log).create_topic("clicks", 1)
        Tables(log).create("hourly", ["clicks"])
        Tables(log).publish("hourly")

        def look():
            now.now_s += 4000
            watch.points(wait=True)

        yield log, watch, (producer, consumer, teller), look
