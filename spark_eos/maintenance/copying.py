"""A copy of a live log: one state of it, with all that the state refers to.

The order makes it right. First the state is fixed: the newest snapshot and the entries after it. Then what the state
refers to is copied: pages of indexes and data files. What makes the destination a log comes last: the entries, the
snapshot, and entry 0. A destination that is no log yet is an unfinished copy, marked by `MARK`; the same call goes on
with it.

Writers, readers and maintenance may go on meanwhile. A file that a vacuum has removed since is no part of the newest
state any more: then that one is copied, and what is in the destination already is not copied again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    LogExistsError,
    NotALogError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Clock
from spark_eos.log.commit.closing import close_after, is_closed_after, is_closing
from spark_eos.log.log import Log
from spark_eos.log.snapshots.derived import create_idempotent
from spark_eos.log.snapshots.index_store import IndexPageStore
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.maintenance.reachability import page_names, pins
from spark_eos.maintenance.verify.verify import Finding, Summary, verify
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.encoding.snapshots import encode_snapshot
from spark_eos.protocol.rules.apply import apply_entry
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage import NO_SETTINGS, Data, Settings, Store, open_store
from spark_eos.storage.encryption import EncryptedStore, as_stored
from spark_eos.storage.encryption.file import is_stored_size
from spark_eos.storage.probe import probe

__all__ = ["MARK", "Copied", "check_apart", "close_log", "copy_log"]

MARK = "_copy"
"""Lies in a destination until the copy is finished: the id of the log."""

_PART = 16 * 1024 * 1024
"""Bytes of a data file that are held in memory."""

_AT_A_TIME = 8
"""Files under way, where that is requests."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Copied:
    """Which log was copied, and what verification found in the copy."""

    log_id: str
    verified: Summary


@dataclass(frozen=True)
class _Fixed:
    """A state of the log: after its newest snapshot, if there is one, and the entries since, as they are stored."""

    state: State
    base: State | None
    entries: dict[int, pa.Buffer]


def copy_log(
    url: str | os.PathLike[str] | Store,
    destination: str | os.PathLike[str] | Store,
    found: Callable[[Finding], None],
    *,
    quick: bool = False,
    close: bool = False,
    progress: Progress | None = None,
    mark: Mapping[str, object] | None = None,
    settings: Settings = NO_SETTINGS,
    destination_settings: Settings = NO_SETTINGS,
    clock: Clock = SYSTEM,
) -> Copied:
    """Copy the log at ``url`` into the empty ``destination``, and verify the copy (``found``, ``quick`` as there).

    Encrypted files are copied as they are stored, without keys. Keys that either place was opened with are used to
    verify the copy.
    ``close``: the log is moved. It is closed after the entry with which the copy ends (`spark_eos.log.commit.closing`).
    ``mark`` says what is copied: an unfinished copy of something else is not gone on with. None: the log by its id.
    After an error or a kill the same call goes on. Raises `NotALogError` if there is no log at ``url`` or something
    else at ``destination``, `LogExistsError` if that holds a log, `CorruptRecordError` if something is missing in the
    log or in the copy, and what the stores raise.
    """
    given = url if isinstance(url, Store) else open_store(url, settings)
    wanted = destination if isinstance(destination, Store) else open_store(destination, destination_settings)
    source, target = as_stored(given), as_stored(wanted)
    tell = progress or _silent
    check_apart(source, target)
    fixed = _fix(source)
    if wanted is not target and fixed.state.encrypted_at < 0:
        raise ConfigError(
            f"the log {source.url} is not encrypted, and a copy has its files as they are: leave out encryption.keys "
            "of the destination, and give it to the writers of the copy"
        )
    taken = {**(mark or {"log_id": fixed.state.log_id}), **({"close": True} if close else {})}
    if not _take(target, json.dumps(taken).encode()):
        probe(target, clock.unique())
        if not any(target.list(paths.SNAPSHOTS)):  # With a snapshot all but entry 0 is there.
            fixed = _copy_content(source, target, fixed, tell)
            if close:
                close_log(source, clock)
                fixed = _copy_content(source, target, _fix(source), tell)
            _make_a_log(target, fixed)
        _create(target, paths.entry(0), source.read(paths.entry(0)))
    keys = next((one for one in (wanted, given) if isinstance(one, EncryptedStore)), None)
    checked = target if keys is None else EncryptedStore(target, keys.keys, keys.encryption_key_id)
    summary = verify(checked, found, quick=quick, progress=progress)
    if not summary.is_sound:
        if not _is_there(target, MARK):
            _check_unfinished(target)
        raise CorruptRecordError(
            f"the copy {target.url} is not sound. Run eoslog verify on the log {source.url}; if that is sound, delete "
            "the copy and copy again"
        )
    target.delete(MARK)
    return Copied(fixed.state.log_id, summary)


