"""A stream that cannot begin, told of in Spark's first question to it.

Spark stops the reader of a stream in a ``finally`` that is passed through, too, where no reader was made
(``python_streaming_source_runner``): an error of `DataSource.streamReader` would be followed by an UnboundLocalError of
Spark's own, which is what the user reads last.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition


class RefusedStreamReader(DataSourceStreamReader):
    """Stands for the reader that could not be made, and says why whatever it is asked."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:
        """Raises the error."""
        raise self._error

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> NoReturn:
        """Raises the error. Spark 4.1 gives neither."""
        raise self._error

    def getDefaultReadLimit(self) -> NoReturn:
        """Raises the error."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        """Raises the error."""
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:
        """Raises the error."""
        raise self._error

    def stop(self) -> None:
        """Nothing is open."""
