"""Starting a streaming query where Spark gives up too early."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["start_query"]

_LOG = logging.getLogger(__name__)
_GAVE_UP = "Python worker failed to connect back"
_POLL_S = 0.02


def start_query(start: Callable[[], StreamingQuery], *, tries: int = 5) -> StreamingQuery:
    """Start a streaming query, and again if Spark gave up on the Python process of a source.

    Spark allows that process ten seconds to start, and has no setting for it (``PythonWorkerFactory``). Where the
    processor is busy, most of all when several queries start at once, the query then ends with "Python worker failed
    to connect back", before it has read anything: starting it again is always right.

    Args:
        start: starts the query: ``lambda: writer.start(url)``.
        tries: how often at most.

    Returns:
        The query once its sources are there, or as it ended; why it ended is told by its ``awaitTermination``, as
        ever. Every try in vain is logged as a warning.
    """
    for _ in range(tries - 1):
        query = start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(_POLL_S)
        error = query.exception()
        if error is None or _GAVE_UP not in str(error):
            return query
        _LOG.warning("Spark gave up on a Python process that was slow to start; the query is started again")
        with suppress(type(error)):
            query.awaitTermination()  # Until then Spark holds its name and its checkpoint.
    return start()
