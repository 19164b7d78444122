"""Bounds: what a request may carry at all, whatever the state is. Checked once, before any rule looks at it.

An entry may be written by a program that is none of the product's clients. What is accepted stays for ever, and every
process must be able to add it up, seal it, write it into a snapshot and read it. So every number has a range, every
text a length, and every value the very type that is declared: ``1.5`` would be stored as 1, and its writer would go
on with another state than its readers.

Batches are checked by columns: there may be many of them, and this runs for every entry that is followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol import actions as a
from spark_eos.protocol.rules.predicate import Limits, Predicate, predicate
from spark_eos.protocol.types import EARLIEST_MS, LATEST_MS, RULES, BatchRef

__all__ = ["MAX_NUMBER", "check", "check_types", "fits"]

Check: TypeAlias = "Callable[[Any], None]"

MAX_NUMBER = 2**62
"""Sums of two such numbers still have 64 bits."""

_INT32 = 2**31 - 1
_LOW = -(2**31)
"""Where the rules themselves say, and say better, that a number is too small."""
_INT64 = (-(2**63), 2**63 - 1)
_NUMBERS: dict[str, tuple[int, int]] = {
    "batch_id": (0, MAX_NUMBER),
    "base_sequence": (_LOW, 2**32),
    "count": (_LOW, _INT32),
    "crc": (0, 2**32 - 1),
    "entries_per_folder": (_LOW, _INT32),
    "length": (_LOW, 2**43),
    "max_timestamp_ms": _INT64,
    "min_timestamp_ms": _INT64,
    "offset": (-2, MAX_NUMBER),
    "partition": (_LOW, _INT32),
    "partitions": (_LOW, _INT32),
    "position": (_LOW, 2**43),
    "replaced": (0, 2**32 - 1),
    "rules": (1, RULES),
    "schema_version": (_LOW, _INT32),
    "session_timeout_ms": (_LOW, _INT32),
    "size": (0, 2**43),
    "snapshot_interval": (_LOW, _INT32),
    "timeout_ms": (_LOW, _INT32),
    "timestamp_ms": (-LATEST_MS, LATEST_MS),
}
"""By the name of the field; any other number is from -1 to `MAX_NUMBER`. No store has objects of 2**43 bytes."""

_NEW_ROWS = {"max_timestamp_ms": (EARLIEST_MS, LATEST_MS), "min_timestamp_ms": (EARLIEST_MS, LATEST_MS)}
"""Of rows that are appended. Rows that are written anew keep the times that earlier versions took."""

_ROW_COUNT = (1, MAX_NUMBER)
"""Offsets of an index row: of what was written anew, a row may stand for many."""

_NAME = 32_767
"""Characters of a name: what Kafka's protocol has room for."""

_TEXTS = {"start": 2**28, "end": 2**28, "metadata": 4096, "value": 2**20}
_FREE = {"start", "end", "metadata", "config"}
_MANY = 2**24
_MOST = {"config": 1000, "actions": 10_000, "assignors": 100, "sources": 10_000}
_TOPIC_ID = re.compile(r"(?!\.\.?$)[^/\\\x00-\x1f]{1,64}")
_FILE_NAME = 1024
_NUMERIC = re.compile(r"-?[0-9]{1,19}", re.ASCII)


def check(request: a.Request) -> None:
    """Raise `InvalidRequestError` for whatever no state allows."""
    if not fits(request):
        _checks(ranges=True)(request)
    if len(request.actions) < 2:
        return
    gone = {one.topic_id for one in request.actions if type(one) is a.DeleteTopic}
    again = [one.topic_id for one in request.actions if type(one) is a.CreateTopic and one.topic_id in gone]
    if again:
        raise InvalidRequestError(
            f"topic id {again[0]} is that of a topic that is deleted: a new topic has a new id"
        )


def check_types(request: a.Request) -> None:
    """Raise `InvalidRequestError` for a value that would not be read as it was written."""
    if not fits(request):
        _checks(ranges=False)(request)


def fits(request: a.Request) -> bool:
    """Whether `check` has nothing to say, told quickly. A request that does not fit may still be right."""
    try:
        return _quick()(request)
    except InvalidRequestError:
        return False


