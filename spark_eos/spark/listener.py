"""A listener that hands on each progress of a query with descriptions and metrics (`spark_eos.spark.progress`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_eos.spark.progress import KnownLog, ProgressReport
from spark_eos.spark.query_figures import QueryFigures

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger(__name__)


class ProgressListener(StreamingQueryListener):
    """Reports the progress of streaming queries as Spark's Kafka connector does (see `query_progress`).

    For ``spark.streams.addListener(...)``, of a classic session or of Spark Connect. It runs in the program that
    attached it, after the micro-batches, and delays none. With ``logs`` it looks into them for each progress, which in
    an object store is a request or two. A log that cannot be reached is a warning in Python's log; the progress is then
    reported without what only the log knows.

    Parameters
    ----------
    logs
        The logs that the queries read and write, as URLs.
    settings
        Settings of the object stores of these logs (``s3.…``, ``adls.…``, ``gcs.…``).
    on_progress
        Called with each progress, a ``dict``, in a thread of Spark's. None: it is logged (INFO), a line for each source
        and sink.

    Examples
    --------
    >>> from spark_eos import ProgressListener
    >>> listener = ProgressListener(
    ...     folder + "/log", on_progress=lambda progress: print(progress["sink"]["metrics"])
    ... )
    >>> spark.streams.addListener(listener)

    Its metrics go to Prometheus or OpenTelemetry by ``spark_eos.monitoring.register(listener, registry=…)``.

    >>> spark.streams.removeListener(listener)
    """

    def __init__(
        self,
        *logs: str,
        settings: Mapping[str, Any] | None = None,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._report = ProgressReport([KnownLog(url, settings) for url in logs])
        self._on_progress = on_progress or _to_python_log
        self._last: dict[str, dict[str, Any]] = {}
        self._figures = QueryFigures()

    def last_progress(self, query: StreamingQuery) -> dict[str, Any] | None:
        """The last progress of a query that this listener has received.

        It may be older than ``query.lastProgress``, because Spark calls listeners later.

        Parameters
        ----------
        query
            A query of this session.

        Returns
        -------
        dict or None
            As `query_progress`; None if there was no progress since the listener was attached.
        """
        return self._last.get(query.id)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Note its name. What it reads the first progress says."""
        self._figures.begin(str(event.id), event.name or str(event.id))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report it."""
        try:
            report = self._report.of(event.progress)
        except Exception:  # noqa: BLE001  (a log that cannot be read must not stop the reports)
            _LOG.warning("a log of the progress listener cannot be read", exc_info=True)
            report = ProgressReport().of(event.progress)
        self._last[report["id"]] = report
        self._figures.add(report)
        self._on_progress(report)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing: there is no progress."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Export its metrics no more, but that it met damage. The last progress stays."""
        self._figures.end(str(event.id), event.exception or "")

    def figures(self) -> list[tuple[str, str, float]]:
        """Give the figures of the running queries, for `spark_eos.monitoring.register`.

        Returns
        -------
        list of (str, str, float)
            The query's name or id, what it is, such as ``input.messages``, and how much, as far as this listener has
            heard of it.
        """
        return self._figures.all()


def _to_python_log(report: dict[str, Any]) -> None:
    name, batch = report.get("name") or report["id"], report["batchId"]
    for source in report["sources"]:
        _LOG.info(
            "query %s, batch %d, from %s: %s", name, batch, source["description"], source.get("metrics")
        )
    sink = report["sink"]
    _LOG.info("query %s, batch %d, to %s: %s", name, batch, sink["description"], sink.get("metrics"))
