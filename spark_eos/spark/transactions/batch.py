"""Several DataFrames of a batch job in one commit."""

from __future__ import annotations

from collections.abc import Mapping

from spark_eos.protocol.types import StagedFile
from spark_eos.spark.batch.job import BatchJob, skips
from spark_eos.spark.batch.writer import app_version
from spark_eos.spark.sink.commit import Topics
from spark_eos.spark.transactions.transaction import FrameTransaction


class BatchTransaction(FrameTransaction):
    """Several DataFrames of a batch job, in one commit.

    All rows become visible at the end of the with statement, in all topics at once; after an error, or if the process
    dies, none. With ``txnAppId`` and ``txnVersion`` a job that is repeated writes nothing: the log knows the last
    version that the job has committed with a `BatchTransaction`. (Versions of ``df.write`` are those of one topic, and
    are counted apart.)

    Parameters
    ----------
    path
        The log: a path or a URL.
    options
        Options of ``format("eoslog")`` for batch writes, by name; without ``topic``, which each frame has.

    Raises
    ------
    ConfigError
        An option is unknown or wrong.

    Examples
    --------
    >>> from spark_eos import BatchTransaction
    >>> options = {"txnAppId": "nightly", "txnVersion": 20261123}
    >>> with BatchTransaction("memory://shop", options) as transaction:  # doctest: +SKIP
    ...     transaction.write(orders, "orders")
    ...     transaction.write(returns, "returns")

    Notes
    -----
    docs/guide/transactions.md.
    """

    def __init__(self, path: str, options: Mapping[str, object] | None = None) -> None:
        super().__init__(path, options, streaming=False)
        self._version = app_version(self._options, None)

    def _begin(self) -> bool:
        log = None if self._version is None else self._existing()
        return log is not None and skips(log.state, self._version)

    def _commit(self, topics: Topics, files: tuple[StagedFile, ...]) -> None:
        job = BatchJob(topics, files, tuple(self._overwritten), self._options.transactional_id, self._version)
        job.commit(self._log())