@cache
def _checks(*, ranges: bool) -> Check:
    """The checks are put together once, from the types that the actions declare."""
    return _of_record(a.Request, ranges=ranges)


@cache
def _quick() -> Predicate:
    one = predicate(BatchRef, Limits(_new_range, _length, _items, {}))
    extra = {**_EXTRA, "ReplaceSegments": _check_both}
    columns = {BatchRef: (one, _check_batches(ranges=True))}
    return predicate(a.Request, Limits(_range, _length, _items, extra, columns))


def _of_record(kind: Any, *, ranges: bool) -> Check:
    hints = get_type_hints(kind)
    fields = [(name, _of(hints[name], _place(kind, name), ranges=ranges)) for name in kind._fields]
    extras = [_LOSSLESS.get(kind.__name__), _EXTRA.get(kind.__name__) if ranges else None]

    def check_record(value: Any) -> None:
        if type(value) is not kind or len(value) != len(fields):
            raise _wrong(kind.__name__, value)
        for (_, check_field), part in zip(fields, value, strict=True):
            check_field(part)
        for extra in extras:
            if extra is not None:
                extra(value)

    return check_record


def _place(kind: Any, name: str) -> str:
    return f"{kind.__name__}.{name}"


def _of(kind: Any, place: str, *, ranges: bool) -> Check:
    origin, args = get_origin(kind), get_args(kind)
    if origin in {UnionType, Union}:
        return _of_union(args, place, ranges=ranges)
    if origin is tuple:
        return _of_tuple(args, place, ranges=ranges)
    if kind is int:
        return _of_number(place, ranges=ranges)
    if kind is str:
        return _of_text(place, ranges=ranges)
    if hasattr(kind, "_fields"):
        return _of_record(kind, ranges=ranges)

    def check_type(value: Any) -> None:
        if type(value) is not kind:
            raise _wrong(place, value)
        if kind is bytes and len(value) > _MANY:
            raise InvalidRequestError(f"{place} has {len(value)} bytes; {_MANY} are possible")

    return check_type


def _of_union(kinds: Iterable[Any], place: str, *, ranges: bool) -> Check:
    checks = {get_origin(one) or one: _of(one, place, ranges=ranges) for one in kinds if one is not NoneType}
    may_miss = NoneType in kinds

    def check_union(value: Any) -> None:
        if value is None and may_miss:
            return
        check_one = checks.get(type(value))
        if check_one is None:
            raise _wrong(place, value)
        check_one(value)

    return check_union


def _of_tuple(kinds: tuple[Any, ...], place: str, *, ranges: bool) -> Check:
    most = _items(place)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        check_batch = kinds[0] is BatchRef
        check_item = _check_batches(ranges=ranges) if check_batch else _of(kinds[0], place, ranges=ranges)

        def check_items(value: Any) -> None:
            if type(value) is not tuple:
                raise _wrong(place, value)
            if len(value) > most:
                raise InvalidRequestError(f"{place} has {len(value)} items; {most} are possible")
            if check_batch:
                check_item(value)
            else:
                for item in value:
                    check_item(item)

        return check_items
    checks = [_of(kind, place, ranges=ranges) for kind in kinds]

    def check_pair(value: Any) -> None:
        if type(value) is not tuple or len(value) != len(checks):
            raise _wrong(place, value)
        for check_part, part in zip(checks, value, strict=True):
            check_part(part)

    return check_pair


def _check_batches(*, ranges: bool) -> Check:
    bounds = [(name, *_new_range(_place(BatchRef, name))) for name in BatchRef._fields]

    def check_batches(batches: tuple[BatchRef, ...]) -> None:
        if not batches:
            return
        if set(map(type, batches)) != {BatchRef}:
            raise InvalidRequestError("the batches of a file must be BatchRefs")
        for (name, low, high), column in zip(bounds, zip(*batches, strict=True), strict=True):
            if set(map(type, column)) != {int}:
                raise InvalidRequestError(f"BatchRef.{name} must be a whole number")
            if ranges and not (low <= min(column) and max(column) <= high):
                raise _out_of_range(f"BatchRef.{name}", min(column), max(column), low, high)

    return check_batches


def _of_number(place: str, *, ranges: bool) -> Check:
    low, high = _range(place)

    def check_number(value: Any) -> None:
        if type(value) is not int:
            raise _wrong(place, value)
        if ranges and not low <= value <= high:
            raise _out_of_range(place, value, value, low, high)

    return check_number


