"""A copy of a live log: one state of it, with all that the state refers to.

The order makes it right. First the state is fixed: the newest snapshot and the entries after it. Then what the state
refers to is copied: pages of indexes and data files. What makes the destination a log comes last: the entries, the
snapshot, and entry 0, as `PLAN` says from then on. A destination that is no log yet is an unfinished copy, marked by
`MARK`; the same call goes on with it. Several processes that make the same copy make it by one plan.

The log may be used meanwhile. What a vacuum has removed is no part of the newest state: then that one is copied.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    LogExistsError,
    NotALogError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorePermissionError,
)
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Clock
from spark_eos.log.commit.closing import close_after, is_closed_after, is_closing
from spark_eos.log.data_place import check_apart, data_place, place_of_copy, placing_entry
from spark_eos.log.environment import PROCESS, Environment
from spark_eos.log.handle.unfinished import not_a_log
from spark_eos.log.log import Log
from spark_eos.log.snapshots.derived import create_idempotent, idempotent_upload
from spark_eos.log.snapshots.index_store import IndexPageStore
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.maintenance.reachability import data_sizes, page_names
from spark_eos.maintenance.verify.verify import Finding, Summary, Verdict, verify
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.encoding.snapshots import encode_snapshot
from spark_eos.protocol.rules.apply import apply_entry
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage import NO_SETTINGS, Data, Settings, Store, open_store
from spark_eos.storage.encrypted_files import EncryptingStore, as_stored, is_stored_size
from spark_eos.storage.probe import is_there, probe
from spark_eos.storage.two_stores import check_claim, check_unclaimed

MARK = paths.COPY
"""Lies in a destination until the copy is finished: the id of the log."""

PLAN = "_copy-plan"
"""Lies there once all content does: what is still to be created, in this order, for the place to be that log."""

_PART = 16 * 1024 * 1024
"""Bytes of a data file that are held in memory."""

_AT_A_TIME = 8
"""Files under way, where that is requests."""

Progress = Callable[[str, int, int], None]

Plan: TypeAlias = "list[tuple[str, pa.Buffer]]"
"""Names, and what they are to hold."""


@dataclass(frozen=True)
class Copied:
    """Which log was copied, and what verification found in the copy."""

    log_id: str
    verified: Summary


@dataclass(frozen=True)
class _Fixed:
    """A state of the log: after its newest snapshot, if there is one, and the entries since, as they are stored."""

    first: pa.Buffer
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
    environment: Environment = PROCESS,
) -> Copied:
    """Copy the log at ``url`` into the empty ``destination``, and verify the copy (``found``, ``quick`` as there).

    Encrypted files are copied as they are stored, without keys. Those of either place are used to verify the copy.
    ``close``: the log is moved. It is closed after the entry with which the copy ends (`spark_eos.log.commit.closing`).
    ``mark`` says what is copied: an unfinished copy of something else is not gone on with. None: the log by its id.
    ``data.url`` of the destination's settings says where the copy has its data files: if elsewhere than the log, in one
    entry more. After an error or a kill the same call goes on. Raises `NotALogError` if there is no log at ``url`` or
    something else at ``destination``, `LogExistsError` if that holds a log, `CorruptRecordError` if something is
    missing in the log or in the copy, and what the stores raise.
    """
    original = url if isinstance(url, Store) else open_store(url, settings)
    copy = destination if isinstance(destination, Store) else open_store(destination, destination_settings)
    place = place_of_copy(copy)
    source, target = as_stored(original), as_stored(copy).with_data(place)
    tell = progress or (lambda *_: None)
    check_apart(source, target)
    fixed = _fix(source)
    check_apart(data_place(fixed.state).of(source), target)
    if copy.encryption_key_id is not None and fixed.state.encrypted_at < 0:
        raise ConfigError(
            f"the log {source.url} is not encrypted, and a copy has its files as they are: leave out encryption.keys "
            "of the destination, and give it to the writers of the copy"
        )
    taken = {**(mark or {"log_id": fixed.state.log_id}), **({"close": True} if close else {})}
    taken |= {"data": place} if place else {}
    check_unclaimed(target, place, fixed.state.log_id)
    if not _take(target, json.dumps(taken).encode(), fixed.first):
        probe(target, clock.unique())
        check_claim(target, place, fixed.state.log_id)
        plan = _planned(target)
        if plan is None:
            fixed = _copy_content(source, target, fixed, tell)
            if close:
                close_log(source, clock, environment)
                fixed = _copy_content(source, target, _fix(source), tell)
            plan = _agree(target, fixed, place, clock)
        _make_a_log(target, plan)
    keys = next((store for store in (copy, original) if isinstance(store, EncryptingStore)), None)
    summary = verify(target if keys is None else keys.around(target), found, quick=quick, progress=progress)
    if summary.found[Verdict.UNREAD] and not summary.found[Verdict.WRONG]:
        raise StorePermissionError(
            f"all is copied to {target.url}, and not all could be read to check it, see above: give what is missing "
            "(keys in encryption.keys, or the right to read) and begin again; what is copied already is taken"
        )
    if not summary.is_sound:
        if not is_there(target, MARK):
            _check_unfinished(target)
        raise CorruptRecordError(
            f"the copy {target.url} is not sound. Run eoslog verify on the log {source.url}; if that is sound, delete "
            "the copy and copy again"
        )
    target.delete(PLAN)
    target.delete(MARK)
    return Copied(fixed.state.log_id, summary)


# -- The destination --------------------------------------------------------------------------------------


def _take(target: Store, mark: bytes, first: pa.Buffer) -> bool:
    """See that the destination is empty and mark it, or that it is an unfinished copy of the same.

    Returns whether it is the log already (``first`` is its first entry), which was not verified to its end.
    """
    marked = _read(target, MARK)
    if marked is None:
        holds_a_log = LogExistsError(f"{target.url} holds a log already: copy into an empty folder or prefix")
        if is_there(target, paths.entry(0)) or any(target.list(paths.SNAPSHOTS)):
            raise holds_a_log
        other = next((info.name for info in target.list("")), None)
        if other is not None:
            raise NotALogError(
                f"{target.url} is not empty (it holds {other!r}): copy into an empty folder or prefix"
            )
        if _created(target, MARK, mark):
            if is_there(target, paths.entry(0)):
                target.delete(MARK)  # The log was made, and finished, while this process slept.
                raise holds_a_log
            return False
        marked = target.read(MARK)
    if bytes(marked) != mark:
        raise LogExistsError(
            f"{target.url} holds an unfinished copy of another log, or of another backup or entry, or one that was "
            f"begun with or without --close ({bytes(marked).decode(errors='replace')}): copy into an empty folder or "
            "prefix, or go on as it was begun"
        )
    made = _read(target, paths.entry(0))
    if made is not None and made != first:
        raise LogExistsError(
            f"{target.url} holds another log, which was created while the copy was made: copy into an empty folder or "
            "prefix"
        )
    return made is not None


def _agree(target: Store, fixed: _Fixed, place: str, clock: Clock) -> Plan:
    """The plan of this process, or that of another one that makes the same copy: whose is there first.

    All content that a plan needs is in the destination before the plan is. A process that slept between a look and a
    create then creates what is there already, and not an entry or a snapshot behind the end of a log in use.
    """
    per_folder = fixed.state.entries_per_folder
    plan = [(paths.entry(seq, per_folder), data) for seq, data in sorted(fixed.entries.items()) if seq]
    plan += placing_entry(fixed.state, place, clock)
    if fixed.base is not None:
        # All who write a snapshot write the same bytes. The log may have dropped this one meanwhile.
        plan.append((paths.snapshot(fixed.base.seq), pa.py_buffer(encode_snapshot(fixed.base))))
    plan.append((paths.entry(0), fixed.first))
    head = json.dumps([[name, data.size] for name, data in plan]).encode()
    if _created(target, PLAN, b"\n".join((head, b"".join(map(bytes, (data for _, data in plan)))))):
        # Plans are deleted when there is a first entry, so one that is created later is too late.
        if is_there(target, paths.entry(0)):
            target.delete(PLAN)
        return plan
    return _planned(target) or plan


def _planned(target: Store) -> Plan | None:
    """The plan that is there."""
    data = _read(target, PLAN)
    if data is None:
        return None
    at = bytes(data).index(b"\n") + 1
    plan = []
    for name, size in json.loads(bytes(data[: at - 1])):
        plan.append((name, data.slice(at, size)))
        at += size
    return plan


def _make_a_log(target: Store, plan: Plan) -> None:
    """Entry 0 comes last: without it and a snapshot the entries are not taken for a log.

    With the snapshot they are, though a process may have stopped before entry 0. All of the plan that comes before the
    snapshot was there then, and belongs to a log that is in use: it is left as it is.
    """
    names = [name for name, _ in plan]
    existing = [info.name for info in target.list(paths.LOG) if not info.name.startswith(paths.INDEX)]
    snapshot = next((at for at, name in enumerate(names) if name.startswith(paths.SNAPSHOTS)), None)
    if snapshot is not None and any(name.startswith(paths.SNAPSHOTS) for name in existing):
        _check_unfinished(target)
        plan = plan[snapshot + 1 :]
    else:
        _check_unfinished(target, *(name for name in existing if name not in names))
    for name, data in plan:
        _create(target, name, data)


def _check_unfinished(target: Store, *unexpected: str) -> None:
    """Raise `LogExistsError` if another process has finished the same copy: the log there may be in use by now."""
    if unexpected or is_there(target, paths.entry(0)):
        raise LogExistsError(
            f"{target.url} holds {min(unexpected, default=paths.entry(0))!r}: another process has made a log there, "
            "while this one made the same copy. Use that log if that process has ended well; else copy into an empty "
            "folder or prefix"
        )


def _created(target: Store, name: str, data: Data) -> bool:
    """Create an object; False if there is one."""
    try:
        target.create(name, data)
    except ObjectExistsError:
        create_idempotent(target, name, data)  # A store may refuse a free name.
        return False
    return True


def _create(target: Store, name: str, data: Data) -> None:
    """Have ``name`` hold ``data``, from now or from an earlier try."""
    if not _created(target, name, data) and bytes(target.read(name)) != bytes(data):
        _check_unfinished(target)
        raise LogExistsError(
            f"{target.url}/{name} was written by another process while the log was copied: delete the copy and copy "
            "again, into a place of its own"
        )


def _read(store: Store, name: str) -> pa.Buffer | None:
    try:
        return store.read(name)
    except ObjectNotFoundError:
        return None


# -- The log ----------------------------------------------------------------------------------------------


def _fix(source: Store) -> _Fixed:
    """The newest state, and what leads to it. Raises `NotALogError`."""
    first = _read(source, paths.entry(0))
    if first is None:
        raise not_a_log(source)
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
                return _Fixed(first, state, base, entries)
            raise CorruptRecordError(
                f"entry {state.seq + 1} of {source.url} is retired, but no snapshot stands for it: run eoslog verify"
            )


def close_log(source: Store, clock: Clock = SYSTEM, environment: Environment = PROCESS) -> None:
    """Close the log at its end. Writers compete for the next slot, and one of them may be quicker a few times.

    Only a look after the create says that the log is closed: while this process slept, the slot may have got an entry,
    and that may have been retired.
    """
    log = Log(source, clock, environment=environment)
    while True:
        try:
            state = log.follow()
        except NotALogError:
            if is_closed_after(source, log.state):
                return
            raise
        close_after(source, state)


def _entry(source: Store, state: State) -> pa.Buffer | None:
    return _read(source, paths.entry(state.seq + 1, state.entries_per_folder))


def _copy_content(source: Store, target: Store, fixed: _Fixed, tell: Progress) -> _Fixed:
    """Copy what the state refers to, or a newer one does, where parts have been removed since; the state it was."""
    missed: set[str] = set()
    while True:
        source = data_place(fixed.state).of(source)  # The data may be moved meanwhile.
        try:
            pages = IndexPageStore(source)
            for name in page_names(fixed.base, pages.load) if fixed.base is not None else ():
                tell("indexes", 0, 0)
                _copy(source, target, name, None)
            sizes = data_sizes(fixed.state, pages.load)
            for number, _ in enumerate(_in_parallel(source, target, sizes), 1):
                tell("data files", number, len(sizes))
        except ObjectNotFoundError as error:
            newer = _fix(source)
            if newer.state.log_id != fixed.state.log_id:
                raise NotALogError(
                    f"{source.url} does not hold log {fixed.state.log_id} any more: it was replaced"
                ) from error
            if newer.state.seq == fixed.state.seq or str(error) in missed:
                raise CorruptRecordError(
                    f"{error}: the log refers to it. The log itself is damaged: run eoslog verify {source.url}"
                ) from error
            missed.add(str(error))  # A newer state refers to it no more, unless the log is damaged.
            fixed = newer
        else:
            return fixed


def _in_parallel(source: Store, target: Store, sizes: dict[str, int]) -> Iterator[None]:
    threads = 1 if source.requests_are_free and target.requests_are_free else _AT_A_TIME
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(_copy, source, target, name, size) for name, size in sizes.items()]
        try:
            for future in waiting:
                yield future.result()
        finally:
            for future in waiting:
                future.cancel()


def _copy(source: Store, target: Store, name: str, size: int | None) -> None:
    """Copy an object, unless it is there: objects that were copied before never change."""
    actual_size = source.size(name)
    if size is not None and actual_size != size and not is_stored_size(source, name, size, actual_size):
        raise CorruptRecordError(
            f"{source.url}/{name} has {actual_size} bytes, not {size}: the log itself is damaged, run eoslog verify "
            f"{source.url}"
        )
    if is_there(target, name):
        return
    if actual_size <= _PART:
        _create(target, name, source.read(name))
        return
    with idempotent_upload(target, name) as out:
        for offset in range(0, actual_size, _PART):
            out.write(source.read(name, offset, _PART))
