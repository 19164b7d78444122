"""The points of Spark queries, as far as a listener has heard of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from spark_eos.extensions.metrics.points import Histogram, Point, point


class QuerySource:
    """A progress listener: ``figures()`` gives the query, what it is, and how much (`ProgressListener.figures`)."""

    def __init__(self, figures: Callable[[], Iterable[tuple[str, str, float]]]) -> None:
        self._figures = figures

    def points(self) -> Iterable[Point]:
        """Records, bytes and lag by query."""
        return [
            point(f"eoslog.streaming_query.{name}", value, query) for query, name, value in self._figures()
        ]

    def histograms(self) -> Iterable[Histogram]:
        """None."""
        return ()