def _of_text(place: str, *, ranges: bool) -> Check:
    most, free = _length(place)

    def check_text(value: Any) -> None:
        if type(value) is not str:
            raise _wrong(place, value)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InvalidRequestError(f"{place} is no text that UTF-8 has: {value[:80]!r}") from None
        if ranges and (len(value) > most or ("\0" in value and not free)):
            raise InvalidRequestError(
                f"{place} is too long, or has a NUL character: {value[:80]!r} has {len(value)} characters; {most} are "
                "possible"
            )

    return check_text


def _field(place: str) -> str:
    return place.partition(".")[2]


def _items(place: str) -> int:
    return _MOST.get(_field(place), _MANY)


def _length(place: str) -> tuple[int, bool]:
    """Characters at most, and whether NUL may be one."""
    field = _field(place)
    return _TEXTS.get("value" if field == "config" else field, _NAME), field in _FREE


def _range(place: str) -> tuple[int, int]:
    return _ROW_COUNT if place == "IndexRow.count" else _NUMBERS.get(_field(place), (-1, MAX_NUMBER))


def _new_range(place: str) -> tuple[int, int]:
    return _NEW_ROWS.get(_field(place)) or _range(place)


# -- What a type does not say ---------------------------------------------------------------------------


def _check_request(request: a.Request) -> None:
    if len(request.request_id) != 16:
        raise InvalidRequestError(f"a request id has 16 bytes, not {len(request.request_id)}")


def _check_file(file: Any) -> None:
    _check_file_name(file.name)


def _check_file_name(name: str) -> None:
    """A file outside of the log, or one of its entries, is nothing that a request may name."""
    parts = name.split("/")
    if len(name) > _FILE_NAME or "\\" in name or parts[0] == "_log" or not {"", ".", ".."}.isdisjoint(parts):
        raise InvalidRequestError(f"{name[:200]!r} is not the name of a data file of this log")


def _check_staged(action: a.ReplaceSegments) -> None:
    for name in action.staged:
        _check_file_name(name)


def _check_rows(action: a.ReplaceSegments) -> None:
    """Entries and pieces name the partition once, and a file with its batch."""
    for row in action.rows:
        if (row.file is None) is not (row.batch is None) or (
            row.batch is not None and row.batch.partition != action.partition
        ):
            raise InvalidRequestError(
                f"the row at offset {row.base_offset} has no file, no batch, or one of another partition than "
                f"{action.partition}"
            )


def _check_both(action: a.ReplaceSegments) -> None:
    _check_rows(action)
    _check_staged(action)


def _check_topic(action: a.CreateTopic) -> None:
    if not _TOPIC_ID.fullmatch(action.topic_id):
        raise InvalidRequestError(
            f"illegal topic id {action.topic_id[:80]!r}: 1 to 64 characters without '/', and neither '.' nor '..'"
        )
    _check_config(action)


def _check_config(action: a.CreateTopic | a.AlterTopic) -> None:
    """Maintenance reckons with these: one that is no number would stop it for every topic of the log."""
    for name, value in action.config or ():
        if name.endswith((".ms", ".bytes")) and not _NUMERIC.fullmatch(value):
            raise InvalidRequestError(f"topic setting {name!r} must be a whole number, not {value[:80]!r}")


_LOSSLESS: dict[str, Check] = {"ReplaceSegments": _check_rows}
"""What would be lost when it is written."""

_EXTRA: dict[str, Check] = {
    "Request": _check_request,
    "FileRef": _check_file,
    "ReplaceSegments": _check_staged,
    "CreateTopic": _check_topic,
    "AlterTopic": _check_config,
}


def _wrong(place: str, value: object) -> InvalidRequestError:
    return InvalidRequestError(f"{place} cannot be of type {type(value).__name__}: {repr(value)[:80]}")


def _out_of_range(place: str, least: int, most: int, low: int, high: int) -> InvalidRequestError:
    found = least if least < low else most
    shown = str(found) if found.bit_length() < 128 else f"a number of {found.bit_length()} bits"
    return InvalidRequestError(f"{place} is {shown}; it must be from {low} to {high}")