# -- The destination --------------------------------------------------------------------------------------


def check_apart(source: Store, target: Store, what: str = "copy") -> None:
    """Raise `ConfigError` if one of the places lies in the other; ``what`` is to be at ``target``."""
    inner, outer = f"{target.url.rstrip('/')}/", f"{source.url.rstrip('/')}/"
    if inner.startswith(outer) or outer.startswith(inner):
        raise ConfigError(
            f"the {what} {target.url} and the log {source.url} lie in one another: choose a folder or prefix beside it"
        )


def _take(target: Store, mark: bytes) -> bool:
    """See that the destination is empty and mark it, or that it is an unfinished copy of the same.

    Returns whether it is a log already, which was not verified to its end.
    """
    try:
        marked = target.read(MARK).to_pybytes()
    except ObjectNotFoundError:
        if _is_there(target, paths.entry(0)) or any(target.list(paths.SNAPSHOTS)):
            raise LogExistsError(
                f"{target.url} holds a log already: copy into an empty folder or prefix"
            ) from None
        other = next((info.name for info in target.list("")), None)
        if other is not None:
            raise NotALogError(
                f"{target.url} is not empty (it holds {other!r}): copy into an empty folder or prefix"
            ) from None
        _create(target, MARK, mark)
        return False
    if marked != mark:
        raise LogExistsError(
            f"{target.url} holds an unfinished copy of another log, or of another backup or entry, or one that was "
            f"begun with or without --close ({marked.decode(errors='replace')}): copy into an empty folder or prefix, "
            "or go on as it was begun"
        )
    return _is_there(target, paths.entry(0))


def _make_a_log(target: Store, fixed: _Fixed) -> None:
    """All but entry 0. Without a snapshot and entry 0 the entries are not taken for a log."""
    per_folder = fixed.state.entries_per_folder
    for name in _of_an_earlier_try(target, fixed):
        _check_unfinished(target)
        target.delete(name)
    for seq, data in fixed.entries.items():
        if seq:
            _check_unfinished(target)
            _create(target, paths.entry(seq, per_folder), data)
    if fixed.base is not None:
        _check_unfinished(target)
        # All who write a snapshot write the same bytes. The log may have dropped this one meanwhile.
        _create(target, paths.snapshot(fixed.base.seq), encode_snapshot(fixed.base))


def _of_an_earlier_try(target: Store, fixed: _Fixed) -> list[str]:
    """Entries that do not reach up to the snapshot. Raises `LogExistsError` for what no earlier try has written."""
    per_folder = fixed.state.entries_per_folder
    first = -1 if fixed.base is None else fixed.base.seq
    there, others = {}, []
    for info in target.list(paths.LOG):
        digits = info.name.rpartition("/")[2].removesuffix(".avro")
        seq = int(digits) if digits.isascii() and digits.isdigit() else 0
        is_entry = seq > 0 and info.name == paths.entry(seq, per_folder)
        if is_entry and seq <= first:
            there[seq] = info.name
        elif not (is_entry and seq in fixed.entries) and not info.name.startswith(paths.INDEX):
            others.append(info.name)
    _check_unfinished(target, *others)
    while there.pop(first, None) is not None:  # These reach up to it.
        first -= 1
    return [*there.values()]


def _check_unfinished(target: Store, *others: str) -> None:
    """Raise `LogExistsError` if another process has finished the same copy: the log there may be in use by now."""
    if others or _is_there(target, paths.entry(0)):
        raise LogExistsError(
            f"{target.url} holds {min(others, default=paths.entry(0))!r}: another process has made a log there, while "
            "this one made the same copy. Use that log if that process has ended well; else copy into an empty folder "
            "or prefix"
        )


def _create(target: Store, name: str, data: Data) -> None:
    """Have ``name`` hold ``data``, from now or from an earlier try."""
    try:
        target.create(name, data)
    except ObjectExistsError:
        create_idempotent(target, name, data)  # A store may refuse a free name.
        if bytes(target.read(name)) != bytes(data):
            raise LogExistsError(
                f"{target.url}/{name} was written by another process while the log was copied: delete the copy and "
                "copy again, into a place of its own"
            ) from None


def _is_there(store: Store, name: str) -> bool:
    try:
        store.size(name)
    except ObjectNotFoundError:
        return False
    return True


# -- The log ----------------------------------------------------------------------------------------------


