"""Histories in files, one event as JSON in each line."""

from __future__ import annotations

import base64
import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history.events import Action, Event, Kind, Poll, Send


def merge(*histories: Sequence[Event]) -> list[Event]:
    """One history of several, by time; each keeps its own order, and events are numbered again.

    Of events at the same time invocations come first: then the calls overlap, and no order is claimed.
    """
    merged = heapq.merge(*histories, key=lambda event: (event.time, event.kind is not Kind.INVOKE))
    return [replace(event, index=index) for index, event in enumerate(merged)]


def write_history(path: str | Path, history: Iterable[Event]) -> None:
    """Write events as JSON lines."""
    with Path(path).open("w", encoding="utf-8") as file:
        file.writelines(dump_event(event) + "\n" for event in history)


def read_history(path: str | Path) -> list[Event]:
    """Read JSON lines. A last line without its end is left out: its writer was killed in the middle of it.

    Raises `InvalidRequestError`, naming the line, for anything else that is no event.
    """
    lines = Path(path).read_text(encoding="utf-8").split("\n")[:-1]
    history = []
    for number, line in enumerate(lines, 1):
        try:
            history.append(load_event(line))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidRequestError(f"{path}, line {number} is no event of a history: {error!r}") from error
    return history


def dump_event(event: Event) -> str:
    """An event as one line of JSON.

    Values may be strings, numbers, booleans, None, bytes, and tuples of them; `InvalidRequestError` if not.
    """
    return json.dumps(
        {
            "index": event.index,
            "time": event.time,
            "process": event.process,
            "kind": event.kind.value,
            "call": event.call,
            "actions": [_dump_action(action) for action in event.actions],
            "transaction": event.transaction,
            "streamed": event.streamed,
            "isolation": event.isolation,
        }
    )


def load_event(line: str) -> Event:
    """The event of a line that `dump_event` wrote."""
    fields = json.loads(line)
    fields["kind"] = Kind(fields["kind"])
    fields["actions"] = tuple(map(_load_action, fields["actions"]))
    return Event(**fields)


def _dump_action(action: Action) -> dict[str, Any]:
    fields: dict[str, Any]
    if isinstance(action, Send):
        fields = {"send": [*action.partition], "value": _dump_value(action.value), "offset": action.offset}
    else:
        fields = {
            "poll": [*action.partition],
            "records": [[offset, _dump_value(value)] for offset, value in action.records],
            "reassigned": action.reassigned,
            "caught_up": action.caught_up,
            "position": action.position,
            "turn": action.turn,
        }
    return fields


def _load_action(fields: dict[str, Any]) -> Action:
    if "send" in fields:
        return Send(TopicPartition(*fields["send"]), _load_value(fields["value"]), fields["offset"])
    partition = TopicPartition(*fields.pop("poll"))
    records = tuple((offset, _load_value(value)) for offset, value in fields.pop("records"))
    return Poll(partition, records, **fields)


def _dump_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, tuple):
        return {"tuple": [*map(_dump_value, value)]}
    if value is None or isinstance(value, str | int | float):
        return value
    raise InvalidRequestError(
        f"a value of type {type(value).__name__} cannot be written to a history file: "
        "use str, int, float, bool, None, bytes or tuples of them"
    )


def _load_value(value: Any) -> Any:
    if isinstance(value, dict):
        return (
            base64.b64decode(value["bytes"]) if "bytes" in value else tuple(map(_load_value, value["tuple"]))
        )
    return value
