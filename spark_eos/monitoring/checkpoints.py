"""Checkpoints of Spark queries, as far as lag needs them: of which log and topics the offsets of a micro-batch are.

For a source in another log, the entry of a micro-batch has offsets by names of topics alone. The checkpoint of the
query has the ids of that log and its topics beside the same offsets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from spark_eos.errors import CheckpointMismatchError, ConfigError
from spark_eos.storage import NO_SETTINGS, Settings, as_hadoop, is_object_store, read_file, settings_of

_META_KEY = "@eoslog"
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)


class Origin(NamedTuple):
    """Where a source stands: the ids of its log and its topics, and offsets by topic and partition."""

    log_id: str
    topic_ids: dict[str, str]
    offsets: dict[str, dict[str, int]]


class Checkpoints:
    """The checkpoints of some queries. Reading them never writes.

    Parameters
    ----------
    locations
        The ``checkpointLocation`` of each query: a folder, or a URL of an object store.
    settings
        Settings of the object stores.

    Raises
    ------
    ConfigError
        A location is neither a folder nor in an object store, or two are of one query.
    CheckpointMismatchError
        A location has no checkpoint.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from spark_eos.monitoring import Checkpoints
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "metadata").write_text(json.dumps({"id": "a-query"}))
    >>> Checkpoints([str(folder)]).location("a-query") == str(folder)
    True
    """

    def __init__(self, locations: Iterable[str] = (), settings: Settings = NO_SETTINGS) -> None:
        self._settings = settings
        self._locations: dict[str, str] = {}
        self._last: dict[str, tuple[int, dict[str, Origin | None]]] = {}
        for location in locations:
            query_id = self._query_id(location)
            earlier = self._locations.setdefault(query_id, location)
            if earlier != location:
                raise ConfigError(
                    f"{earlier} and {location} are checkpoints of one query ({query_id}): give the one that it uses"
                )

    def location(self, query_id: str) -> str | None:
        """Where the checkpoint of a query is.

        Parameters
        ----------
        query_id
            Spark's id of the query.

        Returns
        -------
        str or None
            The location, as it was given; None if none of them is the query's.
        """
        return self._locations.get(query_id)

    def origins(self, query_id: str, batch_id: int) -> dict[str, Origin | None]:
        """Where the sources of a query stand after a micro-batch. It is read once for each micro-batch.

        Parameters
        ----------
        query_id
            Spark's id of the query, which has a `location`.
        batch_id
            The number of the micro-batch.

        Returns
        -------
        dict of str to Origin or None
            By the name of the source, or its place if it has none; None for sources that are no eoslog source.

        Raises
        ------
        CheckpointMismatchError
            The checkpoint has no such micro-batch, or is damaged.
        """
        last = self._last.get(query_id)
        if last is None or last[0] != batch_id:
            last = (batch_id, _origins(*self._text(self._locations[query_id], f"offsets/{batch_id}")))
            self._last[query_id] = last
        return last[1]

    def _query_id(self, location: str) -> str:
        where, text = self._text(location, "metadata")
        value = _json(where, text or "null")
        query_id = value.get("id") if isinstance(value, dict) else None
        if not isinstance(query_id, str) or not query_id:
            raise CheckpointMismatchError(
                f"{where} names no query: give the checkpointLocation with which the query was started"
            )
        return query_id

    def _text(self, location: str, name: str) -> tuple[str, str | None]:
        """Where a file is, and its text; None if it is not there."""
        location = as_hadoop(location)
        where = f"{location}/{name}"
        if is_object_store(location):
            data = read_file(location, name, settings_of(location, self._settings))
        else:
            try:
                data = (_folder(location) / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                data = None
            except OSError as error:
                raise CheckpointMismatchError(f"{where} cannot be read: {error}") from error
        try:
            return where, None if data is None else data.decode()
        except UnicodeDecodeError as error:
            raise CheckpointMismatchError(
                f"{where} is not UTF-8 text: {error}; the checkpoint is damaged"
            ) from error


def _folder(location: str) -> Path:
    match = _SCHEME.fullmatch(location)
    if match is None:
        return Path(location)
    if match[1].lower() == "file" and (path := re.fullmatch(r"(?://(?:localhost)?)?(/.*)", match[2])):
        return Path("/" + path[1].lstrip("/"))
    raise ConfigError(
        f"checkpoint {location!r} cannot be read here: give it as a path, or as a URL of an object store"
    )


def _origins(where: str, text: str | None) -> dict[str, Origin | None]:
    """The sources in a file of Spark's offset log: ``v1`` has a line for each, ``v2`` one with its name and a colon."""
    if text is None:
        raise CheckpointMismatchError(
            f"{where} is missing, though the log has this micro-batch: the checkpoint is an older copy, or was emptied"
        )
    version, *lines = text.split("\n")
    if version not in {"v1", "v2"}:
        raise CheckpointMismatchError(f"{where} has version {version[:40]!r}; v1 and v2 are known")
    origins: dict[str, Origin | None] = {}
    for number, line in enumerate(lines[1:]):
        name, _, offset = line.partition(":") if version == "v2" else (str(number), ":", line)
        origins[name] = None if offset == "-" else _origin(where, _json(where, offset))
    return origins


def _origin(where: str, value: Any) -> Origin | None:
    meta = value.get(_META_KEY) if isinstance(value, dict) else None
    if not isinstance(meta, dict):
        return None
    log_id, ids = meta.get("log"), meta.get("topics")
    offsets = {topic: parts for topic, parts in value.items() if topic != _META_KEY}
    ids = ids if isinstance(ids, dict) else {}
    if not isinstance(log_id, str) or not all(isinstance(ids.get(topic), str) for topic in offsets):
        raise CheckpointMismatchError(f"{where} has an offset without the ids of its topics: it is damaged")
    return Origin(log_id, ids, offsets)


def _json(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointMismatchError(f"{where} is not whole: {error}; the checkpoint is damaged") from error
