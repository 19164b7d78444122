"""Spark with Delta's own jar reads every version of published tables exactly, also where it skips files."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.extensions.tables.world import World, in_order
from tests.jobs.test_delta import CONF, missing_jar, with_delta
from verification.processes import ROOT, running, spark_submit

ODD = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int8()),
        ("real", pa.float64()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("far", pa.timestamp("us", "UTC")),
        ("sign", pa.string()),
        ("money", pa.decimal128(30, 2)),
        ("raw", pa.binary()),
        ("place", pa.struct([("x", pa.int32()), ("in", pa.struct([("y", pa.string())]))])),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.float32())),
    ]
)


def odd_row(n):
    return {
        "id": n,
        "small": n % 100,
        "real": float("nan") if n % 4 == 3 else -n / 8,
        "flag": n % 2 == 0,
        "text": "ü" * 40 + chr(0x41 + n % 26) if n % 3 else None,
        "day": date(1, 1, 1 + n % 28) if n % 2 else date(2026, 2, 1 + n % 28),
        "at": datetime(2026, 1, 1, 0, 0, n % 60, 123_456, timezone.utc),
        "local": datetime(1969, 12, 31, 23, 59, n % 60, 999_999),  # noqa: DTZ001
        "far": datetime(9999, 12, 31, 23, 59, 59, 999_999 - n % 2, timezone.utc),
        "sign": chr(0xFFFFF + n % 2),
        "money": Decimal(n) * Decimal("-12345678901234567890.01"),
        "raw": bytes([n % 256, 255]),
        "place": None if n % 5 == 0 else {"x": n, "in": {"y": f"y{n}"}},
        "list": [n, None],
        "map": [(f"k{n}", n / 2)],
    }


CONDITIONS = {
    "id = 5": lambda row: row["id"] == 5,
    "real > 0": lambda row: row["real"] != row["real"],
    "text > repeat('ü', 40)": lambda row: row["text"] is not None,
    "at > timestamp'2026-01-01 00:00:05.123455Z'": lambda row: row["at"].second >= 5,
    "far > timestamp'9999-12-31 23:59:59.999998Z'": lambda row: row["far"].microsecond == 999_999,
    "sign = '\U00100000'": lambda row: row["sign"] == "\U00100000",
    "money < -60000000000000000000": lambda row: row["money"] < -60000000000000000000,
    "place.in.y = 'y7'": lambda row: row["place"] is not None and row["place"]["in"]["y"] == "y7",
    "place is null": lambda row: row["place"] is None,
    "day < date'0001-01-05'": lambda row: row["day"] < date(1, 1, 5),
}
"""Conditions, and what they mean; NaN is larger than all numbers."""


@with_delta
@pytest.mark.deep
def test_spark_reads_every_version_exactly(tmp_path):
    pytest.importorskip("delta", reason="delta-spark is not installed")
    world = World(tmp_path / "log")
    world.admin.create_topic("odd", 2, schema=ODD)
    world.tables.create("p", ["events", "orders", "odd"])
    for _ in range(2):
        world.write(4, ["events", "orders", "odd"], make={"odd": odd_row})
        world.tables.publish("p")
    world.admin.alter_topic("orders", add_columns={"more": pa.float64()})
    world.write(2, ["orders"])
    world.admin.delete_records({("odd", 1): 3})
    world.tables.publish("p")
    where = {one.topic: one.location for one in world.tables.list_tables()}
    versions = world.tables.versions("p")
    reads = [
        (where[one.topic], one.version, None, str(tmp_path / f"{n}.arrow")) for n, one in enumerate(versions)
    ]
    newest = world.tables.versions("p", "odd")[0]
    filtered = [
        (where["odd"], newest.version, condition, str(tmp_path / f"c{n}.arrow"))
        for n, condition in enumerate(CONDITIONS)
    ]
    (tmp_path / "reads.json").write_text(json.dumps([*reads, *filtered]))
    job = spark_submit(ROOT / "tests/extensions/tables/spark_reads.py", tmp_path / "reads.json", conf=CONF)
    with running(job, tmp_path / "spark.out") as process:
        process.until(lambda: not process.running or "unresolved dependency" in process.text, "the end")
        if "unresolved dependency" in process.text:
            missing_jar(process.text)
        process.succeed()
    for one, (*_, output) in zip(versions, reads, strict=True):
        found = in_order(read(output))
        expected = world.expected(one.topic, one.entry, found.schema.names)
        assert text(found) == text(expected), one
    rows = world.expected(
        "odd", newest.entry, [*ODD.names, "_partition", "_offset", "_timestamp"]
    ).to_pylist()
    for (condition, holds), (*_, output) in zip(CONDITIONS.items(), filtered, strict=True):
        found = {row["id"] for row in read(output).to_pylist()}
        assert found == {row["id"] for row in rows if holds(row)}, condition


def read(path):
    with pa.memory_map(path) as source:
        return pa.ipc.open_file(source).read_all()


def text(table):
    """The rows as text, in which NaN equals itself."""
    return [repr(sorted(row.items())) for row in table.to_pylist()]
