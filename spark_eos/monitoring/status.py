"""One look at a log for what is wrong with it: its state, its snapshots, the space that is left, who was fenced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from spark_eos.errors import EosLogError, StorePermissionError
from spark_eos.errors.hidden import safe_url
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Clock
from spark_eos.log.log import Log
from spark_eos.log.timekeeping import is_ahead
from spark_eos.maintenance.maintain import size_text
from spark_eos.monitoring.activity import Activity, Watch
from spark_eos.monitoring.lag import Lag
from spark_eos.monitoring.measured_store import LookingStore
from spark_eos.monitoring.members import SilentMember, silent_members
from spark_eos.monitoring.sizes import Sizes
from spark_eos.monitoring.troubles.of_state import LogView, of_snapshots, troubles_of
from spark_eos.monitoring.troubles.trouble import LOG, Trouble, worst_first
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import PartitionKey, State
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store
from spark_eos.storage.two_stores import is_apart
from spark_eos.storage.urls import data_store

_LOW, _FULL = 0.05, 0.01
_LEAST_BYTES = 1 << 20


class _TellingStore(LookingStore):
    """One that tells the time all the same."""

    def now_ms(self) -> int | None:
        return self.inner.now_ms()


class Status(NamedTuple):
    """What a look at a log has found; ``activity`` is None if it could not be read."""

    log: str
    activity: Activity | None
    troubles: list[Trouble]


class Space(NamedTuple):
    """Of a file system: bytes that are free, all its bytes, whether it can have one more file, and be written to."""

    free: int
    total: int
    has_names: bool = True
    is_read_only: bool = False


def space_troubles(store: Store, state: State, space: Callable[[Store], Space | None]) -> list[Trouble]:
    """Whether there is little of it where the entries are, and where the data is."""
    troubles = [*of_space(space(store))]
    if is_apart(state.data_url):
        troubles += of_space(space(data_store(state.data_url, store.settings)))
    return troubles


def space_of(store: Store) -> Space | None:
    """The space of a store that is a folder; None for others, which do not tell."""
    if "://" in store.url:
        return None
    try:
        usage = shutil.disk_usage(store.url)
        names = os.statvfs(store.url) if hasattr(os, "statvfs") else None
    except OSError:
        return None
    if names is None:
        return Space(usage.free, usage.total)
    has_names = not names.f_files or names.f_favail > 0
    return Space(usage.free, usage.total, has_names, bool(names.f_flag & os.ST_RDONLY))


def status_of(
    url: str | Store,
    settings: Settings = NO_SETTINGS,
    clock: Clock = SYSTEM,
    space: Callable[[Store], Space | None] = space_of,
) -> Status:
    """Look at a log once. An error of the log is a trouble.

    It never writes: the store that it uses refuses to. Only where this machine's clock may be wrong, or nothing was
    written for long, the store is asked for its own time, for which it makes an object of the moment.
    """
    inner = url if isinstance(url, Store) else open_store(url, settings)
    store = _TellingStore(inner)
    label = safe_url(store.url)
    try:
        log = Log.open(store, clock)
        activity = Watch(log).look()
    except EosLogError as error:
        troubles = [of_error(error, settings, is_bucket="://" in label), *of_space(space(inner))]
        return Status(label, None, troubles)
    state = log.state
    troubles = space_troubles(inner, state, space)
    for look in (_of_state, _snapshots):
        try:
            troubles += look(log, activity, settings)
        except EosLogError as error:
            troubles.append(of_error(error, settings, is_bucket="://" in label))
    return Status(label, activity, worst_first(troubles))


def _of_state(log: Log, activity: Activity, settings: Settings) -> list[Trouble]:
    state, now_ms = log.state, activity.now_ms
    small = {key: size.small for key, size in Sizes().of(state).items()}
    silent, refused = silent_or_refused(log, state, now_ms, settings)
    return [*refused, *troubles_of(view_of(log, state, now_ms, activity.lags, small, silent or ()))]


def view_of(
    log: Log,
    state: State,
    now_ms: int,
    lags: Sequence[Lag],
    small: Mapping[PartitionKey, int],
    silent: Sequence[SilentMember],
) -> LogView:
    """With this machine's clock and the store's beside the time ``now_ms``."""
    machine_ms = log.clock.now_ms()
    limit_ms = setting(state, "entry.timestamp.after.max.ms")
    told_ms = log.time.told_ms(state) if is_ahead(state, machine_ms) else None
    is_wrong = abs(machine_ms - now_ms) > limit_ms
    return LogView(state, now_ms, lags, small, silent, machine_ms if is_wrong else now_ms, told_ms)


def silent_or_refused(
    log: Log, state: State, now_ms: int, settings: Settings = NO_SETTINGS
) -> tuple[tuple[SilentMember, ...] | None, list[Trouble]]:
    """Members without a sign of life; None if this user may not read the signs, and the trouble that says so."""
    try:
        return tuple(silent_members(log, state, now_ms)), []
    except StorePermissionError as error:
        return None, [of_error(error, settings, is_bucket="://" in log.url)]


def of_error(error: EosLogError, settings: Settings, *, is_bucket: bool = True) -> Trouble:
    """Why the log cannot be read."""
    page, advice = f"reference/error-codes.md#{error.code.lower()}", ""
    look: tuple[tuple[str, ...], ...] = ()
    if error.code == "CORRUPT_RECORD":
        page, look = "runbooks/damaged-file.md", (("verify", LOG),)
        advice = "put the file back from a backup or a copy, under its own name"
    elif error.code == "STORE_PERMISSION":
        page = "guide/security.md#roles"
        advice = (
            "see to these credentials, as the text says, or look with others (--command-config)"
            if is_bucket
            else "give this user the right to read, or look as another user: looking needs no other right"
        )
    return Trouble("critical", error.code, settings.scrub(str(error)), page, look, (), advice)


def of_space(space: Space | None) -> Iterator[Trouble]:
    """Whether it is little; nothing if it is not known."""
    if space is None or not space.total:
        return
    if space.is_read_only:
        yield Trouble(
            "note",
            "read-only",
            "the file system of the log is mounted read-only here: writers that use this mount get STORE_PERMISSION",
            "reference/error-codes.md#store_permission",
            (),
            (),
            "if it is a mount for looking alone, nothing. Else the system's log (dmesg) says why it became read-only: "
            "mend the disk, and mount it writable",
        )
    share = space.free / space.total
    is_full = share < _FULL or space.free < _LEAST_BYTES or not space.has_names
    if not is_full and share >= _LOW:
        return
    text = f"{size_text(space.free)} of {size_text(space.total)} are free on the disk ({share:.1%})"
    if not space.has_names:
        text = "the disk can have no more files (inodes)"
    yield Trouble(
        "critical" if is_full else "note",
        "disk full" if is_full else "little space",
        f"{text}: {'' if is_full else 'once it is full, '}writers get STORE_FULL, and nothing is half written",
        "runbooks/disk-full.md",
        (("vacuum", LOG, "--min-age", "0", "--dry-run"),),
        (),
        "free space that the log does not use, or make the disk larger: commands that delete need a little themselves",
    )


def _snapshots(log: Log, _: Activity, __: Settings) -> Iterator[Trouble]:
    numbers = (paths.snapshot_seq(info.name) for info in log.store.list(paths.SNAPSHOTS))
    return of_snapshots(log.state, max((seq for seq in numbers if seq is not None), default=0))
