"""Pieces of an index as bytes: the same rows give the same bytes, so a piece is known by its checksum.

Rows are columns (one Avro array each), and files are listed once: most rows of a piece share theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from io import BytesIO
from typing import Any

import google_crc32c

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.frame import Frame
from spark_eos.protocol.index import IndexRow, Kind, Piece, PieceContent
from spark_eos.protocol.schema import ROW_COLUMNS, array, file_of, fingerprint, record, rows_of
from spark_eos.protocol.types import BatchRef, FileRef, ProducerStamp

__all__ = [
    "PIECES",
    "checksum",
    "decode_piece",
    "encode_piece",
    "piece_columns",
    "read_pieces",
    "read_rows",
    "rows_columns",
    "schemas",
    "seal_pieces",
    "seal_rows",
]

_FRAME = Frame(b"EOSIDX", "piece of an index", 1)

_PIECE_COLUMNS = (*("level", "base_offset", "next_offset", "rows", "bytes", "max_timestamp_ms", "crc"),)

_MOST_BYTES = 2**63 - 1
"""Nothing has more: a sum that says so is of a request that lied, and has to be written down all the same."""

PIECES = record("Pieces", **{name: array("long") for name in _PIECE_COLUMNS})

WRITTEN = (record("Piece", content=[rows_of(file_of(3)), PIECES]),)
"""Every schema of pieces that a release ever wrote, oldest first."""


@cache
def schemas() -> dict[bytes, Any]:
    """Them all by their fingerprints, as fastavro takes them."""
    from fastavro.schema import parse_schema

    return {fingerprint(schema): parse_schema(schema) for schema in WRITTEN}


def seal_rows(partition: tuple[str, int], rows: tuple[IndexRow, ...]) -> Piece:
    """A piece of level 0, with its content."""
    size = min(sum(row.batch.length for row in rows if row.batch is not None), _MOST_BYTES)
    newest = max(row.max_timestamp_ms for row in rows)
    crc = google_crc32c.value(_body(rows))
    return Piece(partition, 0, rows[0].base_offset, rows[-1].next_offset, len(rows), size, newest, crc, rows)


def seal_pieces(pieces: tuple[Piece, ...]) -> Piece:
    """A piece one level up, with its content."""
    first, last = pieces[0], pieces[-1]
    return Piece(
        first.partition,
        first.level + 1,
        first.base_offset,
        last.next_offset,
        sum(piece.rows for piece in pieces),
        min(sum(piece.bytes for piece in pieces), _MOST_BYTES),
        max(piece.max_timestamp_ms for piece in pieces),
        google_crc32c.value(_body(pieces)),
        pieces,
    )


def checksum(pieces: Iterable[Piece]) -> int:
    """What `ReplaceSegments` says of the pieces that it replaces."""
    return int(google_crc32c.value(repr([piece.identity for piece in pieces]).encode()))


def encode_piece(content: PieceContent) -> bytes:
    """The bytes that are stored for a piece with this content."""
    return _FRAME.wrap(_body(content), next(reversed(schemas())))


def decode_piece(data: Any, piece: Piece, where: str) -> PieceContent:
    """The content of ``piece`` from its bytes. Raises `CorruptRecordError`, `UnsupportedVersionError`."""
    from fastavro import schemaless_reader

    body, schema = _FRAME.unwrap(data, schemas(), where)
    if google_crc32c.value(body) != piece.crc:
        raise CorruptRecordError(f"{where} holds another piece than the one the log knows of")
    try:
        columns: Any = schemaless_reader(BytesIO(body), schema, None)
        content = columns["content"]
        if piece.level:
            return tuple(read_pieces(piece.partition, content))
        return tuple(read_rows(piece.partition[1], content))
    except Exception as error:
        raise CorruptRecordError(f"{where} is no valid piece of an index: {error!r}") from error


def _body(content: PieceContent) -> bytes:
    from fastavro import schemaless_writer

    stream = BytesIO()
    branch: tuple[str, Any] = (
        ("Pieces", piece_columns(content))
        if isinstance(content[0], Piece)
        else ("Rows", rows_columns(content))
    )
    schemaless_writer(stream, list(schemas().values())[-1], {"content": branch})
    return stream.getvalue()


# -- Values to Avro -------------------------------------------------------------------------------------


def rows_columns(rows: Sequence[IndexRow]) -> dict[str, Any]:
    """Index rows as columns."""
    files: dict[FileRef, int] = {}
    table = [_row(row, files) for row in rows]
    columns = zip(*table, strict=True) if table else ((),) * len(ROW_COLUMNS)
    return {
        "files": [file._asdict() for file in files],
        **dict(zip(ROW_COLUMNS, map(list, columns), strict=True)),
    }


def _row(row: IndexRow, files: dict[FileRef, int]) -> tuple[int, ...]:
    head = (row.base_offset, row.count, int(row.kind), *row.producer, row.max_timestamp_ms)
    if row.file is None or row.batch is None:
        return (*head, -1, 0, 0, 0, 0, 0, 0, 0)
    batch = row.batch
    return (
        *head,
        files.setdefault(row.file, len(files)),
        batch.position,
        batch.length,
        batch.crc,
        batch.count,
        batch.min_timestamp_ms,
        batch.max_timestamp_ms,
        batch.base_sequence,
    )


def piece_columns(pieces: Iterable[Piece]) -> dict[str, Any]:
    """What a state keeps of pieces, as columns."""
    table = [piece.identity[1:] for piece in pieces]
    columns = zip(*table, strict=True) if table else ((),) * len(_PIECE_COLUMNS)
    return dict(zip(_PIECE_COLUMNS, map(list, columns), strict=True))


# -- Avro to values -------------------------------------------------------------------------------------


def read_rows(partition: int, columns: dict[str, Any]) -> Iterable[IndexRow]:
    """The rows that `rows_columns` wrote."""
    files = [FileRef(**{**file, "omitted": tuple(file["omitted"])}) for file in columns["files"]]
    kinds = list(Kind)
    for (
        base,
        count,
        kind,
        pid,
        epoch,
        number,
        newest,
        file,
        position,
        length,
        crc,
        records,
        low,
        high,
        seq,
    ) in zip(*(columns[name] for name in ROW_COLUMNS), strict=True):
        stamp = ProducerStamp(pid, epoch, number)
        if file < 0:
            yield IndexRow(base, count, kinds[kind], stamp, newest)
        else:
            batch = BatchRef(partition, records, position, length, crc, low, high, seq)
            yield IndexRow(base, count, kinds[kind], stamp, newest, files[file], batch)


def read_pieces(partition: tuple[str, int], columns: dict[str, Any]) -> Iterable[Piece]:
    """The pieces that `piece_columns` wrote, without their content."""
    for row in zip(*(columns[name] for name in _PIECE_COLUMNS), strict=True):
        yield Piece(partition, *row)
