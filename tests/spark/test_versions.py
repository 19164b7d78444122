"""The versions of Spark: a slice of the tests on the oldest and the newest; scripts/test-matrix runs all on each."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql import types as t

import spark_eos
from spark_eos.errors import ConfigError
from spark_eos.spark import options, version
from spark_eos.spark.options import parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.sink.rejected_files import RefusedStreamReader
from spark_eos.spark.source import source
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.version import ReadAllAvailable
from tests.sparks import SPARK
from verification.cloud_servers import HOME
from verification.processes import ROOT, SPARK_HOME, environment

KILLED = "tests/spark/test_exactly_once.py::test_a_killed_driver_loses_and_doubles_nothing"
SLICE = (
    f"{KILLED}[folder]",
    f"{KILLED}[folder, other moments]",
    "tests/spark/test_versions.py",
)


MACHINES = "tests/spark/test_machines.py::test_a_job_whose_machines_share_nothing_but_the_store"
COPY = ROOT / "tests" / "spark" / "drivers" / "copy_topic.py"
OF_OTHERS = pytest.mark.parametrize("other", ["4.1", "4.3"])


@pytest.mark.skipif(SPARK != (4, 2), reason="this is the slice")
@pytest.mark.deep
@OF_OTHERS
def test_a_slice_of_the_tests(other, tmp_path):
    passes(other, tmp_path, *SLICE)


@pytest.mark.skipif(SPARK != (4, 2), reason="this is one of its tests")
@pytest.mark.deep
@OF_OTHERS
def test_machines_that_share_nothing_but_the_store(other, tmp_path):
    passes(other, tmp_path, MACHINES)


@pytest.mark.skipif(SPARK != (4, 2), reason="it runs each")
@pytest.mark.deep
@pytest.mark.parametrize(
    "sparks",
    [["4.1", "4.3"], ["4.1", "4.2", "4.3", "4.1"]],
    ids=["from the oldest to the newest", "to each and back"],
)
def test_a_checkpoint_goes_from_one_spark_to_another(bench, tmp_path, sparks):
    for number, spark in enumerate(sparks):
        packages = SPARK_HOME.parent if spark == "4.2" else folder(spark)
        bench.topic("src", 2)
        bench.produce("src", range(10 * number, 10 * number + 10))
        arguments = [COPY, bench.url, "src", "copied", tmp_path / "checkpoint", 1000]
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env=environment(
                PYTHONPATH=os.pathsep.join([str(packages), str(ROOT)]), SPARK_HOME=f"{packages}/pyspark"
            ),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert f"Spark {spark}." in done.stdout
        assert bench.values("copied") == [*range(10 * number + 10)]
    (query,) = bench.state.queries.values()
    assert query.batch_id == len(sparks) - 1


def folder(other):
    spark = HOME / f"spark-{other}"
    if not (spark / "version").exists():
        pytest.skip(f"Spark {other} is not there: scripts/servers spark")
    return spark


def passes(other, tmp_path, *arguments):
    spark = folder(other)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(spark), str(ROOT)]),
            "PYTEST_DEBUG_TEMPROOT": str(tmp_path),
            "PYTEST_ADDOPTS": "",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert f"Spark {other}." in done.stdout


@pytest.mark.parametrize("number", [f"{minor}.7" for minor in version.TRIED])
def test_what_was_tried_is_taken(number):
    version.check_version(number)


@pytest.mark.parametrize("number", ["3.5.9", "4.0.5", "4.10.0", "5.0.0.dev1"])
def test_what_was_not_tried_is_refused_by_its_number(number, monkeypatch):
    monkeypatch.delenv(version.UNTRIED, raising=False)
    with pytest.raises(ConfigError, match=rf"this is Spark {number}.*4\.1 to 4\.3.*{version.UNTRIED}=true"):
        version.check_version(number)
    monkeypatch.setenv(version.UNTRIED, "true")
    version.check_version(number)


def test_the_source_and_the_sink_ask_first(log_url, monkeypatch):
    monkeypatch.setattr("spark_eos.spark.datasource.check_version", lambda: version.check_version("9.0.0"))
    from spark_eos.spark.datasource import EosLogDataSource

    with pytest.raises(ConfigError, match=r"this is Spark 9\.0\.0"):
        EosLogDataSource({"path": log_url})


@pytest.mark.parametrize("kind", ["BatchTransaction", "MicroBatchTransaction"])
def test_transactions_ask_first(kind, log_url, monkeypatch):
    monkeypatch.setattr(
        "spark_eos.spark.transactions.transaction.check_version", lambda: version.check_version("4.0.5")
    )
    frame = () if kind == "BatchTransaction" else (None, 0)
    with pytest.raises(ConfigError, match=r"this is Spark 4\.0\.5"):
        getattr(spark_eos, kind)(*frame, log_url)


def test_a_spark_without_sources_in_python_is_told_by_its_number(tmp_path):
    (tmp_path / "pyspark/sql").mkdir(parents=True)
    (tmp_path / "pyspark/__init__.py").write_text("__version__ = '3.5.9'\n")
    (tmp_path / "pyspark/sql/__init__.py").touch()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom spark_eos import BatchTransaction"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "ConfigError: this is Spark 3.5.9; format('eoslog') was tried with" in done.stderr.splitlines()[-1]


@pytest.fixture
def _old_spark(monkeypatch):
    """A Spark that gives no limits, which is not told that there are any."""
    for module in (options, source):
        monkeypatch.setattr(module, "HAS_READ_LIMITS", False)
        monkeypatch.setattr(module, "SPARK", "4.1.4")


def given(bench, **more):
    return {"path": bench.url, "subscribe": "src", "startingOffsets": "earliest", **more}


@pytest.mark.usefixtures("_old_spark")
def test_without_limits_a_source_that_waits_is_refused(bench):
    with pytest.raises(ConfigError, match=r"minOffsetsPerTrigger needs Spark 4\.2 or later: Spark 4\.1\.4"):
        parse_source(given(bench, minOffsetsPerTrigger="5"), streaming=True)


@pytest.mark.usefixtures("_old_spark")
def test_without_limits_all_is_read_and_the_limit_is_warned_of(bench, caplog):
    bench.topic("src")
    bench.produce("src", range(7))
    reader = EosLogStreamReader(
        parse_source(given(bench, maxOffsetsPerTrigger="2"), streaming=True), kafka_schema()
    )
    assert "maxOffsetsPerTrigger has no effect: Spark 4.1.4" in caplog.text
    assert reader.latestOffset()["src"] == {"0": 7}


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_without_a_start_a_source_goes_on_where_the_last_plan_ended(bench, start):
    bench.topic("src")
    bench.produce("src", range(7))

    def make():
        options = parse_source(given(bench, startingOffsets=start), streaming=True)
        return EosLogStreamReader(options, kafka_schema())

    first = make()
    end = first.latestOffset()
    assert first.latestOffset() == end, "not planned yet: the same question"
    first.partitions(first.initialOffset(), end)
    bench.produce("src", range(3))
    later = first.latestOffset()
    assert (later["src"], later["@eoslog"]["initial"]) == ({"0": 10}, end["@eoslog"]["initial"])

    again = make()  # What Spark 4.1 does at a restart, with all done.
    again.partitions(end, end)
    assert again.latestOffset() == later


@pytest.mark.parametrize("given", [(), ({}, ReadAllAvailable())], ids=["4.1", "since 4.2"])
def test_a_stream_that_cannot_begin_says_why_to_each_spark(given):
    with pytest.raises(ConfigError, match="this is why"):
        RefusedStreamReader(ConfigError("this is why")).latestOffset(*given)


def test_a_struct_is_read_whose_fields_have_the_names_of_a_geometry():
    shape = pa.struct([pa.field("wkb", pa.binary()), pa.field("srid", pa.int32())])
    plain = t.StructType([t.StructField("wkb", t.BinaryType()), t.StructField("srid", t.IntegerType())])
    for arrow, spark in (
        (shape, plain),
        (pa.list_(shape), t.ArrayType(plain)),
        (pa.map_(pa.string(), shape), t.MapType(t.StringType(), plain)),
        (pa.struct([pa.field("in", shape)]), t.StructType([t.StructField("in", plain)])),
    ):
        assert version.from_arrow_type(arrow) == spark


def test_empty_nested_values_get_the_offsets_that_spark_4_1_leaves_out(monkeypatch):
    """SPARK-55056: where they are read, Arrow reads past the end of nothing."""
    monkeypatch.setattr(version, "_LEAVES_OFFSETS_OUT", True)
    empty = pa.array([], pa.string())
    for inner, children in (
        (pa.list_(pa.string()), [empty]),
        (
            pa.map_(pa.string(), pa.string()),
            [pa.array([], pa.struct([("key", pa.string()), ("value", pa.string())]))],
        ),
    ):
        nothing = pa.Array.from_buffers(inner, 0, [None, pa.py_buffer(b"")], children=children)
        assert nothing.buffers()[1].size == 0
        zero = pa.py_buffer(bytes(8))
        lists = pa.Array.from_buffers(pa.list_(inner), 1, [pa.py_buffer(b"\0"), zero], children=[nothing])
        structs = pa.StructArray.from_arrays([lists], names=["a"])
        batch = version.with_offsets(pa.record_batch([lists, structs, pa.array([1])], ["a", "b", "c"]))
        batch.validate(full=True)
        assert (
            batch.column("a").values.buffers()[1] is None or batch.column("a").values.buffers()[1].size >= 4
        )
        assert batch.to_pylist() == [{"a": None, "b": {"a": None}, "c": 1}]


def test_whole_nested_values_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(version, "_LEAVES_OFFSETS_OUT", True)
    type_ = pa.struct(
        [("a", pa.list_(pa.list_(pa.int64()))), ("m", pa.map_(pa.string(), pa.list_(pa.int8())))]
    )
    rows = [
        None,
        {"a": None, "m": None},
        {"a": [[1, None], [], None], "m": [("k", [1]), ("l", None)]},
        {"a": [], "m": []},
    ]
    batch = pa.record_batch(
        [pa.array(rows, type_), pa.array([[row] for row in rows], pa.list_(type_))], ["s", "l"]
    )
    for part in (batch, batch.slice(1), batch.slice(2, 1)):
        assert version.with_offsets(part).equals(part)
        version.with_offsets(part).validate(full=True)
