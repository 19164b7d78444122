"""Starting a streaming query where Spark gives up too early, or looks for the sink in the wrong place."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger(__name__)
_GAVE_UP = "Python worker failed to connect back"
_AGAIN = "Spark gave up on a Python process that was slow to start; the query is started again"
_NOT_FOUND = "DATA_SOURCE_NOT_FOUND"
_POLL_S, _SLOWEST_POLL_S = 0.02, 0.25


def prepare_thread(session: SparkSession | None = None) -> None:
    """Let Spark find ``format("eoslog")`` in this thread.

    A writer asks for a Python data source in the active session of its thread alone (``DataSource.lookupDataSource``),
    and a thread that Python has started has none: ``start()`` and ``save()`` fail there with DATA_SOURCE_NOT_FOUND. So
    they do in a whole session if its one look-up of Python data sources failed; hence the source is registered, too.

    Parameters
    ----------
    session
        The session to use. None: that of the thread, or else the program's.
    """
    from spark_eos.spark.datasource import EosLogDataSource

    session = session or SparkSession.active()
    session.dataSource.register(EosLogDataSource)
    # Of all that can be called on a session, this makes it the thread's active one; `SparkSession.sql` does not.
    session.createDataFrame([], "nothing int")


def start_query(start: Callable[[], StreamingQuery], *, tries: int = 5) -> StreamingQuery:
    """Start a streaming query from any thread, and start it again if Spark gave up on a Python process of it.

    Spark allows the process of a source ten seconds to start, and has no setting for it (``PythonWorkerFactory``). On
    a busy machine, most of all when several queries start at once, the query then ends with "Python worker failed to
    connect back". Through Spark Connect ``start()`` fails so, too, for the process of a function of ``foreachBatch``.
    The query has read nothing by then, so starting it again is always right. Each failed try is logged as a warning.

    Parameters
    ----------
    start
        Starts the query. Called once for each try.
    tries
        The most tries.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        The query when its sources have started, or when it has ended; its ``awaitTermination`` raises why it ended.

    Examples
    --------
    >>> from spark_eos import start_query
    >>> rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
    >>> writer = rows.writeStream.format("eoslog").option("checkpointLocation", folder + "/checkpoint")
    >>> query = start_query(lambda: writer.option("topic", "numbers").start(folder + "/log"))
    >>> query.isActive
    True
    >>> query.stop()
    """
    for _ in range(tries - 1):
        try:
            query = _started(start)
        except Exception as error:
            if _GAVE_UP not in str(error):
                raise
            _LOG.warning(_AGAIN)
            continue
        wait = _POLL_S
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(wait)
            wait = min(wait * 1.5, _SLOWEST_POLL_S)  # Through Spark Connect each look is two requests.
        failure = query.exception()
        if failure is None or _GAVE_UP not in str(failure):
            return query
        _LOG.warning(_AGAIN)
        with suppress(type(failure)):
            query.awaitTermination()  # Until then Spark holds its name and its checkpoint.
    return _started(start)


def _started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    try:
        return start()
    except Exception as error:
        if _NOT_FOUND not in str(error):
            raise
    prepare_thread()
    return start()
