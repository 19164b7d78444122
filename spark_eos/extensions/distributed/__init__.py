"""One transaction of many processes: they stage rows under its token, and one call commits all of them, or none."""

from __future__ import annotations

from spark_eos.extending import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    names={
        "spark_eos.DistributedTransaction": "transaction:DistributedTransaction",
        "spark_eos.StagedReceipt": "receipt:StagedReceipt",
        "spark_eos.StagedWriter": "staged_writer:StagedWriter",
        "spark_eos.TransactionToken": "token:TransactionToken",
    }
)
