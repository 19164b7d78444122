"""How long requests to a far away store take: a log-normal distribution for each kind of request."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import NamedTuple

_P99 = 2.3263
"""How many standard deviations above the mean the 99th percentile of a normal distribution lies."""


class Delay(NamedTuple):
    """The time of one kind of request, by its median and its 99th percentile, in seconds."""

    median_s: float
    p99_s: float

    def draw(self, chance: random.Random) -> float:
        """The time of one request."""
        return chance.lognormvariate(math.log(self.median_s), math.log(self.p99_s / self.median_s) / _P99)


_PUT, _GET = Delay(0.100, 0.195), Delay(0.063, 0.118)

OBJECT_STORE: Mapping[str, Delay] = {
    "PUT": _PUT,
    "POST": _PUT,
    "DELETE": _PUT,
    "GET": _GET,
    "HEAD": _GET,
    "LIST": _GET,
}
"""S3 as measured from the same region: a PUT takes 100 ms at the median and 195 ms at p99, a GET 63 and 118 ms.

The others were not measured: what changes something is taken to be as slow as a PUT, the rest as fast as a GET.
"""


class Latency:
    """Draws the time of each request, by a seed; ``scale`` makes all of them shorter or longer.

    Not safe to share between threads.
    """

    def __init__(
        self, delays: Mapping[str, Delay] = OBJECT_STORE, *, scale: float = 1.0, seed: int = 0
    ) -> None:
        self._delays = delays
        self._scale = scale
        self._chance = random.Random(f"latency {seed}")

    def draw(self, verb: str) -> float:
        """Seconds that the next request of this kind (``PUT``, ``GET``, ``LIST``, …) takes; 0 for unknown ones."""
        delay = self._delays.get(verb)
        return 0.0 if delay is None else self._scale * delay.draw(self._chance)
