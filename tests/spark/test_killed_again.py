"""A driver that is killed at ten places, one after the other, on one checkpoint.

``scripts/test-matrix spark --all tests/spark/test_killed_again.py`` does so with the oldest and the newest Spark.
"""

from __future__ import annotations

import pytest

from .conftest import Process
from .test_exactly_once import MOMENTS, Watcher

PLACES = [(moment, again) for moment in (*MOMENTS, "never") for again in (False, True)]
"""Each moment in a micro-batch that comes, and in one that this driver repeats.

With ``fails`` and ``never`` the query does not hold: the kill meets it wherever it is.
"""

ROWS = 6
"""In each topic, before each start."""

TOPICS = ("a", "b")

pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("specified")]


@pytest.fixture
def drivers(tmp_path, until):
    """Driver processes, each with marks of its own."""
    made = []

    def driver(number):
        folder = tmp_path / f"driver-{number}"
        folder.mkdir()
        made.append(Process(folder, until))
        return made[-1]

    yield driver
    for process in made:
        process.go()
        process.kill()


class Job:
    """A query of the driver; it has news whenever it starts."""

    def __init__(self, bench, checkpoint, *, frames):
        self.bench = bench
        self.checkpoint = checkpoint
        self.frames = frames
        self.rows = 0
        for topic in TOPICS:
            bench.topic(topic, 2)

    def feed(self, rows):
        for topic in TOPICS:
            self.bench.produce(topic, range(self.rows, self.rows + rows))
        self.rows += rows

    def newest(self, kind):
        found = (int(path.name) for path in (self.checkpoint / kind).glob("[0-9]*"))
        return max(found, default=-1)

    def start(self, process, moment, *, again):
        """In a process that is not started yet. ``again``: in the micro-batch that the last one left undone."""
        self.process, self.moment = process, moment
        self.feed(ROWS)
        self.wanted = self.rows
        self.batch = self.newest("commits" if again else "offsets") + 1
        place = {"moment": moment, "batch": self.batch, "checkpoint": str(self.checkpoint)}
        process.job(self.bench, ",".join(TOPICS), frames=self.frames, **place)

    @property
    def has_read(self):
        return min(self.bench.count(f"out-{topic}") for topic in TOPICS)

    def is_there(self):
        """Whether the query holds; one that never does has read what was fed, and gets more to do."""
        if self.moment not in {"fails", "never"}:
            return self.process.holds(self.bench)
        if self.has_read == self.rows:
            self.feed(1)
        return self.has_read >= self.wanted

    def check_killed(self):
        """The kill was at the moment that was to be shown."""
        if self.moment in {"fails", "never"}:
            return
        batches = [query.batch_id for query in self.bench.state.queries.values()]
        before = [self.batch - 1] if self.batch else []
        assert batches == ([self.batch] if self.moment == "after" else before)
        assert self.newest("offsets") == self.batch == self.newest("commits") + 1

    def check_all(self):
        """Every row is there, once and whole."""
        for topic in TOPICS:
            assert self.bench.values(f"out-{topic}") == [*range(self.rows)]
            self.bench.check_contiguous(f"out-{topic}")


@pytest.mark.parametrize("frames", [False, True], ids=["sink", "foreachBatch"])
def test_ten_kills_lose_double_and_tear_nothing(benches, drivers, tmp_path, frames):
    """Of one query, which goes on in the next driver."""
    job = Job(benches("log"), tmp_path / "checkpoint", frames=frames)
    watcher = Watcher(job.bench)
    watcher.start()
    try:
        for number, (moment, again) in enumerate(PLACES):
            process = drivers(number)
            job.start(process, moment, again=again)
            process.start()
            process.wait_for(job.is_there, f"the query to be where it is killed: {moment}")
            process.kill()
            job.check_killed()
        process = drivers("last")
        job.start(process, "never", again=False)
        process.start()
        process.wait_for(lambda: job.has_read >= job.rows, "the rest to be read")
        process.kill()
    finally:
        watcher.stop()
    job.check_all()
    assert watcher.seen
    assert not watcher.torn
