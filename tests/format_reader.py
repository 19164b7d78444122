"""A reader of logs in folders, written from docs/reference/format.md: the standard library, fastavro and pyarrow.

It imports nothing of spark_eos, so `tests/test_format.py` proves the page by it.
"""

from __future__ import annotations

import json
import struct
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from fastavro.schema import fingerprint, to_parsing_canonical_form

AVRO = Path(__file__).parent.parent / "docs/reference/avro"
SCHEMAS = {}
for path in AVRO.glob("*.avsc"):
    schema = json.loads(path.read_text(encoding="utf-8"))
    number = bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
    SCHEMAS[number] = fastavro.parse_schema(schema)

DATA, ABORT, COMMIT, ABORTED, NOTHING = range(5)
TIMESTAMP = pa.timestamp("ms", "UTC")
HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
KAFKA = [("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)]

TABLE = list(range(256))
for _ in range(8):
    TABLE = [crc >> 1 ^ (0x82F63B78 if crc & 1 else 0) for crc in TABLE]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def fields_of(kind):
    """The fields of a record; none of another type."""
    return kind.get("fields", []) if isinstance(kind, dict) else []


PACKED = {}
for schema in [json.loads(path.read_text("utf-8")) for path in sorted(AVRO.glob("snapshot-*.avsc"))]:
    for column in (column for field in schema["fields"] for column in fields_of(field["type"])):
        if column["name"].startswith("as_"):
            PACKED[column["name"]] = fastavro.parse_schema(column["type"]["items"]["packed"])


def in_parts(columns):
    """The records of a map that is stored in parts."""
    ((name, parts),) = ((name, parts) for name, parts in columns.items() if name != "parts")
    for part in parts:
        yield from fastavro.schemaless_reader(BytesIO(part), PACKED[name], None)


def unframe(data, magic):
    """The record."""
    found, version, number, crc = struct.unpack_from(">6sH8sI", data)
    assert (found, version, crc) == (magic, 1, crc32c(data[20:]))
    options = {"return_record_name": True, "return_record_name_override": True}
    return fastavro.schemaless_reader(BytesIO(data[20:]), SCHEMAS[number], **options)


def keys_of(runs):
    """The partitions of runs."""
    return [(run["topic_id"], run["first"] + more) for run in runs for more in range(run["count"])]


def rows_of(columns):
    """Index rows as dictionaries; ``file`` is None where there is none."""
    names = [name for name in columns if name != "files"]
    for values in zip(*(columns[name] for name in names), strict=True):
        row = dict(zip(names, values, strict=True))
        yield {**row, "file": columns["files"][row["file"]] if row["file"] >= 0 else None}


def packed_rows(body, heads):
    """Rows of packed blocks; ``heads`` has a list of (kind, producer id, epoch, number, file) for each block."""

    def column(count):
        nonlocal at
        low, width = body[at] >> 4, body[at] & 15
        least = int.from_bytes(body[at + 1 : at + 1 + low], "little", signed=True)
        at += 1 + low + width * count
        parts = [body[at - width * more : at - width * (more - 1)] for more in range(count, 0, -1)]
        return [least + (int.from_bytes(part, "little") if width else 0) for part in parts]

    at = 0
    for of in heads:
        count, _, width = struct.unpack_from("<BHB", body, at)
        base = int.from_bytes(body[at + 4 : at + 4 + width], "little", signed=True)
        flags = body[at + 4 + width]
        at += 5 + width
        counts, newest = column(count), column(count)
        bases = column(count) if flags & 1 else [base + sum(counts[:n]) for n in range(count)]
        filed = sum(head[4] is not None for head in of)
        columns = iter(zip(*[column(filed) for _ in range(8)], strict=True) if filed else ())
        for (kind, pid, epoch, number, file), first, one, time in zip(of, bases, counts, newest, strict=True):
            row = {"base_offset": first, "count": one, "kind": kind, "producer_id": pid, "epoch": epoch}
            row |= {"number": number, "max_timestamp_ms": time, "file": file}
            if file is not None:
                _, more, position, length, crc, low, high, sequence = next(columns)
                row |= {"records": more + one, "position": position, "length": length, "crc": crc}
                row |= {"min_timestamp_ms": time - low, "batch_max_timestamp_ms": time - high}
                row |= {"base_sequence": sequence + (first if flags & 2 else 0)}
            yield row


class Partition:
    def __init__(self, start=0, end=0):
        self.start, self.end, self.rows, self.open, self.aborted = start, end, [], {}, set()

    @property
    def stable(self):
        return min(self.open.values(), default=self.end)


class Reader:
    """The state of a log: ``topics`` (name to id and schemas) and ``partitions`` by topic id and number."""

    def __init__(self, folder):
        self.folder, self.lineage, self.per_folder = Path(folder), b"", 0
        self.topics, self.partitions = {}, {}
        self.open, self.touched, self.windows, self.prepared = {}, {}, {}, set()
        first = unframe(self.entry(0), b"EOSLOG")
        self.per_folder = first["requests"][0]["actions"][0][1]["entries_per_folder"]
        snapshots = sorted((self.folder / "_log/snapshots").glob("*.avro"))
        seq = self.load(unframe(snapshots[-1].read_bytes(), b"EOSSNP")) if snapshots else 0
        while data := self.entry(seq):
            self.apply(unframe(data, b"EOSLOG"))
            seq += 1

    def entry(self, seq):
        folder = f"{seq // self.per_folder:012d}/" if self.per_folder and seq >= self.per_folder else ""
        path = self.folder / f"_log/{folder}{seq:020d}.avro"
        return path.read_bytes() if path.exists() else None

    def load(self, state):
        """Begin with a snapshot; the number of the next entry."""
        self.lineage = state["lineage"]
        self.topics = {one["name"]: (one["topic_id"], one["schemas"]) for one in state["topics"]}
        for one in in_parts(state["producers"]):
            pid, windows = one["producer_id"], one["sequences"]
            if one["transaction"] == "Prepared":
                self.prepared.add(pid)
            if one["transaction"] in {"Ongoing", "Prepared"}:
                self.open[pid], self.touched[pid] = one["number"], {*keys_of(one["touched"])}
            numbers = iter(windows["numbers"])
            for key, count in zip(keys_of(windows["runs"]), windows["counts"], strict=True):
                flat = [next(numbers) for _ in range(count)]
                self.windows[pid, key] = [tuple(flat[at : at + 3]) for at in range(0, len(flat), 5)]
        self.load_columns(state["partitions"])
        return state["seq"] + 1

    def load_columns(self, columns):
        keys = keys_of(columns["runs"])
        for key, start, end in zip(keys, columns["starts"], columns["ends"], strict=True):
            self.partitions[key] = Partition(start, end)
        for one in columns["others"]:
            partition, key = self.partitions[keys[one["at"]]], keys[one["at"]]
            partition.open, partition.aborted = dict(one["open"]), set(map(tuple, one["aborted"]))
            partition.rows = [*self.pages(key, one["pages"])]
        files = [*columns["files"], None]
        heads = [(*head, files[file]) for *head, file in zip(*[iter(columns["heads"])] * 5, strict=True)]
        lists = iter([[heads[one] for one in columns["lists"][number]] for number in columns["blocks"]])
        body = columns["body"]
        for at, _, size, blocks in zip(*[iter(columns["tails"])] * 4, strict=True):
            rows = packed_rows(body[:size], [next(lists) for _ in range(blocks)])
            self.partitions[keys[at]].rows += rows
            body = body[size:]

    def pages(self, key, columns):
        """The rows of index pages, and of the pages in them."""
        for level, base, end, _, _, _, crc in zip(*columns.values(), strict=True):
            name = f"{level}-{base:020d}-{end:020d}-{crc:08x}.avro"
            path = self.folder / f"_log/index/{quote(key[0], safe='')}/{key[1]}/{name}"
            page = unframe(path.read_bytes(), b"EOSIDX")
            kind, content = page["content"]
            yield from self.pages(key, content) if kind == "Pages" else rows_of(content)

    def apply(self, entry):
        """One entry. All of its requests were accepted, as a correct writer stores no others."""
        assert entry["previous"] == self.lineage
        ids = b"".join(request["request_id"] for request in entry["requests"])
        self.lineage = blake2b(self.lineage + ids + b"%d" % entry["seq"], digest_size=16).digest()
        for request in entry["requests"]:
            for name, action in request["actions"]:
                getattr(self, name, lambda _: None)(action)

    def CreateTopic(self, action):
        self.topics[action["name"]] = (action["topic_id"], [action["schema"]] if action["schema"] else [])
        self.AlterTopic({**action, "schema": None})

    def AlterTopic(self, action):
        topic_id, schemas = self.topics[action["name"]]
        for number in range(action["partitions"] or 0):
            self.partitions.setdefault((topic_id, number), Partition())
        schemas += [action["schema"]] if action["schema"] else []

    def DeleteTopic(self, action):
        del self.topics[action["name"]]
        for key in [key for key in self.partitions if key[0] == action["topic_id"]]:
            del self.partitions[key]

    def InitProducer(self, action):
        if not (action["keep_prepared"] and action["producer_id"] in self.prepared):
            self.end(action["producer_id"], ABORT)

    def PrepareTransaction(self, action):
        self.prepared.add(action["producer"]["producer_id"])

    def AppendBatches(self, action):
        stamp, ids = action["producer"], {one["name"]: one["value"] for one in action["topics"]}
        pid, epoch, number = stamp["producer_id"], stamp["epoch"], stamp["number"]
        for file in action["files"]:
            for batch in zip(*file["batches"].values(), strict=True):
                partition, count, position, length, crc, _, high, sequence = batch
                key = (ids[file["topic"]], partition)
                window = self.windows.setdefault((pid, key), [])
                if sequence >= 0 and (epoch, number, sequence) in window:
                    continue
                if sequence >= 0:
                    window[:] = [*window, (epoch, number, sequence)][-5:]
                into = self.partitions[key]
                row = {"kind": DATA, "base_offset": into.end, "count": count, "records": count}
                row |= {"producer_id": pid, "number": number, "file": file["file"], "position": position}
                row |= {"length": length, "crc": crc, "max_timestamp_ms": high}
                if number >= 0:
                    into.open.setdefault(pid, into.end)
                    self.open[pid] = number
                    self.touched.setdefault(pid, set()).add(key)
                into.rows.append(row)
                into.end += count

    def EndTransaction(self, action):
        if self.open.get(action["producer"]["producer_id"]) == action["producer"]["number"]:
            self.end(action["producer"]["producer_id"], COMMIT if action["commit"] else ABORT)

    def FollowDecision(self, action):
        self.EndTransaction(action)

    def ExpireTransaction(self, action):
        self.end(action["producer"]["producer_id"], ABORT)

    def end(self, pid, kind):
        self.prepared.discard(pid)
        number = self.open.pop(pid, None)
        for key in self.touched.pop(pid, set()) & self.partitions.keys():
            into = self.partitions[key]
            into.rows.append({"kind": kind, "base_offset": into.end, "count": 1, "file": None})
            into.end += 1
            del into.open[pid]
            if kind == ABORT:
                into.aborted.add((pid, number))

    def AdvanceLogStart(self, action):
        offsets = action["offsets"]
        for key, offset in zip(keys_of(offsets["runs"]), offsets["offsets"], strict=True):
            into = self.partitions[key]
            into.start = max(into.start, into.stable if offset == -1 else offset)

    def ReplaceSegments(self, action):
        into = self.partitions[action["topic_id"], action["partition"]]
        base, end = action["base_offset"], action["next_offset"]
        kept = [row for row in into.rows if not base <= row["base_offset"] < end]
        into.rows = sorted([*kept, *rows_of(action["rows"])], key=lambda row: row["base_offset"])

    # -- records

    def records(self, topic, partition):
        """Offsets and rows (as dictionaries) that a read_committed reader sees."""
        topic_id, schemas = self.topics[topic]
        into = self.partitions[topic_id, partition]
        for row in into.rows:
            hidden = row["kind"] != DATA or (row["producer_id"], row["number"]) in into.aborted
            if not hidden and row["base_offset"] < into.stable:
                for offset, values in self.batch(row, schemas):
                    if offset >= into.start:
                        yield offset, values

    def batch(self, row, schemas):
        file = row["file"]
        newest, ids = columns_of(schemas, len(schemas)), [*schema_ids(schemas, len(schemas))]
        before = [*schema_ids(schemas, file["schema_version"])]
        written = columns_of(schemas, file["schema_version"])
        if file["footer"]:
            for offset, values in self.row_group(row, written):
                own = converted(values, before, ids) if ids else values
                yield offset, {f.name: own.get(f.name, values[written[-1].name]) for f in newest}
            return
        stored = [field for field in written if field.name not in file["omitted"]]
        if file["offsets"]:
            stored.insert(0, pa.field("_skipped", pa.uint16(), nullable=False))
        with (self.folder / file["name"]).open("rb") as stream:
            stream.seek(row["position"])
            data = stream.read(row["length"])
        assert crc32c(data) == row["crc"]
        offset = row["base_offset"] - 1
        for message in pa.ipc.MessageReader.open_stream(data):
            for values in pa.ipc.read_record_batch(message, pa.schema(stored)).to_pylist():
                offset += 1 + values.pop("_skipped", 0)
                time = pa.scalar(
                    row.get("batch_max_timestamp_ms", row["max_timestamp_ms"]), TIMESTAMP
                ).as_py()
                row_time = values.get(newest[-1].name, time)
                own = converted(values, before, ids) if ids else values
                yield offset, {f.name: row_time if f is newest[-1] else own.get(f.name) for f in newest}

    def row_group(self, row, written):
        """Offsets and rows of a batch in a Parquet file, in the columns of the version that it was written with."""
        file, (*own, time) = row["file"], written
        # A file with these two ranges and nothing else: no other byte is needed.
        data = bytearray(file["size"])
        ranges = [
            (row["position"], row["length"], row["crc"]),
            (file["size"] - file["footer"], file["footer"], file["footer_crc"]),
        ]
        with (self.folder / file["name"]).open("rb") as stream:
            for position, length, crc in ranges:
                stream.seek(position)
                data[position : position + length] = stream.read(length)
                assert crc32c(data[position : position + length]) == crc
        assert data[-4:] == b"PAR1"
        assert struct.unpack("<I", data[-8:-4])[0] + 8 == file["footer"]
        with pq.ParquetFile(pa.py_buffer(data)) as parquet:
            first = [
                min(one.data_page_offset, one.dictionary_page_offset or one.data_page_offset)
                for number in range(parquet.num_row_groups)
                for one in [parquet.metadata.row_group(number).column(0)]
            ]
            table = parquet.read_row_group(first.index(row["position"]))
        mark = "" if time.name == "timestamp" else "_"
        places = [pa.field(f"{mark}partition", pa.int32()), pa.field(f"{mark}offset", pa.int64())]
        columns = [*own, *places, time] if mark else [*own, time, *places]
        assert table.schema.names == [column.name for column in columns]
        # One column after the other: milliseconds from microseconds, durations from numbers.
        table = pa.table({f.name: table.column(f.name).cast(f.type) for f in columns})
        assert table.num_rows == row["records"]
        before = row["base_offset"] - 1
        for values in table.to_pylist():
            number, offset = (values.pop(one.name) for one in places)
            assert number == row.get("partition", number)
            assert before < offset < row["base_offset"] + row["count"]
            assert file["offsets"] or offset == before + 1
            before = offset
            yield offset, values


def schema_ids(schemas, version):
    """The topic's own columns with their ids: (id, field, what is inside of it) for each; none if it has no schema."""
    if not version:
        return
    schema, count = pa.ipc.read_schema(pa.py_buffer(schemas[version - 1])), iter(range(1, 10_000))

    def id_of(field):
        return (
            int(field.metadata[b"field.id"]) if b"schema.version" in (schema.metadata or {}) else next(count)
        )

    def inner(type_):
        if pa.types.is_struct(type_):
            return [
                (id_of(field), field, inner(field.type))
                for field in map(type_.field, range(type_.num_fields))
            ]
        if pa.types.is_list(type_):
            return [(0, type_.value_field, inner(type_.value_type))]
        if pa.types.is_map(type_):
            return [(0, one, inner(one.type)) for one in (type_.key_field, type_.item_field)]
        return []

    for field in schema:
        yield id_of(field), field, inner(field.type)


def converted(row, before, now):
    """A struct's values by the names of a newer version, each in its type there."""
    old = {field_id: (field, inner) for field_id, field, inner in before}
    return {
        field.name: value_of(row.get(old[field_id][0].name), *old[field_id], field, inner)
        if field_id in old
        else None
        for field_id, field, inner in now
    }


def value_of(value, old, old_inner, new, new_inner):
    if value is None:
        return None
    if pa.types.is_struct(new.type):
        return converted(value, old_inner, new_inner)
    if pa.types.is_list(new.type):
        return [value_of(one, *old_inner[0][1:], *new_inner[0][1:]) for one in value]
    if pa.types.is_map(new.type):
        return [(key, value_of(one, *old_inner[1][1:], *new_inner[1][1:])) for key, one in value]
    return pa.scalar(value, old.type).cast(new.type).as_py()


def columns_of(schemas, version):
    """The stored columns of a version of a topic's schema, the timestamp last."""
    if not version:
        return [*(pa.field(*one) for one in KAFKA), pa.field("timestamp", TIMESTAMP, nullable=False)]
    own = pa.ipc.read_schema(pa.py_buffer(schemas[version - 1]))
    return [*(f.remove_metadata() for f in own), pa.field("_timestamp", TIMESTAMP, nullable=False)]
