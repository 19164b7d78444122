"""Entries as bytes: an Avro record in a frame (`spark_eos.protocol.encoding.frame`). Pure, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any

from spark_eos.errors import CorruptRecordError, InvalidRequestError
from spark_eos.protocol import actions as a
from spark_eos.protocol.encoding.frame import Frame
from spark_eos.protocol.encoding.index_pages import read_rows, rows_columns
from spark_eos.protocol.encoding.offset_columns import (
    offset_columns,
    read_offsets,
    read_source,
    source_columns,
)
from spark_eos.protocol.encoding.schema import BATCH_COLUMNS, FORMAT_VERSION, known_schemas, newest, rules_of
from spark_eos.protocol.index import IndexRow
from spark_eos.protocol.rules.bounds import check_types
from spark_eos.protocol.types import BatchRef, FileRef, ProducerStamp, StagedFile

__all__ = ["FORMAT_VERSION", "decode_entry", "encode_entry"]

_FRAME = Frame(b"EOSLOG", "log entry", FORMAT_VERSION)


def encode_entry(entry: a.Entry) -> bytes:
    """The bytes of ``entry``.

    Raises `InvalidRequestError` if a value cannot be written: a number of more than 64 bits, text that is
    not Unicode, a value of another type.
    """
    from fastavro import schemaless_writer

    fingerprint, schema = newest()
    body = BytesIO()
    try:
        for request in entry.requests:
            check_types(request)
        schemaless_writer(body, schema, _entry(entry))
    except Exception as error:
        raise InvalidRequestError(f"entry {entry.seq} cannot be written down: {error!r}") from error
    return _FRAME.wrap(body.getvalue(), fingerprint)


def decode_entry(data: Any, seq: int, where: str) -> a.Entry:
    """The entry in ``data`` (anything with a buffer of bytes), which must be entry ``seq``.

    ``where`` names the object for people. Raises `UnsupportedVersionError` for what a newer version wrote,
    and `CorruptRecordError` for everything that is not an entry as `encode_entry` writes it.
    """
    body, schema = _FRAME.unwrap(data, known_schemas(), where)
    try:
        entry = _read(body, schema)
    except Exception as error:
        # Whatever a decoder stumbles over: the bytes are not an entry.
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
    return a.Entry(record["seq"], requests, record.get("previous", b""), rules_of(schema))


# -- Values to Avro ----------------------------------------------------------------------------------


def _entry(entry: a.Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "requests": [_request(request) for request in entry.requests],
        "previous": entry.previous,
    }


def _request(request: a.Request) -> dict[str, Any]:
    return {
        **request._asdict(),
        # A pair of a name and a record is how fastavro is told the branch of a union.
        "actions": [(type(action).__name__, _plain(action)) for action in request.actions],
    }


def _plain(value: Any) -> Any:
    """Named tuples as records; tuples as arrays, of pairs where they hold pairs; all else as it is."""
    if isinstance(value, StagedFile):
        columns = zip(*value.batches, strict=True) if value.batches else ((),) * len(BATCH_COLUMNS)
        return {
            "topic": value.topic,
            "file": _plain(value.file),
            "batches": dict(zip(BATCH_COLUMNS, map(list, columns), strict=True)),
        }
    if isinstance(value, a.SourceProgress):
        return source_columns(value)
    if isinstance(value, (a.CommitOffsets, a.AdvanceLogStart)):
        plain = {name: _plain(part) for name, part in value._asdict().items() if name != "offsets"}
        return {**plain, "offsets": offset_columns(value.offsets)}
    if isinstance(value, a.ReplaceSegments):
        return {**value._asdict(), "rows": rows_columns(value.rows), "staged": list(value.staged)}
    if hasattr(value, "_fields"):
        return {name: _plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple):
        return [
            {"name": item[0], "value": item[1]} if type(item) is tuple else _plain(item) for item in value
        ]
    return value


# -- Avro to values ----------------------------------------------------------------------------------


def _read_request(record: dict[str, Any]) -> a.Request:
    actions = tuple(_ACTIONS[name](fields) for name, fields in record.pop("actions"))
    return a.Request(actions=actions, **record)


def _pairs(records: Iterable[dict[str, Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple((record["name"], record["value"]) for record in records)


def _member(record: dict[str, Any]) -> a.Membership:
    return a.Membership(**record)


def _stamp(record: dict[str, int]) -> ProducerStamp:
    return ProducerStamp(**record)


def _offsets(found: Any) -> tuple[a.PartitionOffset, ...]:
    if isinstance(found, dict):
        return read_offsets(found)
    return tuple(a.PartitionOffset(**record) for record in found)  # Up to schema 5.


def _files(records: Iterable[dict[str, Any]]) -> tuple[StagedFile, ...]:
    return tuple(
        StagedFile(record["topic"], _file(record["file"]), _batches(record["batches"])) for record in records
    )


def _file(record: dict[str, Any]) -> FileRef:
    return FileRef(**{**record, "omitted": tuple(record["omitted"])})


def _batches(record: dict[str, list[int]]) -> tuple[BatchRef, ...]:
    columns = [record[column] for column in BATCH_COLUMNS]
    return tuple(map(BatchRef._make, zip(*columns, strict=True)))


def _rows(fields: dict[str, Any]) -> tuple[IndexRow, ...]:
    return tuple(read_rows(fields["partition"], fields["rows"]))


def _sources(records: Iterable[dict[str, Any]]) -> tuple[a.SourceProgress, ...]:
    return tuple(map(read_source, records))


def _converted(record: dict[str, Any], **converters: Callable[[Any], Any]) -> dict[str, Any]:
    """The record, with these fields as the protocol's values; None, and what an older schema lacks, stay so."""
    for name, convert in converters.items():
        if record.get(name) is not None:
            record[name] = convert(record[name])
    return record


