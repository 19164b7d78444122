"""Bounds: what a request may carry in any state. They are checked once, before any rule looks at the request.

An entry may be written by a program that is none of this package's clients. What is accepted stays for ever, and every
process must be able to add it up, seal it, write it into a snapshot and read it. So every number has a range, every
text a length, and every value exactly the declared type: ``1.5`` would be stored as 1, and its writer would go on with
another state than its readers. See docs/design/0001.

Batches are checked by columns: there may be many of them, and this runs for every entry that is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, reduce
from operator import is_, or_
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.appends import check_file_name
from spark_eos.protocol.actions.declaration import CRC, DECLARED, INT32, Bounds
from spark_eos.protocol.rules.predicate import Limits, Predicate, predicate
from spark_eos.protocol.types import EARLIEST_MS, LATEST_MS, MAX_NUMBER, BatchRef, FileRef

Check: TypeAlias = "Callable[[Any], None]"

_BYTES = Bounds(INT32.least, 2**43)
"""No store has objects of 2**43 bytes."""
_TIME = Bounds(EARLIEST_MS, LATEST_MS)
_TEXT = Bounds(characters=2**28, nul=True)
_VALUES: dict[str, Bounds] = {
    "BatchRef.base_sequence": Bounds(-MAX_NUMBER, 2**32),
    "BatchRef.count": INT32,
    "BatchRef.crc": CRC,
    "BatchRef.length": _BYTES,
    "BatchRef.max_timestamp_ms": _TIME,
    "BatchRef.min_timestamp_ms": _TIME,
    "BatchRef.partition": INT32,
    "BatchRef.position": _BYTES,
    "FileRef.footer": Bounds(0, 2**31 - 1),
    "FileRef.footer_crc": CRC,
    "FileRef.schema_version": INT32,
    "FileRef.size": Bounds(0, 2**43),
    "IndexRow.count": Bounds(1, MAX_NUMBER),
    "IndexRow.max_timestamp_ms": _TIME,
    "PartitionOffset.metadata": Bounds(characters=4096, nul=True),
    "PartitionOffset.offset": Bounds(-2, MAX_NUMBER),
    "PartitionOffset.partition": INT32,
    "PinnedRange.pages": CRC,
    "PinnedRange.partition": INT32,
    "Request.actions": Bounds(items=10_000),
    "Request.timestamp_ms": Bounds(-LATEST_MS, LATEST_MS),
    "SourceProgress.end": _TEXT,
    "SourceProgress.start": _TEXT,
}
"""Of requests, and of the values that actions share; any other field has the default of `Bounds`."""

_NEW_BATCHES = {"BatchRef.base_sequence": Bounds(INT32.least, 2**32)}
"""Of batches that are appended. Compacted ones have a time in place of a sequence
(`spark_eos.maintenance.cleaner.label_of`).
"""


_PLAIN: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (bytes, lambda value: bytes(memoryview(value))),
    (np.integer, int),
)
"""Not ``str(value)``: a member of an ``Enum`` shows itself otherwise. Enumerations of numbers are the protocol's."""


def check(request: a.Request) -> None:
    """Raise `InvalidRequestError` for what no state allows."""
    if not fits(request):
        _checks(ranges=True)(request)
    if len(request.actions) < 2:
        return
    gone = {action.topic_id for action in request.actions if type(action) is a.DeleteTopic}
    again = [
        action.topic_id
        for action in request.actions
        if type(action) is a.CreateTopic and action.topic_id in gone
    ]
    if again:
        raise InvalidRequestError(
            f"topic id {again[0]} is that of a topic that is deleted: a new topic has a new id"
        )


def check_types(request: a.Request) -> None:
    """Raise `InvalidRequestError` for a value that would not be read as it was written."""
    if not fits(request):
        _checks(ranges=False)(request)


def fits(request: a.Request) -> bool:
    """Whether the request is certainly within all bounds. It is quick; a request that does not fit may pass `check`."""
    try:
        return _quick()(request)
    except InvalidRequestError:
        return False


