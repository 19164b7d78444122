"""The points of producers, consumers, open logs, measured stores and Spark queries, from inside of their process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from weakref import ref

from spark_eos.clients.consumer.consumer import Consumer
from spark_eos.clients.producer.producer import Producer
from spark_eos.errors import EosLogError
from spark_eos.errors.hidden import safe_url
from spark_eos.extensions.metrics.points import Histogram, Point, point
from spark_eos.log.data.records import times_damaged
from spark_eos.log.log import Log
from spark_eos.monitoring.measured_store import MeasuredStore
from spark_eos.storage import shared_store
from spark_eos.storage.forks import Lock

_DURATION = "messaging.client.operation.duration"
_TOPIC = "producer-topic-metrics."
_PARTITION = "consumer-fetch-manager-metrics."

_numbers = count(1)
_numbers_lock = Lock()


def _name(settings: Mapping[str, object], kind: str) -> str:
    """What tells this client from others of the process: as Kafka names those without a ``client.id``."""
    client_id = settings["client.id"] or settings.get("transactional.id")
    if client_id:
        return str(client_id)
    with _numbers_lock:
        return f"{kind}-{next(_numbers)}"


class ProducerSource:
    """A producer. It is not kept alive: without it there are no points."""

    def __init__(self, producer: Producer, name: str | None = None) -> None:
        self._producer = ref(producer)
        self.name = name or _name(producer._settings, "producer")  # noqa: SLF001

    @property
    def is_gone(self) -> bool:
        """Whether there is nothing more to export."""
        return self._producer() is None

    @property
    def log(self) -> Log | None:
        """Its log, once it is open."""
        producer = self._producer()
        return None if producer is None else producer._opened  # noqa: SLF001

    def points(self) -> Iterable[Point]:
        """What it has sent."""
        producer = self._producer()
        if producer is None:
            return
        at = (_url(producer), self.name)
        shown = producer.metrics()
        for group, figures in shown.items():
            if group.startswith(_TOPIC):
                topic = group.removeprefix(_TOPIC)
                yield point("messaging.client.sent.messages", figures["record-send-total"], *at, topic, "")
                failed = figures["record-error-total"]
                yield point("messaging.client.sent.messages", failed, *at, topic, "failed")
                yield point("eoslog.producer.io", figures["byte-total"], *at, topic)
        figures = shown["producer-metrics"]
        limit = figures["buffer-total-bytes"]
        yield point("eoslog.producer.buffer.used", limit - figures["buffer-available-bytes"], *at)
        yield point("eoslog.producer.buffer.limit", limit, *at)

    def histograms(self) -> Iterable[Histogram]:
        """How long its calls took."""
        producer = self._producer()
        if producer is not None:
            yield Histogram(_DURATION, (_url(producer), self.name), producer._metrics.durations)  # noqa: SLF001


class ConsumerSource:
    """A consumer. It is not kept alive: without it there are no points."""

    def __init__(self, consumer: Consumer, name: str | None = None) -> None:
        self._consumer = ref(consumer)
        self.name = name or _name(consumer._settings, "consumer")  # noqa: SLF001

    @property
    def is_gone(self) -> bool:
        """Whether there is nothing more to export."""
        return self._consumer() is None

    @property
    def log(self) -> Log | None:
        """Its log."""
        consumer = self._consumer()
        return None if consumer is None else consumer._log  # noqa: SLF001

    def points(self) -> Iterable[Point]:
        """What it has read."""
        consumer = self._consumer()
        if consumer is None:
            return
        shown = consumer.metrics()
        group = consumer._settings["group.id"] or ""  # noqa: SLF001
        at = (safe_url(consumer._log.url), self.name, group)  # noqa: SLF001
        fetched, members = shown["consumer-fetch-manager-metrics"], shown["consumer-coordinator-metrics"]
        yield point("messaging.client.consumed.messages", fetched["records-consumed-total"], *at)
        yield point("eoslog.consumer.io", fetched["bytes-consumed-total"], *at)
        yield point("eoslog.consumer.corrupt_polls", fetched["corrupt-record-total"], *at)
        yield point("eoslog.consumer.assigned_partitions", members["assigned-partitions"], *at)
        yield point("eoslog.consumer.rebalances", members["rebalance-total"], *at)
        age_s = shown["consumer-metrics"]["last-poll-seconds-ago"]
        if age_s >= 0:
            yield point("eoslog.consumer.poll.age", age_s, *at)
        for name, figures in shown.items():
            if name.startswith(_PARTITION):
                topic, _, number = name.removeprefix(_PARTITION).rpartition("-")
                yield point("eoslog.consumer.lag", figures["records-lag"], *at, topic, number)

    def histograms(self) -> Iterable[Histogram]:
        """How long its commits took."""
        consumer = self._consumer()
        if consumer is not None:
            at = (safe_url(consumer._log.url), self.name)  # noqa: SLF001
            yield Histogram(_DURATION, at, consumer._metrics.durations)  # noqa: SLF001


class LogSource:
    """An open log: what this process has done to commit. It is not kept alive."""

    def __init__(self, log: Log) -> None:
        self._log = ref(log)

    @property
    def is_gone(self) -> bool:
        """Whether there is nothing more to export."""
        return self._log() is None

    @property
    def log(self) -> Log | None:
        """The log, whose commits are exported."""
        return self._log()

    def points(self) -> Iterable[Point]:
        """Nothing but what `commit_points` and `read_point` give."""
        return ()

    def histograms(self) -> Iterable[Histogram]:
        """None."""
        return ()


class StoreSource:
    """A measured store."""

    def __init__(self, store: MeasuredStore) -> None:
        self._store = store

    def points(self) -> Iterable[Point]:
        """Bytes that were read and written."""
        url = safe_url(self._store.url)
        return [point("eoslog.storage.io", size, url, verb) for verb, size in self._store.bytes_by_verb()]

    def histograms(self) -> Iterable[Histogram]:
        """How long requests took."""
        at = (safe_url(self._store.url), self._store.system)
        return (Histogram("db.client.operation.duration", at, self._store.durations),)


class QuerySource:
    """A progress listener: ``figures()`` gives the query, what it is, and how much (`ProgressListener.figures`)."""

    def __init__(self, figures: Callable[[], Iterable[tuple[str, str, float]]]) -> None:
        self._figures = figures

    def points(self) -> Iterable[Point]:
        """Records, bytes and lag by query."""
        return [
            point(f"eoslog.streaming_query.{name}", value, query) for query, name, value in self._figures()
        ]

    def histograms(self) -> Iterable[Histogram]:
        """None."""
        return ()


def commit_points(log: Log) -> Iterator[Point]:
    """What this process has done to commit to a log."""
    url, counts = safe_url(log.url), log.commit_counts
    yield point("eoslog.commit.entries", counts.entries, url)
    yield point("eoslog.commit.requests", counts.requests, url)
    yield point("eoslog.commit.grouped_requests", counts.grouped, url)
    yield point("eoslog.commit.conflicts", counts.conflicts, url)
    yield point("eoslog.commit.lost_replies", counts.lost_replies, url)
    yield point("eoslog.commit.in_doubt", log.in_doubt, url)


def read_point(log: Log) -> Point:
    """How often readers of this process have met damaged data of a log."""
    return point("eoslog.read.corrupt", times_damaged(log.url), safe_url(log.url))


def _url(producer: Producer) -> str:
    """Where the producer writes, also before it has opened the log, as the log will call it."""
    if producer._opened is not None:  # noqa: SLF001
        return safe_url(producer._opened.url)  # noqa: SLF001
    url = producer._url  # noqa: SLF001
    assert not isinstance(url, Log)
    try:
        return safe_url(shared_store(url, producer._store_settings).url)  # noqa: SLF001
    except EosLogError:
        return safe_url(str(url))
