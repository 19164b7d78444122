"""A day of a log that is used as it should be: no alert fires."""

from __future__ import annotations

import pytest

from spark_eos.extensions.metrics.watch import LogWatch
from tests.monitoring.test_healthy_day import PLENTY, Day, passes_without_trouble


class WatchedDay(Day):
    def __init__(self):
        super().__init__()
        self.watch = LogWatch(self.store, clock=self.clock, now=self.clock.monotonic, space=lambda _: PLENTY)

    def look(self):
        """What alerts go by."""
        return [one for one in self.watch.points(wait=True) if one.metric.name == "eoslog.trouble"]


@pytest.fixture
def day():
    made = WatchedDay()
    yield made
    made.close()


@pytest.mark.parametrize("hours", [1, pytest.param(24, marks=pytest.mark.deep)])
def test_a_healthy_log_fires_no_alert(day, hours):
    passes_without_trouble(day, hours)
