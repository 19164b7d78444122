"""The jobs as processes of spark-submit, each killed between the log's commit and Spark's own."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import duckdb
import pytest
from demo_check import check_positions, check_topic, expect, read_topic
from demo_process import Job

from spark_eos import Admin, Producer
from spark_eos.errors import NotALogError
from spark_eos.log.log import Log
from tests.sparks import SPARK

PARTITIONS = 4
IDS = {
    "ingest": "ingest-flights",
    "consume_transform_produce": "flights-to-departures",
    "aggregate": "departures-to-hours",
}
STOPPING = Path(__file__).parent / "stopping"
"""A `sitecustomize.py` that stops a job between its two commits."""
WHERE = {"folder": [*IDS], "minio": ["consume_transform_produce"], "azurite": ["consume_transform_produce"]}
"""Where the log is, and which of the jobs run there: in buckets the one that does most, on flights of a producer's."""
pytestmark = pytest.mark.deep


class Pipeline:
    """The jobs on one log; what they print is kept beside it."""

    def __init__(self, folder, url, names, flights):
        self.url = url
        self.names = names
        self.folder = folder
        self.flights = flights
        self._own = {
            "ingest": ["--input", str(flights.folder)],
            "consume_transform_produce": ["--airlines", str(flights.airlines), "--max-offsets", "2000"],
            "aggregate": ["--max-offsets", "2000"],
        }

    def produce(self, database):
        """What `ingest` would have written."""
        rows = "SELECT partition, key, value FROM expected_flights ORDER BY partition, position"
        Admin(self.url).create_topic("flights", PARTITIONS)
        with Producer(self.url) as producer:
            for partition, key, value in database.execute(rows).fetchall():
                producer.send("flights", value, key=key, partition=partition)

    def start(self, name):
        common = ["--log", self.url, "--checkpoints", str(self.folder / "checkpoints")]
        arguments = [*common, "--partitions", str(PARTITIONS), *self._own[name]]
        return Job(name, arguments, self.folder / f"{name}.out")

    def batch(self, name):
        """The last batch of the job that is in the log; -1 before the first."""
        try:
            query = Log.shared(self.url).state.queries.get(IDS[name])
        except NotALogError:
            return -1
        return -1 if query is None else query.batch_id

    def kill_between_commits(self, name):
        """Kill the job when a batch is in the log and not yet in Spark's commits: it stops there by itself.

        It is killed at no other moment: a job that is killed while Spark plans the next batch is another case, in
        which the rows of `ingest` come in another order.
        """
        before, stopped = self.batch(name), self.folder / f"{name}.stopped"
        stopped.unlink(missing_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("EOSLOG_TEST_STOP", f"{before} {stopped}")
            patch.setenv("PYTHONPATH", str(STOPPING), prepend=os.pathsep)
            job = self.start(name)
        try:
            assert job.wait_for(stopped.exists), job.output.read_text()[-3000:]
            assert self.batch(name) > before
            assert not (self.folder / "checkpoints" / name / "commits" / str(self.batch(name))).exists()
        finally:
            job.kill()

    def finish(self, name):
        self.start(name).wait()


@pytest.fixture(scope="module", params=WHERE)
def pipeline(request, tmp_path_factory, flights, database):
    folder = tmp_path_factory.mktemp("pipeline")
    with pytest.MonkeyPatch.context() as patch:
        url = str(folder / "log")
        if request.param != "folder":
            server = request.getfixturevalue(f"{request.param}_server")
            url = f"{server.url}/{uuid.uuid4().hex}/log"
            for name, value in server.environ.items():
                patch.setenv(name, value)
        made = Pipeline(folder, url, WHERE[request.param], flights)
        if "ingest" not in made.names:
            made.produce(database)
        for name in made.names:
            made.kill_between_commits(name)
            # Before Spark 4.2 a run that repeats a micro-batch ends with it: none is killed in the next one.
            if name == "aggregate" and SPARK >= (4, 2):
                made.kill_between_commits(name)
            made.finish(name)
        yield made


@pytest.fixture(scope="module")
def database(flights):
    with duckdb.connect() as connection:
        expect(connection, flights.flights, flights.airlines, flights.rows, PARTITIONS)
        yield connection


@pytest.mark.parametrize("topic", ["flights", "departures", "cancelled"])
def test_every_record_is_there_once_and_in_its_place(pipeline, database, topic):
    checks = check_topic(database, topic, read_topic(Log.open(pipeline.url), topic))
    assert [check for check in checks if not check.exact] == []


def test_offsets_have_no_holes_and_all_of_the_input_is_committed(pipeline):
    log = Log.open(pipeline.url)
    topics = ["cancelled", "departures", "flights", *(["hours"] if "aggregate" in pipeline.names else [])]
    checks = check_positions(log, topics, "flights", IDS["consume_transform_produce"])
    if "aggregate" in pipeline.names:
        checks += check_positions(log, topics, "departures", IDS["aggregate"])
    assert [check for check in checks if not check.exact] == []
    assert sorted(log.state.topics) == topics


@pytest.mark.since("4.2")  # Before, AvailableNow leaves the hours that its one micro-batch closes.
@pytest.mark.parametrize("pipeline", ["folder"], indirect=True)
def test_every_hour_that_is_over_is_there_once_and_right(pipeline, database):
    records = read_topic(Log.open(pipeline.url), "hours")
    rows = [json.loads(value) for value in records.column("value").to_pylist()]
    assert records.column("key").to_pylist() == [row["origin"] for row in rows]
    assert all(abs(row["mean_delay"] - row["delay_minutes"] / row["flights"]) < 0.00501 for row in rows)
    found = sorted((row["origin"], row["hour"], row["flights"], row["delay_minutes"]) for row in rows)
    # An hour is over when its end is no later than the newest departure less the watermark of two days.
    expected = database.execute(
        """SELECT origin, replace(time_hour, 'Z', '.000Z'), count(*), sum(dep_delay)
        FROM flight WHERE dep_time IS NOT NULL GROUP BY ALL
        HAVING CAST(replace(time_hour, 'Z', '') AS TIMESTAMP) + INTERVAL 49 HOURS
            <= (SELECT max(CAST(replace(time_hour, 'Z', '') AS TIMESTAMP)) FROM flight WHERE dep_time IS NOT NULL)
        ORDER BY ALL"""
    ).fetchall()
    assert len(found) > 100
    assert found == [(origin, hour, flights, int(minutes)) for origin, hour, flights, minutes in expected]


def test_a_job_says_when_it_is_done(pipeline):
    for name in pipeline.names:
        assert f"{IDS[name]}: done" in (pipeline.folder / f"{name}.out").read_text()
