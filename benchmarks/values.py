"""What values with a format cost: Avro and JSON to columns and back, and one by one.

``python -m benchmarks.values`` prints rows per second, the best of five rounds.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import random
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa

from spark_eos.extensions.value_formats.formats import codec_for
from spark_eos.extensions.value_formats.settings import ValueSettings

ROWS = 100_000
SCHEMA = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "carrier", "type": "string"},
        {"name": "origin", "type": "string"},
        {"name": "dest", "type": "string"},
        {"name": "delay", "type": ["null", "double"]},
        {"name": "distance", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["LATE", "ON_TIME"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "note", "type": ["null", "string"]},
    ],
}


def rows(count: int) -> list[dict[str, Any]]:
    """Rows of the schema, the same ones each time."""
    dice = random.Random(1)
    noon = dt.datetime(2026, 11, 24, 12, tzinfo=dt.timezone.utc)
    return [
        {
            "id": number * 7919,
            "carrier": dice.choice(["UA", "AA", "DL"]),
            "origin": "EWR",
            "dest": dice.choice(["IAH", "MIA", "ORD"]),
            "delay": dice.choice([None, 1.5, -3.0]),
            "distance": dice.randint(100, 5000),
            "at": noon + dt.timedelta(seconds=number),
            "fare": Decimal(dice.randint(1000, 99999)).scaleb(-2),
            "state": dice.choice(["LATE", "ON_TIME"]),
            "tags": ["a", "bb"][: dice.randint(0, 2)],
            "note": dice.choice([None, "a note of some length, as people write them"]),
        }
        for number in range(count)
    ]


def best(work: Callable[[], Any]) -> float:
    """Rows per second."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return ROWS / min(times)


def main() -> None:
    """Print the table."""
    codec = codec_for(ValueSettings("t", "avro-single-object", json.dumps(SCHEMA)))
    assert codec.fields is not None
    given, fields = rows(ROWS), list(codec.fields)
    schema = pa.schema(fields)
    values = [codec.encode(row) for row in given]
    array = pa.array(values, pa.binary())
    batch = pa.RecordBatch.from_pylist(given, schema=schema)
    encode, parsed = codec.encoder(schema), fastavro.parse_schema(SCHEMA)

    def one_by_one() -> None:
        found = [fastavro.schemaless_reader(io.BytesIO(value[10:]), parsed, None) for value in values]
        pa.RecordBatch.from_pylist(found, schema=schema)

    def written_one_by_one() -> None:
        for row in batch.to_pylist():
            fastavro.schemaless_writer(io.BytesIO(), parsed, row)

    text = codec_for(ValueSettings("t", "json"))
    names = ("id", "carrier", "origin", "dest", "delay", "distance", "state", "tags", "note")
    plain = batch.select(names)
    encode_json = text.encoder(plain.schema)
    lines = encode_json(plain)[0]
    print(f"{sum(map(len, values)) / ROWS:.0f} bytes a value")
    for title, work in {
        "Avro: decode to columns": lambda: codec.decode_columns(array, fields),
        "Avro: fastavro one by one to dicts, and these to columns": one_by_one,
        "Avro: encode columns": lambda: encode(batch),
        "Avro: columns to dicts, and these by fastavro one by one": written_one_by_one,
        "Avro: a client's encode": lambda: [codec.encode(row) for row in given],
        "Avro: a client's decode": lambda: [codec.decode(value) for value in values],
        "JSON: decode to columns": lambda: text.decode_columns(lines, list(plain.schema)),
        "JSON: json.loads one by one, and these to columns": lambda: pa.RecordBatch.from_pylist(
            [json.loads(line) for line in lines.to_pylist()], schema=plain.schema
        ),
        "JSON: encode columns": lambda: encode_json(plain),
    }.items():
        print(f"{best(work):12,.0f}  {title}")


if __name__ == "__main__":
    main()
