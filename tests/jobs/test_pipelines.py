"""Declarative pipelines: the guide's project under the real `spark-pipelines`."""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path

import pytest

from spark_eos import Admin, Consumer, Producer
from verification.processes import SPARK_HOME, running

PAGE = (Path(__file__).resolve().parents[2] / "docs/guide/pipelines.md").read_text("utf-8")
AGAIN = """
dp.create_sink("again", "eoslog", {"path": log, "topic": "again"})


@dp.append_flow(target="again", name="copy_again")
def copy_again():
    return arrivals().select("key", "value")


@dp.materialized_view
def flight_check():
    return spark.read.table("flights").selectExpr("COUNT(*) AS rows", "COUNT(DISTINCT flight) AS flights")
"""
"""A sink without `transactional.id`, and what is in the table."""


ENVIRON = {
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_TESTING": "1",  # Another port of Spark Connect for each test.
}


class Project:
    """The guide's pipeline in a folder."""

    def __init__(self, folder, retries="0"):
        self.folder = folder
        self.retries = retries
        self.log = f"{folder}/data/log"
        spec = "".join(re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
        (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
        (folder / "transformations").mkdir()
        (folder / "spark-pipeline.yml").write_text(self._here(spec))
        (folder / "transformations" / "flights.py").write_text(self._here(code + AGAIN))
        self._runs = 0

    def _here(self, text):
        return text.replace("/data/", f"{self.folder}/data/")

    def command(self, *arguments):
        """The command line of a run. Of more than ten settings (some are its own) Spark takes the last ones alone."""
        settings = {
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.pipelines.maxFlowRetryAttempts": self.retries,
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.enabled": "false",
        }
        conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command = ["sh", "-c", 'cd "$0" && exec "$@"', str(self.folder)]  # Where Spark puts its tables.
        command += [str(SPARK_HOME / "bin" / "spark-pipelines"), "run", *conf]
        command += ["--spec", "spark-pipeline.yml", *arguments]
        return command

    def run(self, *arguments):
        """The exit code and the output of a run."""
        self._runs += 1
        with running(self.command(*arguments), self.folder / f"run-{self._runs}.out", **ENVIRON) as process:
            end = time.monotonic() + 300
            while process.running and time.monotonic() < end:
                time.sleep(0.05)
            return process.code, process.text

    def produce(self, numbers):
        with Producer(self.log) as producer:
            for number in numbers:
                producer.send("flights", str(number).encode())

    def values(self, topic):
        """The values of a topic."""
        with Consumer(self.log, {"auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([(topic, 0)])
            found = consumer.poll(timeout_ms=1000, max_records=10_000)
        return sorted(int(record.value) for record in found)

    def rows(self, view):
        """The rows of a materialized view, which Spark stores as Parquet."""
        import pyarrow.dataset

        files = (self.folder / "spark-warehouse" / view).glob("*.parquet")
        return pyarrow.dataset.dataset([str(file) for file in files]).to_table().to_pylist()


@pytest.mark.since("4.2")  # Before, a run has one micro-batch.
@pytest.mark.deep
def test_a_killed_run_goes_on_where_it_was(tmp_path):
    project = Project(tmp_path, retries="2")
    code = tmp_path / "transformations" / "flights.py"
    start = '.option("startingOffsets", "earliest")'
    code.write_text(code.read_text().replace(start, start + '.option("maxOffsetsPerTrigger", 5)'))
    project.produce(range(300))
    commits = tmp_path / "data/pipeline-storage/_checkpoints/copies/copy_flights/0/commits"
    with running(project.command(), tmp_path / "killed.out", **ENVIRON) as process:
        process.until((commits / "2").exists, "third finished batch", 300)
        process.kill()
    between = len(project.values("copies"))
    assert 15 <= between < 300, "the kill comes too late to be in the middle"
    code, said = project.run()
    assert code == 0, said
    assert project.values("copies") == project.values("again") == [*range(300)]
    assert project.rows("flight_check") == [{"rows": 300, "flights": 300}]


@pytest.mark.deep
def test_tables_and_sinks_with_a_full_refresh(tmp_path):
    pytest.importorskip("yaml", reason="spark-pipelines needs pip install 'spark-eos[pipelines]'")
    pytest.importorskip("grpc", reason="spark-pipelines needs pip install 'spark-eos[pipelines]'")
    project = Project(tmp_path)
    project.produce(range(20))
    code, said = project.run()
    assert code == 0, said
    assert project.values("copies") == project.values("again") == [*range(20)]
    assert project.rows("flight_count") == [{"partition": 0, "count": 20}]
    assert project.rows("flight_check") == [{"rows": 20, "flights": 20}]

    project.produce(range(20, 30))
    code, said = project.run("--full-refresh-all")
    assert code != 0
    assert "CheckpointMismatchError: batch 0 of query" in said
    assert "Flow 'copy_flights' has FAILED" in said
    assert project.rows("flight_count") == [{"partition": 0, "count": 30}]
    assert project.rows("flight_check") == [{"rows": 30, "flights": 30}]
    assert project.values("copies") == [*range(20)]
    assert project.values("again") == sorted([*range(20), *range(30)])

    flow = tmp_path / "data/pipeline-storage/_checkpoints/copies/copy_flights"
    assert sorted(path.name for path in flow.iterdir()) == ["0", "1"]
    shutil.rmtree(flow / "1")
    code, said = project.run()
    assert code == 0, said
    assert project.values("copies") == [*range(30)]
    assert project.rows("flight_check") == [{"rows": 30, "flights": 30}]
    with Admin(project.log) as admin:
        (committed,) = admin.list_group_offsets("copies").values()
    assert committed.offset == 30
