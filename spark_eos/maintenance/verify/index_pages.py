"""Verification of indexes: every sealed page is there, is whole, and holds what is said of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from spark_eos.errors import CorruptRecordError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.commit.tail import Tail
from spark_eos.log.snapshots.derived import create_idempotent
from spark_eos.maintenance.reachability import pins
from spark_eos.maintenance.verify.report import FindingCollector, Verdict
from spark_eos.protocol.encoding.index_pages import decode_page, encode_page
from spark_eos.protocol.index import IndexPage, IndexRow, PageContent
from spark_eos.protocol.publication import Pin
from spark_eos.protocol.state import Partition, PartitionKey, State
from spark_eos.storage import Store


class Mentioned:
    """Names that something refers to, as hashes: 8 bytes for each."""

    def __init__(self) -> None:
        self._hashes = array("Q")
        self._last = ""
        self._sorted: npt.NDArray[np.uint64] | None = None

    def add(self, name: str) -> None:
        """It is referred to; the same one several times in a row takes no more room."""
        if name != self._last:
            self._last = name
            self._sorted = None
            self._hashes.append(_hash(name))

    def __contains__(self, name: str) -> bool:
        """Whether it was added; with a chance of less than one in 10^12 also if it was not."""
        if self._sorted is None:
            self._sorted = np.unique(np.array(self._hashes, np.uint64))
        name_hash = np.uint64(_hash(name))
        at = int(np.searchsorted(self._sorted, name_hash))
        return at < len(self._sorted) and bool(self._sorted[at] == name_hash)


def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


class IndexPageCheck:
    """The pages of one log. ``repair`` writes those again whose rows were replayed from entries."""

    def __init__(self, store: Store, notes: FindingCollector, *, repair: bool) -> None:
        self._store = store
        self._notes = notes
        self._repair = repair
        self._required: frozenset[IndexPage] = frozenset()
        self._reported: set[str] = set()
        self.mentioned = Mentioned()

    def passed(self, state: State) -> None:
        """A boundary: what is stored of what was sealed has to be the same; then it needs no memory."""
        for page in state.sealed_pages():
            self._settle(page)

    def require(self, state: State) -> None:
        """The snapshot of this state is stored: so all of its pages have to be, also those that are in memory."""
        self._required = frozenset(state.sealed_pages())

    def _settle(self, page: IndexPage) -> None:
        """Drop the content of what is stored as it was replayed, from the lowest level on."""
        content = page.content
        if content is None:
            return
        for part in content:
            if isinstance(part, IndexPage):
                self._settle(part)
        if self._is_stored(page, content) and not any(
            isinstance(part, IndexPage) and part.is_held for part in content
        ):
            page.forget()

    def _is_stored(self, page: IndexPage, content: PageContent) -> bool:
        name = paths.page(page)
        try:
            data = self._store.read(name)
        except ObjectNotFoundError:
            return False
        try:
            same = decode_page(data, page, name) == content
            problem = "holds other rows than the entries say"
        except CorruptRecordError as error:
            same, problem = False, str(error)
        if same:
            return True
        if self._repair:
            self._store.delete(name)
            create_idempotent(self._store, name, encode_page(content))
            self._notes.add(Verdict.REPAIRED, name, problem)
            return True
        if name not in self._reported:
            self._reported.add(name)
            self._notes.wrong(name, problem, "verify --repair rewrites it: its entries are still there")
        return False

    # -- All rows of a partition ------------------------------------------------------------------------

    def rows(self, state: State, key: PartitionKey, partition: Partition) -> Iterator[IndexRow]:
        """The rows of a partition; what cannot be read is reported and left out."""
        for page in partition.index.pages:
            yield from self._rows(state, key, page, required=page in self._required)
        yield from partition.index.tail

    def pinned(self, state: State, key: PartitionKey, pin: Pin) -> Iterator[IndexRow]:
        """The rows that a version of a publication pins; what cannot be read is reported and left out."""
        for page in pin.pages:
            for row in self._rows(state, key, page, required=page in self._required):
                if row.next_offset > pin.start and row.base_offset < pin.end:
                    yield row

    def _rows(
        self, state: State, key: PartitionKey, page: IndexPage, *, required: bool
    ) -> Iterator[IndexRow]:
        self._notes.summary.index_pages += 1
        name = paths.page(page)
        self.mentioned.add(name)
        content = page.content
        if content is None:
            content = self._load(state, page, name)
            if content is None:
                return
        elif required:
            self._restore(state, page, content)
        problem = _contradiction(page, content)
        if problem:
            self._notes.wrong(name, problem, "no bytes are damaged: report it as an error of spark_eos")
        for part in content:
            if isinstance(part, IndexPage):
                yield from self._rows(state, key, part, required=required or part in self._required)
            else:
                yield part

    def _restore(self, state: State, page: IndexPage, content: PageContent) -> None:
        """Of what was replayed from entries, and is referred to by a snapshot."""
        name = paths.page(page)
        try:
            self._store.size(name)
        except ObjectNotFoundError:
            if not self.is_needed(state, page):
                return
            if self._repair:
                create_idempotent(self._store, name, encode_page(content))
                self._notes.add(Verdict.REPAIRED, name, "was missing")
            else:
                self._notes.wrong(
                    name, "is missing", "verify --repair rewrites it: its entries are still there"
                )

    def _load(self, state: State, page: IndexPage, name: str) -> PageContent | None:
        try:
            return decode_page(self._store.read(name), page, name)
        except (ObjectNotFoundError, CorruptRecordError) as error:
            if self.is_needed(state, page):
                problem = "is missing" if isinstance(error, ObjectNotFoundError) else str(error)
                self._notes.wrong(
                    name,
                    f"{problem}: offsets {page.base_offset} to {page.next_offset} of partition "
                    f"{page.partition[1]} of topic {_topic(state, page)} cannot be read",
                    "put it back from a copy of the log: the entries it was made from are retired",
                )
            return None

    def is_needed(self, state: State, page: IndexPage) -> bool:
        """Whether the newest state still refers to the page: it may have been rewritten, and removed, meanwhile."""
        newest = newest_of(self._store, state)
        partition = newest.partitions.get(page.partition)
        if partition is None:
            return False
        pinned = (pin.pages for key, pin in pins(newest) if key == page.partition)
        if any(self._is_in(page, pages) for pages in pinned):
            return True
        return partition.start < page.next_offset and self._is_in(page, partition.index.pages)

    def _is_in(self, page: IndexPage, pages: tuple[IndexPage, ...]) -> bool:
        """Whether the page is one of these, or inside of one."""
        while True:
            over = [
                candidate
                for candidate in pages
                if candidate.base_offset <= page.base_offset < candidate.next_offset
            ]
            if not over or over[0].level < page.level:
                return False
            if over[0].level == page.level:
                return over[0] == page
            name = paths.page(over[0])
            try:
                content = over[0].content or decode_page(self._store.read(name), over[0], name)
            except (ObjectNotFoundError, CorruptRecordError):
                return True
            pages = tuple(part for part in content if isinstance(part, IndexPage))


def newest_of(store: Store, state: State) -> State:
    """The state that the log has come to since; the same one if it cannot be read on."""
    try:
        return Tail(store, state).follow()
    except (ObjectNotFoundError, CorruptRecordError):
        return state


def _contradiction(page: IndexPage, content: PageContent) -> str:
    """What is said of the content, and is not so; "" if all is well."""
    rows = size = 0
    newest, at = -(2**63), page.base_offset
    for part in content:
        if part.base_offset != at:
            return f"has a hole at offset {at}"
        at = part.next_offset
        newest = max(newest, part.max_timestamp_ms)
        if isinstance(part, IndexPage):
            rows, size = rows + part.rows, size + part.bytes
        else:
            rows, size = rows + 1, size + (0 if part.batch is None else part.batch.length)
    said = (page.next_offset, page.rows, page.bytes, page.max_timestamp_ms)
    if (at, rows, size, newest) == said:
        return ""
    return (
        f"ends at offset {at} with {rows} rows, {size} bytes and time {newest}, but the log says offset {said[0]}, "
        f"{said[1]} rows, {said[2]} bytes and time {said[3]}"
    )


def _topic(state: State, page: IndexPage) -> str:
    names = (topic.name for topic in state.topics.values() if topic.topic_id == page.partition[0])
    return next(names, page.partition[0])
