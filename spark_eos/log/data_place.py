"""Where a log that is created or copied gets its data files, and whether settings name the place that it has."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from spark_eos.errors import ConfigError, NotALogError
from spark_eos.log import paths
from spark_eos.log.clock import Clock
from spark_eos.protocol.actions import Entry, PlaceData, Request
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import State
from spark_eos.storage import Settings, Store, probe
from spark_eos.storage.store import EarlierPlace
from spark_eos.storage.two_stores import DATA_MARK, TwoStores, first_other, is_apart
from spark_eos.storage.urls import data_settings_of, data_store, wanted_data_url


class DataPlace(NamedTuple):
    """Where the data files of a log are, as far as a state tells; goes to tasks by value.

    ``url`` and ``before`` are as `Store.with_data` takes them.
    """

    url: str = ""
    before: EarlierPlace | None = None

    def of(self, store: Store) -> Store:
        """The store of the log: ``store``, with its data files."""
        return store.with_data(self.url, self.before)


def data_place(state: State) -> DataPlace:
    """The place that the state names. It counts for files of earlier states as well."""
    before = state.data_before
    if before is None:
        return DataPlace(state.data_url)
    return DataPlace(state.data_url, EarlierPlace(before.url, state.data_placed_at, before.copied_at >= 0))


def as_placed_now(past: State, newest: State) -> State:
    """An earlier state of the log, with the place that its data files have now."""
    return replace(
        past,
        data_url=newest.data_url,
        data_placed_at=newest.data_placed_at,
        data_before=newest.data_before,
    )


def has_all_data(state: State) -> bool:
    """Whether all data files are at the place that the state names, and none is at an earlier one."""
    return state.data_before is None


def data_settings(state: State, settings: Mapping[str, str]) -> Mapping[str, str]:
    """Of the ``settings`` of a log's store, those of the store that has its data files."""
    return data_settings_of(state.data_url, Settings(settings)) if is_apart(state.data_url) else settings


def check_apart(source: Store, target: Store, role: str = "copy", of: str = "log") -> None:
    """Raise `ConfigError` if one of the places lies in the other; ``role`` is to be at ``target``, of what is there."""
    for place in _places(source):
        for target_place in _places(target):
            if lie_in_one_another(place, target_place):
                raise ConfigError(
                    f"the {role} {target_place} and the {of} {place} lie in one another: choose a folder or prefix "
                    "beside it"
                )


def _places(store: Store) -> list[str]:
    if not isinstance(store, TwoStores):
        return [store.url]
    before = () if store.before is None else (store.before.url,)
    return [store.url, *(url for url in (store.data_url, *before) if is_apart(url))]


def lie_in_one_another(first: str, second: str) -> bool:
    """Whether one of two folders or URLs is the other, or lies in it."""
    inner, outer = as_compared(first), as_compared(second)
    return inner.startswith(outer) or outer.startswith(inner)


def as_compared(place: str) -> str:
    """A folder or URL as it is compared with another one, with a slash at its end: a link may lead into the other."""
    path = re.sub("^file:(//(?=/))?", "", place)
    real = os.path.realpath(path) if path.startswith("/") else re.sub("^s3[an]:", "s3:", path)
    return f"{real.rstrip('/')}/"


def check_place(settings: Settings, state: State, url: str) -> None:
    """Raise `ConfigError` if ``data.url`` is given and is not where the log at ``url`` has its data files."""
    if "data.url" not in settings:
        return
    data_url = wanted_data_url(settings)
    if data_url != state.data_url:
        where = f"at {state.data_url}" if is_apart(state.data_url) else "beside its entries"
        raise ConfigError(
            f"data.url={data_url}: the data files of {url} are {where}. The setting counts where a log is created or "
            "copied to: leave it out. To move data files: eoslog data move"
        )


def free_place(store: Store, clock: Clock) -> str:
    """Where ``data.url`` wants the data files of a new log in ``store``; empty: beside its entries.

    Raises `ConfigError` if the places lie in one another or it names none, `NotALogError` if something is there, and
    what `probe` raises.
    """
    data_url = wanted_data_url(store.settings)
    if data_url is None:
        return ""
    check_beside(data_url, store)
    place = data_store(data_url, store.settings)
    check_empty(place)
    if _is_taken(place):
        raise NotALogError(
            f"{data_url} is the place of another log's data files ({DATA_MARK} there says whose): choose an empty or "
            "new folder or prefix"
        )
    probe(place, clock.unique())
    return data_url


def check_empty(place: Store) -> None:
    """Raise `NotALogError` if there is anything but a mark in a place that is to get data files."""
    name = first_other(place)
    if name is not None:
        raise NotALogError(
            f"{place.url} is not empty (it holds {name!r}): the data files of a log need a place of their own. "
            "Choose an empty or new folder or prefix"
        )


def place_of_copy(target: Store) -> str:
    """Where ``data.url`` wants the data files of a copy at ``target``; empty: beside its entries.

    What is there already may be of an earlier try. Raises as `free_place`, but `NotALogError`.
    """
    data_url = wanted_data_url(target.settings) or ""
    if data_url:
        check_beside(data_url, target)
    return data_url


def placing_entry(state: State, url: str, clock: Clock) -> list[tuple[str, pa.Buffer]]:
    """The name and the bytes of the entry after ``state`` that says where a copy has its data; none if as before."""
    if state.data_url == url and has_all_data(state):
        return []
    seq = state.seq + 1
    request = Request(clock.unique(), state.timestamp_ms, (PlaceData(url),), "copy")
    data = encode_entry(Entry(seq, (request,), state.lineage))
    return [(paths.entry(seq, state.entries_per_folder), pa.py_buffer(data))]


def check_beside(data_url: str, store: Store) -> None:
    """Raise `ConfigError` if the place for data files lies in a place of the log, or around it."""
    for place in _places(store):
        if lie_in_one_another(data_url, place):
            raise ConfigError(
                f"data.url={data_url} and the log {place} lie in one another: choose a folder or prefix beside it"
            )


def _is_taken(place: Store) -> bool:
    return any(info.name == DATA_MARK for info in place.list("_"))
