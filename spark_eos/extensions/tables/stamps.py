"""What a version of a published table stands for, read from the table itself.

Of a Delta table this is the commit's own file. The library's history is of no use here: delta-rs counts its versions
backwards from the newest one, and is wrong for a table that is opened at an earlier version, or where a file is gone
(`tests/extensions/tables/test_stamps.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from spark_eos.errors import ConfigError, InvalidRequestError, ObjectNotFoundError, TableDamagedError
from spark_eos.extensions.tables.iceberg.catalog import open_catalog
from spark_eos.extensions.tables.target import Stamp
from spark_eos.storage import NO_SETTINGS, Settings, Store, settings_of, shared_store

ICEBERG = "iceberg:"
"""What stands before the name of an Iceberg table: ``iceberg:<catalog>.<namespace>.<table>``."""

_COMMITS = "_delta_log/"
_COMMIT = re.compile(r"_delta_log/(\d{20})\.json")


class StampedVersion(NamedTuple):
    """A version that a log has published: its number in the table's own format (Iceberg: the snapshot id)."""

    native: int
    stamp: Stamp


def stamped_version(
    table: str, version: int | None = None, settings: Settings = NO_SETTINGS
) -> StampedVersion:
    """The version ``version`` of a table; None: the newest one that a log has published.

    ``table`` is the path or URL of a Delta table, or the name of an Iceberg table (`ICEBERG`), whose catalog is in
    the configuration of pyiceberg. Raises `InvalidRequestError` if no log has published that version, or it is not
    known any more; `ConfigError`; the errors of the store.
    """
    versions = _of_iceberg(table) if table.startswith(ICEBERG) else _of_delta(table, version, settings)
    for native, properties in versions:
        if version is not None and native != version:
            continue
        stamp = Stamp.of(properties)
        if stamp is not None:
            return StampedVersion(native, stamp)
        if version is not None:
            raise InvalidRequestError(
                f"version {version} of table {table} was not published by a log: it has no property eoslog.entry. Name "
                "a version that a log has published, or none for the newest of them"
            )
    text = "a version that a log has published" if version is None else f"version {version}"
    raise InvalidRequestError(
        f"there is no table {table} with {text}, or what it stands for is not known any more: name a later version, "
        "or check where the table is"
    )


def _of_delta(table: str, version: int | None, settings: Settings) -> Iterator[tuple[int, dict[str, Any]]]:
    """The versions and their properties, the newest first; ``version`` alone, if it is given."""
    store = shared_store(table, settings_of(table, settings))
    if version is None:
        matches = (_COMMIT.fullmatch(info.name) for info in store.list(_COMMITS))
        versions = sorted((int(match[1]) for match in matches if match), reverse=True)
    else:
        versions = [version]
    for number in versions:
        properties = _commit_of_delta(store, number)
        if properties is not None:
            yield number, properties


def _commit_of_delta(store: Store, version: int) -> dict[str, Any] | None:
    """What the commit says of itself; None if it is not there (any more)."""
    name = f"{_COMMITS}{version:020d}.json"
    try:
        text = store.read(name).to_pybytes()
    except ObjectNotFoundError:
        return None
    try:
        for line in text.splitlines():
            action = json.loads(line)
            if "commitInfo" in action:
                return {**action["commitInfo"]}
    except (ValueError, TypeError) as error:
        raise TableDamagedError(f"{store.url}/{name} is not a commit of a Delta table: {error}") from error
    return {}


def _of_iceberg(table: str) -> Iterator[tuple[int, dict[str, Any]]]:
    catalog_name, _, identifier = table.removeprefix(ICEBERG).partition(".")
    if not identifier:
        raise ConfigError(
            f"{table!r} names no Iceberg table; expected iceberg:<catalog>.<namespace>.<table>, such as "
            "iceberg:default.sales.flights"
        )
    catalog = open_catalog(catalog_name)
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    with catalog:
        try:
            iceberg_table = catalog.load_table(identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return
        current = iceberg_table.current_snapshot()
        while current is not None:
            summary = current.summary
            yield current.snapshot_id, {} if summary is None else {**summary.additional_properties}
            parent = current.parent_snapshot_id
            current = None if parent is None else iceberg_table.snapshot_by_id(parent)