def _fix(source: Store) -> _Fixed:
    """The newest state, and what leads to it. Raises `NotALogError`."""
    if not _is_there(source, paths.entry(0)):
        raise NotALogError(f"{source.url} is not a log: it has no {paths.entry(0)}. Check the path")
    while True:
        base = newest_snapshot(source)
        state = base or EMPTY
        entries: dict[int, pa.Buffer] = {}
        if base is not None:
            # What the snapshot stands for is needed no more, but it shows whose snapshot that is.
            with suppress(ObjectNotFoundError):
                data = source.read(paths.entry(base.seq, base.entries_per_folder))
                entries.update({base.seq: data} if data.size else {})
        while (data := _entry(source, state)) is not None and data.size and not is_closing(data):
            seq = state.seq + 1
            entries[seq] = data
            state, _ = apply_entry(state, decode_entry(data, seq, f"{source.url}/{paths.entry(seq)}"))
        # Entries that a snapshot stands for are retired, and their names deleted in the end.
        newer = newest_snapshot(source)
        if newer is None or newer.seq <= state.seq:
            if data is None or data.size:
                source.ensure_durable(paths.entry(state.seq, state.entries_per_folder))
                return _Fixed(state, base, entries)
            raise CorruptRecordError(
                f"entry {state.seq + 1} of {source.url} is retired, but no snapshot stands for it: run eoslog verify"
            )


def close_log(source: Store, clock: Clock = SYSTEM) -> None:
    """Close the log at its end. Writers compete for the next slot, and one of them may be quicker a few times.

    Only a look after the create says that the log is closed: while this process slept, the slot may have got an entry,
    and that may have been retired.
    """
    log = Log(source, clock)
    while True:
        try:
            state = log.follow()
        except NotALogError:
            if is_closed_after(source, log.state):
                return
            raise
        close_after(source, state)


def _entry(source: Store, state: State) -> pa.Buffer | None:
    try:
        return source.read(paths.entry(state.seq + 1, state.entries_per_folder))
    except ObjectNotFoundError:
        return None


def _data_sizes(state: State, pages: IndexPageStore) -> dict[str, int]:
    """The data files that readers of the state may be sent to, with their sizes."""
    rows = chain(
        *(one.index.scan(one.start, pages.load) for one in state.partitions.values()),
        *(pin.rows(pages.load) for _, pin in pins(state)),
    )
    return {row.file.name: row.file.size for row in rows if row.file is not None}


def _copy_content(source: Store, target: Store, fixed: _Fixed, tell: Progress) -> _Fixed:
    """Copy what the state refers to, or a newer one does, where parts have been removed since; the state it was."""
    while True:
        try:
            pages = IndexPageStore(source)
            for name in page_names(fixed.base, pages.load) if fixed.base is not None else ():
                tell("indexes", 0, 0)
                _copy(source, target, name, None)
            sizes = _data_sizes(fixed.state, pages)
            for number, _ in enumerate(_in_parallel(source, target, sizes), 1):
                tell("data files", number, len(sizes))
        except ObjectNotFoundError as error:
            newer = _fix(source)
            if newer.state.log_id != fixed.state.log_id:
                raise NotALogError(
                    f"{source.url} does not hold log {fixed.state.log_id} any more: it was replaced"
                ) from error
            if newer.state.seq == fixed.state.seq:
                raise CorruptRecordError(
                    f"{error}: the log refers to it. The log itself is damaged: run eoslog verify {source.url}"
                ) from error
            fixed = newer
        else:
            return fixed


def _in_parallel(source: Store, target: Store, sizes: dict[str, int]) -> Iterator[None]:
    threads = 1 if source.requests_are_free and target.requests_are_free else _AT_A_TIME
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(_copy, source, target, name, size) for name, size in sizes.items()]
        try:
            for one in waiting:
                yield one.result()
        finally:
            for one in waiting:
                one.cancel()


def _copy(source: Store, target: Store, name: str, size: int | None) -> None:
    """Copy an object, unless it is there: objects that were copied before never change."""
    known = source.size(name)
    if size is not None and known != size and not is_stored_size(source, name, size, known):
        raise CorruptRecordError(
            f"{source.url}/{name} has {known} bytes, not {size}: the log itself is damaged, run eoslog verify "
            f"{source.url}"
        )
    if _is_there(target, name):
        return
    if known <= _PART:
        _create(target, name, source.read(name))
        return
    with target.upload(name) as out:
        for offset in range(0, known, _PART):
            out.write(source.read(name, offset, _PART))


def _silent(_what: str, _done: int, _of: int) -> None:
    """Drop it."""
