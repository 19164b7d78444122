"""Structurally random requests: what a client could send that keeps no rules at all.

A value of any declared type is drawn from its annotations: huge and negative numbers, references to nothing, the same
thing twice, nothing at all. For most parts values are taken from the state at hand, so that the deep rules are reached,
and then one part is replaced by something wild.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from immutables import Map

from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.publishing.versions import pages_of
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.publication import Publication
from spark_eos.protocol.rules.sealing import sealed_to
from spark_eos.protocol.state import Partition, PartitionKey, State
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef, ProducerStamp, StagedFile

__all__ = ["RandomRequests"]

_NUMBERS = (
    0,
    0,
    1,
    1,
    2,
    3,
    5,
    -1,
    -2,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**60,
    2**62,
    2**62 + 1,
    2**63 - 1,
    -(2**63),
)
_TEXTS = (
    "",
    "t",
    "u",
    "g",
    "m",
    "q",
    "x",
    "range",
    "a/../b",
    "é",
    "\0",
    "x" * 300,
    "0",
    "-1",
    "data/0-x.arrow",
)
_CONFIGS = (
    ("retention.ms", "-1"),
    ("retention.ms", "never"),
    ("producer.id.expiration.ms", "1"),
    ("transactional.id.expiration.ms", "9" * 18),
    ("offsets.retention.minutes", "9" * 18),
    ("x", ""),
)
_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


class RandomRequests:
    """Draws requests; ``strange`` also gives values that no entry can hold (of other types, lone surrogates)."""

    def __init__(self, chance: Random, *, wild: float = 0.3, strange: bool = False) -> None:
        self._chance = chance
        self._wild = wild
        self._strange = strange

    def actions(self, state: State) -> tuple[a.Action, ...]:
        """Some actions, most of them such as the state could take."""
        return tuple(self.action(state) for _ in range(self._chance.choice([0, 1, 1, 1, 1, 1, 2, 2, 3])))

    def action(self, state: State) -> a.Action:
        """One action."""
        kinds = [*get_args(a.Action), *[a.AppendBatches] * 6, *[a.EndTransaction] * 3, *[a.InitProducer] * 2]
        kind = self._chance.choice(
            [*kinds, *[a.ReplaceSegments] * 2, *[a.BeginPublish] * 2, a.EndPublish, a.CommitOffsets]
        )
        drawn: a.Action = self._draw(kind, kind.__name__, state)
        return self._replaced(drawn, state) if self._chance.random() < self._wild else drawn

    def _replaced(self, value: Any, state: State) -> Any:
        """The value with one part of it, at any depth, drawn without regard to the state."""
        kind: Any = type(value)
        if hasattr(kind, "_fields"):
            at = self._chance.randrange(len(value))
            name = kind._fields[at]
            part = value[at]
            if isinstance(part, tuple) and part and self._chance.random() < 0.7:
                return value._replace(**{name: self._replaced(part, state)})
            return value._replace(**{name: self._any(_hints(kind)[name], f"{kind.__name__}.{name}", state)})
        items = list(value)
        at = self._chance.randrange(len(items))
        how = self._chance.choice(["part", "part", "twice", "gone"])
        if how == "twice":
            items.insert(at, items[at])
        elif how == "gone":
            del items[at]
        elif isinstance(items[at], tuple) and items[at]:
            items[at] = self._replaced(items[at], state)
        else:
            items[at] = self._leaf(type(items[at]))
        return tuple(items)

    # -- By annotation -------------------------------------------------------------------------------------

    def _any(self, kind: Any, place: str, state: State) -> Any:
        if self._strange and self._chance.random() < 0.3:
            return self._chance.choice(
                [None, 1.5, True, "\ud800", b"x", [], {}, (), (1,), 2**80, object(), Kind.DATA]
            )
        origin, args = get_origin(kind), get_args(kind)
        if origin in {UnionType, Union}:
            one = self._chance.choice(args)
            return None if one is NoneType else self._any(one, place, state)
        if origin is tuple:
            if len(args) == 2 and args[1] is Ellipsis:
                items = [
                    self._draw(args[0], place, state) for _ in range(self._chance.choice([0, 1, 1, 2, 3]))
                ]
                return tuple(items)
            return tuple(self._any(one, place, state) for one in args)
        if hasattr(kind, "_fields"):
            return kind(
                *(self._any(hint, f"{kind.__name__}.{name}", state) for name, hint in _hints(kind).items())
            )
        return self._leaf(kind)

    def _leaf(self, kind: Any) -> Any:
        if kind is bool:
            return self._chance.random() < 0.5
        if kind is str:
            return self._chance.choice(_TEXTS)
        if kind is bytes:
            return bytes(self._chance.choice([0, 1, 16]))
        if kind is Kind:
            return self._chance.choice(list(Kind))
        return self._chance.choice(_NUMBERS)

    def _draw(self, kind: Any, place: str, state: State) -> Any:
        """Such as the state could take, as far as that is known; of records each field for itself."""
        make = _MAKERS.get(kind)
        if make is not None:
            return make(self, state)
        origin, args = get_origin(kind), get_args(kind)
        name = place.partition(".")[2]
        if origin in {UnionType, Union}:
            one = self._chance.choice(args)
            return None if one is NoneType else self._draw(one, place, state)
        if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
            return tuple(
                self._draw(args[0], place, state) for _ in range(self._chance.choice([0, 1, 1, 1, 2, 3]))
            )
        if origin is tuple:
            if name == "config":
                return self._chance.choice(_CONFIGS)
            return (
                (self._topic(state)[0], self._chance.randrange(3)) if args[1] is int else self._topic(state)
            )
        if hasattr(kind, "_fields"):
            fields = _hints(kind).items()
            return kind(*(self._draw(hint, f"{kind.__name__}.{field}", state) for field, hint in fields))
        pool = self._pool(name, state)
        return self._chance.choice(pool) if pool else self._leaf(kind)

    def _pool(self, name: str, state: State) -> list[Any]:
        groups = sorted(state.groups) or ["g"]
        generations = [state.groups[one].generation for one in groups if one in state.groups]
        pools: dict[str, list[Any]] = {
            "group": ["g", "h", *groups],
            "member_id": ["m", "n", "o"],
            "members": ["m", "n", "o"],
            "generation": [*generations, 1],
            "instance_id": ["i", "j"],
            "assignors": [*_ASSIGNORS],
            "topics": ["t", "u", "v", *sorted(state.topics)],
            "transactional_ids": [*sorted(state.transactional_ids), "x"],
            "producers": [*sorted(state.producers), 99],
            "session_timeout_ms": [1, 45_000],
            "waited_ms": [0, 10**6],
            "silent_ms": [-1, 0, 10**6],
            "seq": [0, 1, state.seq, state.seq + 1],
            "partitions": [1, 2, 3, 4],
            "snapshot_interval": [1, 2, 3, 5],
            "staged": ["data/0-x.arrow", f"data/{state.seq + 1}-x.arrow"],
            "schema": [None, b""],
            "log_id": ["log"],
            "client_id": ["c"],
            "metadata": ["", "m"],
            "entries_per_folder": [0, 10],
            "app_id": ["job", "other"],
            "version": [0, 1, 2, 3],
            "topic_id": [*(topic.topic_id for _, topic in sorted(state.topics.items())), "gone"],
        }
        return pools.get(name, [])

    # -- From the state ------------------------------------------------------------------------------------

    def _topic(self, state: State) -> tuple[str, str]:
        known = [(name, topic.topic_id) for name, topic in sorted(state.topics.items())]
        return self._chance.choice([*known, *known, ("t", "gone")])

    def _key(self, state: State) -> tuple[str, PartitionKey, Partition]:
        names = {topic.topic_id: name for name, topic in state.topics.items()}
        keys = sorted(state.partitions)
        if not keys:
            return "t", ("gone", 0), Partition()
        key = self._chance.choice(keys)
        return names[key[0]], key, state.partitions[key]

    def _stamp(self, state: State) -> ProducerStamp:
        known = [state.producers[one].stamp for one in sorted(state.producers)]
        stamp = self._chance.choice([NO_PRODUCER, *known, *known])
        return (
            stamp
            if stamp == NO_PRODUCER
            else stamp._replace(number=stamp.number + self._chance.choice([0, 0, 1, 1]))
        )

    def _offset(self, state: State) -> a.PartitionOffset:
        name, key, partition = self._key(state)
        places = [partition.start, partition.end, partition.last_stable_offset, a.TO_THE_END, 1]
        return a.PartitionOffset(name, *key, self._chance.choice(places), "")

    def _batch(self, state: State) -> BatchRef:
        _, key, _ = self._key(state)
        count = self._chance.choice([1, 1, 2, 3, 2**31 - 1])
        length = self._chance.choice([0, 1, 100, 2**43])
        times = sorted(self._chance.choice([-1, 0, 1, 10**12]) for _ in range(2))
        return BatchRef(
            key[1], count, 0, length, 7, times[0], times[1], self._chance.choice([-1, -1, -1, 0, 1])
        )

    def _staged(self, state: State) -> StagedFile:
        file = FileRef(f"data/{max(state.seq, 0) + self._chance.choice([0, 1])}-x.arrow", 2**43, 0)
        batches = tuple(self._batch(state) for _ in range(self._chance.choice([0, 1, 1, 2, 3, 9])))
        return StagedFile(self._topic(state)[0], file, batches)

    def _append(self, state: State) -> a.AppendBatches:
        ids = tuple((name, topic.topic_id) for name, topic in sorted(state.topics.items()))
        files = tuple(self._staged(state) for _ in range(self._chance.choice([0, 1, 1, 1, 2])))
        if files and self._chance.random() < 0.1:
            files = (*files, files[0])
        return a.AppendBatches(self._stamp(state), ids, files)

    def _init(self, state: State) -> a.InitProducer:
        run = self._chance.choice([None, None, "r", "s"])
        known = [state.producers[one] for one in sorted(state.producers)]
        if known and self._chance.random() < 0.6:
            one = self._chance.choice(known)
            keeps = self._chance.random() < 0.5
            return a.InitProducer(one.producer_id, one.epoch + 1, one.transactional_id, 1000, run, keeps)
        name = self._chance.choice([None, "a", "b", str(state.next_producer_id)])
        return a.InitProducer(state.next_producer_id, 0, name, 1000, run)

    def _create(self, state: State) -> a.CreateTopic:
        # As everywhere, ids are never given again: two logs of one history would differ else.
        topic_id = f"{self._chance.getrandbits(64):x}"
        return a.CreateTopic(self._chance.choice("tuv"), topic_id, self._chance.randint(1, 3), ())

    def _rewrite(self, state: State) -> a.ReplaceSegments:
        name, key, partition = self._key(state)
        if self._chance.random() < 0.7:
            partition = sealed_to(
                key, partition, self._chance.choice([partition.end, partition.last_stable_offset])
            )
        pages = partition.index.pages
        first = self._chance.randrange(len(pages)) if pages else 0
        chosen = pages[first : first + self._chance.randint(1, 2)]
        low, high = (chosen[0].base_offset, chosen[-1].next_offset) if chosen else (0, 1)
        rows: list[IndexRow] = []
        at = low
        file = FileRef(f"data/{max(state.seq, 0)}-y.arrow", 2**43, 0, (), offsets=True)
        while at < high and len(rows) < 8:
            end = high if len(rows) == 7 else self._chance.choice([at + 1, high])
            stamp, count = self._stamp(state), end - at
            if self._chance.random() < 0.4:
                rows.append(IndexRow(at, count, Kind.HOLE, stamp, 1))
            else:
                batch = BatchRef(key[1], min(count, 2**31 - 1), 0, self._chance.choice([1, 2**43]), 1, 1, 1)
                rows.append(
                    IndexRow(at, count, self._chance.choice([Kind.DATA, Kind.ABORTED]), stamp, 1, file, batch)
                )
            at = end
        replaced = checksum(chosen)
        return a.ReplaceSegments(
            name, *key, low, high, replaced, tuple(rows), self._chance.choice([(), (file.name,)])
        )

    def _publication(self, state: State) -> Publication:
        known = [state.publications[name] for name in sorted(state.publications)]
        return self._chance.choice(known) if known else Publication("p", "delta", Map(), (("t", "gone"),))

    def _create_publication(self, state: State) -> a.CreatePublication:
        topics = tuple(dict([self._topic(state) for _ in range(self._chance.choice([1, 1, 2]))]).items())
        config = self._chance.choice([(), (("retention.ms", "0"),), (("location", "x"),)])
        return a.CreatePublication(
            self._chance.choice("pq"), self._chance.choice(["delta", "iceberg"]), config, topics
        )

    def _fence(self, state: State) -> a.FencePublisher:
        return a.FencePublisher(self._publication(state).name)

    def _begin(self, state: State) -> a.BeginPublish:
        known = self._publication(state)
        ids = {topic_id for _, topic_id in known.topics}
        ranges = []
        for key in sorted(key for key in state.partitions if key[0] in ids):
            partition = state.partitions[key]
            ends = [
                partition.last_stable_offset,
                partition.last_stable_offset,
                partition.end,
                partition.start,
            ]
            start, end = partition.start, self._chance.choice(ends)
            _, pages = pages_of(key, partition, start, end)
            ranges.append(a.PinnedRange(*key, start, end, checksum(pages)))
        entry = max(state.seq - self._chance.choice([0, 0, 1]), 0)
        return a.BeginPublish(known.name, known.epoch, known.sequence + 1, entry, tuple(ranges))

    def _end(self, state: State) -> a.EndPublish:
        known = self._publication(state)
        names = tuple(name for name, _ in known.topics)
        released = self._chance.choice([(), (), names[:1]])
        return a.EndPublish(
            known.name, known.epoch, known.sequence, tuple((name, 1) for name in names), released
        )

    def _drop(self, state: State) -> a.DropPublication:
        known = self._publication(state)
        return a.DropPublication(known.name, self._chance.choice([None, known.epoch]))

    def _micro_batch(self, state: State) -> a.CommitMicroBatch:
        names = sorted(state.transactional_ids) or ["a"]
        name = self._chance.choice(names)
        producer = state.producer_of(name)
        known = state.queries.get(name)
        sources = (
            ()
            if known is None
            else tuple(one._replace(start=one.end, start_offsets=one.end_offsets) for one in known.sources)
        )
        if not sources or self._chance.random() < 0.3:
            sources = tuple(self._source(state) for _ in range(self._chance.choice([0, 1, 2])))
        query = self._chance.choice(["q", "p"]) if known is None else known.query_id
        batch_id = 0 if known is None else known.batch_id + self._chance.choice([0, 1, 1, 1])
        run = (None if producer is None else producer.run_id) or "r"
        flags = (self._chance.random() < 0.3, self._chance.random() < 0.3)
        return a.CommitMicroBatch(name, query, run, batch_id, sources, *flags)

    def _source(self, state: State) -> a.SourceProgress:
        ends = tuple(self._offset(state)._replace(offset=self._chance.randrange(5)) for _ in range(2))
        starts = tuple(one._replace(offset=0) for one in ends)
        name = self._chance.choice([None, "n", "0"])
        return a.SourceProgress("0", "1", self._chance.choice(["g", "k", None]), starts, ends, name)


_MAKERS: dict[Any, Callable[[RandomRequests, State], Any]] = {
    ProducerStamp: RandomRequests._stamp,  # noqa: SLF001
    a.PartitionOffset: RandomRequests._offset,  # noqa: SLF001
    BatchRef: RandomRequests._batch,  # noqa: SLF001
    StagedFile: RandomRequests._staged,  # noqa: SLF001
    a.AppendBatches: RandomRequests._append,  # noqa: SLF001
    a.InitProducer: RandomRequests._init,  # noqa: SLF001
    a.CreateTopic: RandomRequests._create,  # noqa: SLF001
    a.ReplaceSegments: RandomRequests._rewrite,  # noqa: SLF001
    a.CommitMicroBatch: RandomRequests._micro_batch,  # noqa: SLF001
    a.CreatePublication: RandomRequests._create_publication,  # noqa: SLF001
    a.FencePublisher: RandomRequests._fence,  # noqa: SLF001
    a.BeginPublish: RandomRequests._begin,  # noqa: SLF001
    a.EndPublish: RandomRequests._end,  # noqa: SLF001
    a.DropPublication: RandomRequests._drop,  # noqa: SLF001
}


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
