"""Verification of data files: what the index refers to is there, as long as it was, with the same bytes."""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain

from spark_eos.errors import (
    CorruptRecordError,
    EosLogError,
    InvalidRequestError,
    ObjectNotFoundError,
    StorePermissionError,
)
from spark_eos.errors.counting import counted
from spark_eos.log import paths
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.parquet.reader import check_group
from spark_eos.log.data.reader import read_batch
from spark_eos.log.data_place import data_place
from spark_eos.log.snapshots.index_store import IndexPageStore
from spark_eos.log.topics import layout_of
from spark_eos.maintenance.reachability import pins
from spark_eos.maintenance.verify.index_pages import IndexPageCheck, Mentioned, newest_of
from spark_eos.maintenance.verify.report import FindingCollector, Verdict
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.publication import Pin
from spark_eos.protocol.state import PartitionKey, State, Topic
from spark_eos.storage import Store
from spark_eos.storage.encrypted_files import stored_size

_REMEMBERED = 10_000
"""Files whose size is asked for once, though many rows refer to them."""

_FROM_A_COPY = "put the file back from a copy; readers of these offsets fail until then"


class DataCheck:
    """The data files of one state. ``quick``: whether they are there and as long as they should be, no more."""

    def __init__(self, store: Store, pages: IndexPageCheck, notes: FindingCollector, *, quick: bool) -> None:
        self._store = store
        self._pages = pages
        self._notes = notes
        self._quick = quick
        self._files: OrderedDict[str, str] = OrderedDict()
        self._mentioned = Mentioned()
        self._total = 0
        self._missing: dict[str, int] = {}
        """Of the topics that miss data files: where the oldest of these was begun."""
        self._newest: dict[str, int] = {}
        """Where the newest file of a topic was begun of those that are there."""
        self._lost = 0
        self._encrypted_at = -1
        self._encrypted: set[str] = set()
        """Files of an encrypted log, for a process without keys: only whether they are there, and how long, is seen."""
        self._refused: set[str] = set()
        """Files that this process may not read, or has not the key of."""

    def check(self, state: State) -> None:
        """Look at everything that the state refers to, and count what it does not."""
        self._encrypted_at = state.encrypted_at
        indexes = [partition.index for partition in state.partitions.values()]
        self._total = sum(sum(page.rows for page in index.pages) + len(index.tail) for index in indexes)
        for name, topic in sorted(state.topics.items()):
            for number in range(topic.partitions):
                self._partition(state, topic, (topic.topic_id, number), f"{name}-{number}")
        pinned: dict[PartitionKey, list[Pin]] = {}
        for key, pin in pins(state):
            pinned.setdefault(key, []).append(pin)
        for key, of in sorted(pinned.items()):
            pages = tuple(dict.fromkeys(page for pin in of for page in pin.pages))
            whole = Pin(min(pin.start for pin in of), max(pin.end for pin in of), pages)
            self._pinned(state, key, whole)
        self._notes.summary.unread_files = len(self._encrypted | self._refused)
        if self._encrypted:
            self._notes.add(
                Verdict.NOTE,
                paths.DATA,
                f"the content of {counted(len(self._encrypted), 'encrypted data file')} was not read",
                "give the settings encryption.keys and encryption.key.id (--command-config) to read it, too",
            )
        self._explain()
        self._offsets(state)
        self._unreferenced(state)

    def _partition(self, state: State, topic: Topic, key: PartitionKey, label: str) -> None:
        summary = self._notes.summary
        summary.partitions += 1
        partition = state.partitions[key]
        for row in self._pages.rows(state, key, partition):
            summary.batches += 1
            self._notes.at("batches", summary.batches, self._total)
            # What lies before the start is never read, and its files may be gone.
            if row.file is None or row.batch is None or row.next_offset <= partition.start:
                continue
            if row.kind is Kind.DATA:
                summary.records += row.batch.count
            context = f"{label}, {_offsets(row)}"
            self._mentioned.add(row.file.name)
            problem = self._problem(state, row, topic, context)
            if problem and self._is_needed(state, key, row):
                self._tell(row.file.name, problem, context)
                self._note_missing(row.file.name, problem)
            elif not self._files[row.file.name]:
                self._note_present(row.file.name)

    def _pinned(self, state: State, key: PartitionKey, pin: Pin) -> None:
        """What published tables have. Most of it is in the partition's own index, and was checked there."""
        partition = state.partitions[key]
        checked = {page for page in partition.index.pages if page.base_offset >= partition.start}
        topic = next(topic for topic in state.topics.values() if topic.topic_id == key[0])
        pin = pin._replace(pages=tuple(page for page in pin.pages if page not in checked))
        for row in self._pages.pinned(state, key, pin):
            if row.file is None or row.batch is None:
                continue
            context = f"{topic.name}-{key[1]}, {_offsets(row)}, in a published table"
            self._mentioned.add(row.file.name)
            problem = self._problem(state, row, topic, context)
            if problem and self._is_pinned(state, key, row):
                self._tell(row.file.name, problem, context)

    def _tell(self, name: str, problem: str, context: str) -> None:
        text = problem if context in problem else f"{problem} ({context})"
        if name in self._refused:
            self._notes.unread(name, text)
        else:
            self._notes.wrong(name, text, _FROM_A_COPY)

    def _is_pinned(self, state: State, key: PartitionKey, row: IndexRow) -> bool:
        """Whether a version in the newest state still has the rows there."""
        load = IndexPageStore(self._store).load
        try:
            return any(
                pinned_row.file == row.file
                for pinned_key, pin in pins(newest_of(self._store, state))
                if pinned_key == key
                for pinned_row in pin.rows(load)
            )
        except (ObjectNotFoundError, CorruptRecordError):
            return True

    def _note_missing(self, name: str, problem: str) -> None:
        if problem == "is missing":
            topic, begun = name.rpartition("/")[0], staged_at(name)
            self._missing[topic] = min(self._missing.get(topic, begun), begun)
            self._lost += 1

    def _note_present(self, name: str) -> None:
        topic = name.rpartition("/")[0]
        self._newest[topic] = max(self._newest.get(topic, 0), staged_at(name))

    def _explain(self) -> None:
        """Say what came before what is missing: of each topic the newest files, so the data is older than the log."""
        if not self._missing or any(
            begun < self._newest.get(topic, 0) for topic, begun in self._missing.items()
        ):
            return
        if not self._newest:
            if self._lost == 1:
                return  # The only file of the log: that says nothing.
            self._notes.add(
                Verdict.NOTE,
                paths.DATA,
                "none of the data files that entries refer to is here: data/ was not copied with the log",
                "copy it from the log, or copy the log again with: eoslog copy LOG DESTINATION",
            )
            return
        self._notes.add(
            Verdict.NOTE,
            paths.DATA,
            f"{self._lost} data files that entries refer to are missing, the newest ones of their topics: this looks "
            "like a copy of a log whose data/ was copied before its _log/, while the log was written to",
            "if the log itself is still there, copy its data/ again over this one (files never change), or copy the "
            "log again with: eoslog copy LOG DESTINATION. Otherwise the records in these files are lost",
        )

    def _problem(self, state: State, row: IndexRow, topic: Topic, context: str) -> str:
        problem = self._file(row) or self._batch(row, topic, context)
        if problem == "is missing":
            store = data_place(newest_of(self._store, state)).of(self._store)
            if store is not self._store:  # The data was moved since.
                self._store = store
                self._files.clear()
                problem = self._file(row) or self._batch(row, topic, context)
        return problem

    def _file(self, row: IndexRow) -> str:
        """What is the matter with the file as a whole; told once, for the first row that refers to it."""
        assert row.file is not None
        name = row.file.name
        if name in self._files:
            self._files.move_to_end(name)
            return ""
        problem = ""
        try:
            size, expected = self._store.size(name), row.file.size
            if self._encrypted_at >= 0:
                expected = self._expected_size(name, expected)
            if size != expected:
                problem = f"has {size} bytes, not {expected}"
        except ObjectNotFoundError:
            problem = "is missing"
        except CorruptRecordError as error:
            problem = _without_place(error, name)
        except StorePermissionError as error:
            self._refused.add(name)
            problem = _without_place(error, name)
        self._files[name] = problem
        if len(self._files) > _REMEMBERED:
            self._files.popitem(last=False)
        return problem

    def _expected_size(self, name: str, size: int) -> int:
        """The size of a file of an encrypted log, as this store tells sizes. A plain one that is new is a finding."""
        if self._store.key_of(name) is None:
            if staged_at(name) > self._encrypted_at:
                self._plain(name)
        elif self._store.encryption_key_id is None:
            self._encrypted.add(name)
            return stored_size(size)
        return size

    def _plain(self, name: str) -> None:
        self._notes.wrong(
            name,
            f"is not encrypted, and was begun after entry {self._encrypted_at}, since which the files of this log are",
            "find the process that writes without encryption.keys; vacuum removes files that no entry refers to, and "
            "deletion of their records those that an entry refers to",
        )

    def _batch(self, row: IndexRow, topic: Topic, context: str) -> str:
        assert row.file is not None
        assert row.batch is not None
        name = row.file.name
        if (
            self._quick
            or name in self._encrypted
            or name in self._refused
            or self._files[name] == "is missing"
        ):
            return ""
        try:
            layout = layout_of(topic, row.file.schema_version)
            table = read_batch(self._store, row.file, row.batch, layout, context=context)
            problem = self._places(row, layout) if row.file.is_parquet else ""
        except ObjectNotFoundError:
            return "is missing"
        except CorruptRecordError as error:
            return _without_place(error, name)
        except StorePermissionError as error:
            self._refused.add(name)
            return _without_place(error, name)
        if row.file.offsets and not row.file.is_parquet:
            offsets = len(table) + sum(table.column(0).to_pylist())
            if offsets > row.count:
                return f"its rows take {offsets} offsets, and there are {row.count}"
        return problem

    def _places(self, row: IndexRow, layout: Layout) -> str:
        """What a Parquet file tells other programs that the index does not: they do not look there."""
        assert row.file is not None
        assert row.batch is not None
        offsets = range(row.base_offset, row.next_offset)
        return check_group(self._store, row.file, row.batch, layout, offsets)

    def _is_needed(self, state: State, key: PartitionKey, row: IndexRow) -> bool:
        """Whether the newest state still refers to the rows there: files go that were dropped or rewritten."""
        newest = newest_of(self._store, state)
        partition = newest.partitions.get(key)
        if partition is None or partition.start >= row.next_offset:
            return False
        try:
            newest_row = partition.index.find(row.base_offset, IndexPageStore(self._store).load)
        except (ObjectNotFoundError, CorruptRecordError):
            return True
        return newest_row is not None and newest_row.file == row.file

    def _offsets(self, state: State) -> None:
        for group, offsets in sorted(state.offsets.items()):
            for (topic, number), at in sorted(offsets.items()):
                end = state.partitions[at.topic_id, number].end
                if at.offset > end:
                    self._notes.add(
                        Verdict.NOTE,
                        f"group {group}",
                        f"has committed offset {at.offset} for {topic}-{number}, which ends at {end}",
                    )

    def _unreferenced(self, state: State) -> None:
        summary = self._notes.summary
        after: dict[int, int] = {}
        segments = (info for info in self._store.list(paths.TABLES) if paths.is_segment(info.name))
        for number, info in enumerate(chain(self._store.list(paths.DATA), segments)):
            self._notes.at("data files", number, number)
            if info.name in self._mentioned:
                summary.files += 1
                summary.bytes += info.size
            else:
                begun = _begun(info.name)
                if begun > self._encrypted_at >= 0 and self._is_plain(info.name):
                    self._plain(info.name)
                if begun <= state.seq + 1:
                    summary.unreferenced_files += 1
                    summary.unreferenced_bytes += info.size
                if begun > state.seq:
                    after[begun] = after.get(begun, 0) + 1
        for info in self._store.list(paths.INDEX):
            summary.unreferenced_index_pages += info.name not in self._pages.mentioned
        # Where an entry could not be applied, it is named; what came after it says nothing more.
        if after and state.seq == summary.last_entry:
            self._begun_after_the_end(state, after)

    def _is_plain(self, name: str) -> bool:
        try:
            return self._store.key_of(name) is None
        except ObjectNotFoundError:  # Vacuum was there.
            return False
        except StorePermissionError as error:
            self._notes.unread(name, _without_place(error, name))
            return False

    def _begun_after_the_end(self, state: State, after: dict[int, int]) -> None:
        """Files that no entry refers to, by where the log was for their writers: at its end, or further on."""
        seq = newest_of(self._store, state).seq
        name = paths.entry(seq, state.entries_per_folder)
        last = max(after)
        if last > seq + 1:
            count = sum(files for begun, files in after.items() if begun > seq + 1)
            self._notes.add(
                Verdict.NOTE,
                name,
                f"is the last entry, but {count} data files were begun when the log had entry {last - 1}: the entries "
                f"from {seq + 1} to {last - 1} are missing, and with them what they said of these files",
                "put the entries back from a copy of the log before anything is written to it",
            )
        elif seq == state.seq:
            self._notes.add(
                Verdict.NOTE,
                name,
                f"is the last entry; {after[last]} data files were begun after it, and no entry refers to them: they "
                "are being written, or were given up, or the last entries are missing",
            )


def _without_place(error: EosLogError, name: str) -> str:
    """What it says without the file and the remedy, which stand in the finding anyway."""
    message = str(error).removeprefix("encrypted ").removeprefix(f"file {name!r}").lstrip(",: ")
    return message.partition("; the storage does not hold")[0].removesuffix(
        "; restore the file from a backup"
    )


def _begun(name: str) -> int:
    """The entry that its writer took for the next one; -1 for what is no data file of a log."""
    try:
        return staged_at(name)
    except InvalidRequestError:
        return -1


def _offsets(row: IndexRow) -> str:
    last = row.next_offset - 1
    return f"offset {last}" if last == row.base_offset else f"offsets {row.base_offset} to {last}"
