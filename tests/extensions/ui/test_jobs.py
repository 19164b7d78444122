"""Long work of the page."""

from __future__ import annotations

import threading

from spark_eos.extensions.ui.jobs import Job


def test_a_job_that_says_that_it_is_done_may_be_started_again():
    """A person may be faster than the end of its thread."""
    ended, go_on, done = threading.Event(), threading.Event(), []
    job = Job(lambda _: done.append(1), lambda: 0)
    tell = job.tell

    def held(**shown):
        tell(**shown)
        if not ended.is_set():
            ended.set()
            assert go_on.wait(60)

    job.tell = held
    job.start()
    assert ended.wait(60)
    assert job.shown["state"] == "done"
    job.start()
    job.wait(60)
    go_on.set()
    assert done == [1, 1]
