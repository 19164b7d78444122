"""Index pages as bytes: the same rows give the same bytes, so a page is known by its checksum.

Rows are columns (one Avro array each), and files are listed once: most rows of a page share theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from io import BytesIO
from typing import Any, TypeAlias

import google_crc32c
from immutables import Map

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.encoding.avro import Shape, array, parsed, record, versions
from spark_eos.protocol.encoding.frame import Frame
from spark_eos.protocol.encoding.values import FILE, INDEX_ROWS, ROW_COLUMNS
from spark_eos.protocol.index import IndexPage, IndexRow, Kind, Measures, PageContent, Rows
from spark_eos.protocol.types import BatchRef, FileRef, ProducerStamp

Aborted: TypeAlias = "Map[tuple[int, int], bool]"
"""Producer ids and numbers of aborted transactions."""

_FRAME = Frame(b"EOSIDX", "index page", 1)

_PAGE_COLUMNS = ("level", "base_offset", "next_offset", "rows", "bytes", "max_timestamp_ms", "crc")

_MOST_BYTES = 2**63 - 1
"""No log has more. A larger sum comes from false lengths in a request, and must be storable all the same."""

PAGES = Shape(lambda _: record("Pages", **dict.fromkeys(_PAGE_COLUMNS, array("long"))))
"""The columns that `page_columns` makes of pages."""

_PAGE = Shape(
    lambda version: record("Page", content=[INDEX_ROWS.schema(version), PAGES.schema(version)]),
    newest=INDEX_ROWS.newest,
)


@cache
def written() -> dict[int, Any]:
    """Every schema of pages, by the version of the format that brought it.

    Requests name pages by their checksums. So a page keeps the schema that it had first: a later one is for pages alone
    that need it.
    """
    return versions(_PAGE)


@cache
def schemas() -> dict[bytes, Any]:
    """All schemas by their fingerprints, parsed."""
    return parsed(written().values())


def seal_rows(partition: tuple[str, int], rows: tuple[IndexRow, ...]) -> IndexPage:
    """A page of level 0, with its content."""
    return IndexPage(partition, 0, rows[0].base_offset, rows[-1].next_offset, len(rows), _of_rows, rows)


def seal_tail(partition: tuple[str, int], tail: Rows, start: int, end: int, aborted: Aborted) -> IndexPage:
    """A page of level 0 with the rows number ``start`` to ``end - 1`` of a tail. They stay packed until needed."""
    unsealed = _Unsealed(tail, start, end, aborted)
    first, last = tail[start].base_offset, tail[end - 1].next_offset
    return IndexPage(partition, 0, first, last, end - start, _of_rows, unsealed)


def seal_pages(pages: tuple[IndexPage, ...]) -> IndexPage:
    """A page one level up, with its content."""
    first, last = pages[0], pages[-1]
    rows = sum(page.rows for page in pages)
    return IndexPage(
        first.partition, first.level + 1, first.base_offset, last.next_offset, rows, _of_pages, pages
    )


class _Unsealed:
    """The rows of a page until they are stored, packed as in the tail."""

    __slots__ = ("_aborted", "_end", "_start", "_tail")

    def __init__(self, tail: Rows, start: int, end: int, aborted: Aborted) -> None:
        self._tail, self._start, self._end, self._aborted = tail, start, end, aborted

    def __call__(self) -> tuple[IndexRow, ...]:
        rows = self._tail[self._start : self._end]
        return tuple([self._marked(row) for row in rows] if self._aborted else rows)

    def _marked(self, row: IndexRow) -> IndexRow:
        stamp = row.producer
        if row.kind is Kind.DATA and (stamp.producer_id, stamp.number) in self._aborted:
            return row._replace(kind=Kind.ABORTED)
        return row


def _of_rows(rows: Any) -> Measures:
    size = min(sum(row.batch.length for row in rows if row.batch is not None), _MOST_BYTES)
    return Measures(size, max(row.max_timestamp_ms for row in rows), google_crc32c.value(_body(rows)))


def _of_pages(pages: Any) -> Measures:
    size = min(sum(page.bytes for page in pages), _MOST_BYTES)
    newest = max(page.max_timestamp_ms for page in pages)
    return Measures(size, newest, google_crc32c.value(_body(pages)))


def checksum(pages: Iterable[IndexPage]) -> int:
    """The checksum by which `ReplaceSegments` names the pages that it replaces."""
    return int(google_crc32c.value(repr([page.identity for page in pages]).encode()))


def encode_page(content: PageContent) -> bytes:
    """The bytes that are stored for a page with this content."""
    return _FRAME.wrap(_body(content), [*schemas()][-1])


def decode_page(data: Any, page: IndexPage, where: str) -> PageContent:
    """The content of ``page`` from its bytes. Raises `CorruptRecordError`, `UnsupportedVersionError`."""
    from fastavro import schemaless_reader

    body, schema = _FRAME.unwrap(data, schemas(), where)
    if google_crc32c.value(body) != page.crc:
        raise CorruptRecordError(f"{where} holds another page than the one the log knows of")
    try:
        columns: Any = schemaless_reader(BytesIO(body), schema, None)
        content = columns["content"]
        if page.level:
            return tuple(read_pages(page.partition, content))
        return tuple(read_rows(page.partition[1], content))
    except Exception as error:
        raise CorruptRecordError(f"{where} is no valid index page: {error!r}") from error


def _body(content: PageContent) -> bytes:
    from fastavro import schemaless_writer

    stream = BytesIO()
    branch: tuple[str, Any] = (
        ("Pages", page_columns(content))
        if isinstance(content[0], IndexPage)
        else ("Rows", rows_columns(content))
    )
    schemaless_writer(stream, [*schemas().values()][-1], {"content": branch})
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


def page_columns(pages: Iterable[IndexPage]) -> dict[str, Any]:
    """What a state keeps of pages, as columns."""
    table = [page.identity[1:] for page in pages]
    columns = zip(*table, strict=True) if table else ((),) * len(_PAGE_COLUMNS)
    return dict(zip(_PAGE_COLUMNS, map(list, columns), strict=True))


# -- Avro to values -------------------------------------------------------------------------------------


def read_rows(partition: int, columns: dict[str, Any]) -> Iterable[IndexRow]:
    """The rows that `rows_columns` wrote."""
    files = [FILE.read(file) for file in columns["files"]]
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


def read_pages(partition: tuple[str, int], columns: dict[str, Any]) -> Iterable[IndexPage]:
    """The pages that `page_columns` wrote, without their content."""
    for row in zip(*(columns[name] for name in _PAGE_COLUMNS), strict=True):
        level, base, end, rows, *measures = row
        yield IndexPage(partition, level, base, end, rows, Measures(*measures))
