"""Another key for files that are there: their rows are written again, encrypted with the key of new files.

Rolling and compaction do the same where they write anyway, but leave large files as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from spark_eos.errors import ConfigError
from spark_eos.log.log import Log
from spark_eos.log.topics import config_value, schema_error
from spark_eos.maintenance.rolling import Roller
from spark_eos.protocol.index import Index, IndexPage, IndexRow
from spark_eos.protocol.state import Partition, Topic


class KeyRotator(Roller):
    """Rewrites what lies in files of other keys, and in plain files. As `Roller`; needs the old keys and the new one.

    What it leaves: rows of open transactions, and files that no entry refers to, which vacuum removes.
    """

    def __init__(self, log: Log, topics: Iterable[str] | None = None) -> None:
        super().__init__(log, topics, tail_rows=1)
        if log.store.encryption_key_id is None:
            raise ConfigError(
                f"{log.url} was opened without keys: rotation needs the settings encryption.keys and encryption.key.id"
            )
        self._keys: dict[str, str | None] = {}

    def _plan(self, topic: Topic) -> Iterator[tuple[Topic, int, Partition, tuple[IndexPage, ...]]]:
        if schema_error(topic) is not None:
            return
        limit = max(config_value(topic, "segment.bytes", int), 1)
        for number in range(topic.partitions):
            if (topic.topic_id, number) in self._unreadable:
                continue
            partition = self._view(topic, number)
            span: list[IndexPage] = []
            for page in partition.index.pages:
                if self._is_stale(page, partition.start):
                    span.append(page)
                elif span:
                    break
                if sum(page.bytes for page in span) >= limit:
                    break
            if span:
                yield topic, number, partition, tuple(span)

    def _is_stale(self, page: IndexPage, start: int) -> bool:
        rows = Index((page,)).scan(max(start, page.base_offset), self._log.load)
        return any(row.file is not None and not self._is_new(row.file.name) for row in rows)

    def _rows_that_stay(self, topic: Topic) -> Callable[[IndexRow], bool]:
        return lambda row: row.file is not None and self._is_new(row.file.name)

    def _is_new(self, name: str) -> bool:
        if name not in self._keys:
            self._keys[name] = self._log.store.key_of(name)
        return self._keys[name] == self._log.store.encryption_key_id
