"""Entries as bytes: an Avro record in a frame (`spark_eos.protocol.encoding.frame`). Pure, no I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any

from spark_eos.errors import CorruptRecordError, InvalidRequestError
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.declaration import DECLARED
from spark_eos.protocol.encoding.frame import Frame
from spark_eos.protocol.encoding.schema import FORMAT_VERSION, known_schemas, newest, rules_of
from spark_eos.protocol.rules.bounds import check_types

_FRAME = Frame(b"EOSLOG", "log entry", FORMAT_VERSION)


def encode_entry(entry: a.Entry, *, is_checked: bool = False) -> bytes:
    """The bytes of ``entry``. ``is_checked``: the rules have accepted its requests, which checks all values.

    Raises `InvalidRequestError` if a value cannot be written: a number of more than 64 bits, text that is
    not Unicode, a value of another type.
    """
    from fastavro import schemaless_writer

    fingerprint, schema = newest()
    body = BytesIO()
    try:
        for request in () if is_checked else entry.requests:
            check_types(request)
        schemaless_writer(body, schema, _entry(entry))
    except Exception as error:
        raise InvalidRequestError(f"entry {entry.seq} cannot be written down: {error!r}") from error
    return _FRAME.wrap(body.getvalue(), fingerprint)


def decode_entry(data: Any, seq: int, where: str) -> a.Entry:
    """The entry in ``data`` (anything with a buffer of bytes), which must be entry ``seq``.

    ``where`` names the object in messages. Raises `UnsupportedVersionError` for an entry of a newer version,
    and `CorruptRecordError` for everything that is not an entry as `encode_entry` writes it.
    """
    body, schema = _FRAME.unwrap(data, known_schemas(), where)
    try:
        entry = _read(body, schema)
    except Exception as error:
        # Any error of a decoder means that the bytes are not an entry.
        raise CorruptRecordError(f"{where} is no valid entry: {error!r}") from error
    if entry.seq != seq:
        raise CorruptRecordError(f"{where} holds entry {entry.seq}, not entry {seq}")
    return entry


def _read(body: bytes, schema: Any) -> a.Entry:
    from fastavro import schemaless_reader

    stream = BytesIO(body)
    # The override names the record only where the union has several: `actions`.
    record: Any = schemaless_reader(
        stream, schema, None, return_record_name=True, return_record_name_override=True
    )
    if stream.tell() != len(body):
        raise ValueError(f"{len(body) - stream.tell()} bytes are left over")
    requests = tuple(map(_read_request, record["requests"]))
    return a.Entry(record["seq"], requests, record["previous"], rules_of(schema))


def _entry(entry: a.Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "requests": [_request(request) for request in entry.requests],
        "previous": entry.previous,
    }


def _request(request: a.Request) -> dict[str, Any]:
    return {
        **request._asdict(),
        # For fastavro a pair of a name and a record is a record of that branch of a union.
        "actions": [
            (type(action).__name__, DECLARED[type(action)].write(action)) for action in request.actions
        ],
    }


def _read_request(record: dict[str, Any]) -> a.Request:
    readers = _readers()
    actions = tuple([readers[name](fields) for name, fields in record.pop("actions")])
    return a.Request(actions=actions, **record)


@cache
def _readers() -> dict[str, Callable[[dict[str, Any]], a.Action]]:
    return {kind.__name__: declaration.read for kind, declaration in DECLARED.items()}