_ACTIONS: dict[str, Callable[[dict[str, Any]], a.Action]] = {
    "CreateLog": lambda fields: a.CreateLog(**fields),
    "CreateTopic": lambda fields: a.CreateTopic(**_converted(fields, config=_pairs)),
    "AlterTopic": lambda fields: a.AlterTopic(**_converted(fields, config=_pairs)),
    "DeleteTopic": lambda fields: a.DeleteTopic(**fields),
    "InitProducer": lambda fields: a.InitProducer(**fields),
    "AppendBatches": lambda fields: a.AppendBatches(
        **_converted(fields, producer=_stamp, topics=_pairs, files=_files)
    ),
    "CommitOffsets": lambda fields: a.CommitOffsets(
        **_converted(fields, offsets=_offsets, producer=_stamp, member=_member)
    ),
    "CommitMicroBatch": lambda fields: a.CommitMicroBatch(**_converted(fields, sources=_sources)),
    "EndTransaction": lambda fields: a.EndTransaction(**_converted(fields, producer=_stamp)),
    "AdvanceLogStart": lambda fields: a.AdvanceLogStart(**_converted(fields, offsets=_offsets)),
    "ReplaceSegments": lambda fields: a.ReplaceSegments(
        **_converted({**fields, "rows": _rows(fields)}, staged=tuple)
    ),
    "RaiseStagingFloor": lambda fields: a.RaiseStagingFloor(**fields),
    "DeleteOffsets": lambda fields: a.DeleteOffsets(**_converted(fields, partitions=_pairs)),
    "JoinGroup": lambda fields: a.JoinGroup(**_converted(fields, topics=tuple, assignors=tuple)),
    "SyncGroup": lambda fields: a.SyncGroup(**fields),
    "LeaveGroup": lambda fields: a.LeaveGroup(**_converted(fields, members=tuple)),
    "ExpireTransaction": lambda fields: a.ExpireTransaction(**_converted(fields, producer=_stamp)),
    "ExpireProducers": lambda fields: a.ExpireProducers(**_converted(fields, producers=tuple)),
    "ExpireTransactionalIds": lambda fields: a.ExpireTransactionalIds(
        **_converted(fields, transactional_ids=tuple)
    ),
    "ExpireOffsets": lambda fields: a.ExpireOffsets(**_converted(fields, partitions=_pairs)),
    "ResetLogTime": lambda fields: a.ResetLogTime(**fields),
    "AlterLog": lambda fields: a.AlterLog(**_converted(fields, config=_pairs)),
}