def in_plain_types(value: Any) -> Any:
    """The same in exact types; itself if it is.

    A name may be a member of a ``StrEnum``, or a text of NumPy, and a number one of NumPy.
    """
    if isinstance(value, tuple):
        parts = [in_plain_types(part) for part in value]
        if all(map(is_, parts, value)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    for kind, plain in _PLAIN:
        if isinstance(value, kind) and type(value) is not kind:
            return plain(value)
    return value


@cache
def _checks(*, ranges: bool) -> Check:
    """The checks are put together once, from the types that the actions declare."""
    return _of_record(a.Request, ranges=ranges)


@cache
def _quick() -> Predicate:
    batch_fits = predicate(BatchRef, Limits(_new_bounds, _hints, {}))
    extra: dict[str, list[Check]] = {"Request": [_check_request], "FileRef": [_check_file]}
    for kind, declared in DECLARED.items():
        extra[kind.__name__] = [
            extra_check for extra_check in (declared.check_written, declared.check) if extra_check is not None
        ]
    columns = {BatchRef: (batch_fits, _check_batches(ranges=True))}
    return predicate(a.Request, Limits(_bounds, _hints, extra, columns))


def _hints(kind: Any) -> dict[str, Any]:
    """The types of a record's fields. Those of a request's actions are all that are declared."""
    hints = get_type_hints(kind)
    if kind is a.Request:
        hints["actions"] = tuple[reduce(or_, DECLARED), ...]  # type: ignore[misc]
    return hints


def _of_record(kind: Any, *, ranges: bool) -> Check:
    hints = _hints(kind)
    fields = [(name, _of(hints[name], _place(kind, name), ranges=ranges)) for name in kind._fields]
    extras = _extras(kind, ranges=ranges)

    def check_record(value: Any) -> None:
        if type(value) is not kind or len(value) != len(fields):
            raise _wrong(kind.__name__, value)
        for (_, check_field), part in zip(fields, value, strict=True):
            check_field(part)
        for extra in extras:
            extra(value)

    return check_record


def _extras(kind: Any, *, ranges: bool) -> list[Check]:
    """The checks beyond types and bounds."""
    if kind is a.Request:
        return [_check_request] if ranges else []
    if kind is FileRef:
        return [_check_file] if ranges else []
    declared = DECLARED.get(kind)
    if declared is None:
        return []
    checks = (declared.check_written, declared.check if ranges else None)
    return [extra_check for extra_check in checks if extra_check is not None]


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

    most = _bounds(place).items

    def check_type(value: Any) -> None:
        if type(value) is not kind:
            raise _wrong(place, value)
        if kind is bytes and len(value) > most:
            raise InvalidRequestError(f"{place} has {len(value)} bytes; {most} are possible")

    return check_type


def _of_union(kinds: Iterable[Any], place: str, *, ranges: bool) -> Check:
    checks = {
        get_origin(kind) or kind: _of(kind, place, ranges=ranges) for kind in kinds if kind is not NoneType
    }
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
    most = _bounds(place).items
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
    bounds = [(name, *_new_bounds(_place(BatchRef, name))[:2]) for name in BatchRef._fields]

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
    low, high, *_ = _bounds(place)

    def check_number(value: Any) -> None:
        if type(value) is not int:
            raise _wrong(place, value)
        if ranges and not low <= value <= high:
            raise _out_of_range(place, value, value, low, high)

    return check_number


def _of_text(place: str, *, ranges: bool) -> Check:
    most, free = _bounds(place).characters, _bounds(place).nul

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


@cache
def _declared_bounds() -> dict[str, Bounds]:
    return {
        _place(kind, field.name): field.bounds
        for kind, declared in DECLARED.items()
        for field in declared.fields
    }


def _bounds(place: str) -> Bounds:
    return _VALUES.get(place) or _declared_bounds().get(place) or Bounds()


def _new_bounds(place: str) -> Bounds:
    return _NEW_BATCHES.get(place) or _bounds(place)


# -- Beyond types and bounds ---------------------------------------------------------------------------


def _check_request(request: a.Request) -> None:
    if len(request.request_id) != 16:
        raise InvalidRequestError(f"a request id has 16 bytes, not {len(request.request_id)}")


def _check_file(file: FileRef) -> None:
    check_file_name(file.name)
    if file.footer_crc and not file.footer:
        raise InvalidRequestError(f"file {file.name} has the checksum of a footer, but no footer")


def _wrong(place: str, value: object) -> InvalidRequestError:
    return InvalidRequestError(f"{place} cannot be of type {type(value).__name__}: {repr(value)[:80]}")


def _out_of_range(place: str, least: int, most: int, low: int, high: int) -> InvalidRequestError:
    value = least if least < low else most
    shown = str(value) if value.bit_length() < 128 else f"a number of {value.bit_length()} bits"
    return InvalidRequestError(f"{place} is {shown}; it must be from {low} to {high}")
