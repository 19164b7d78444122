"""A reader of tables that takes nearly as long as the tables promise, and Delta's own VACUUM."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from spark_eos.extensions.tables.tables import Table, Tables
from spark_eos.log.log import Log

__all__ = ["SlowReader"]


class SlowReader(threading.Thread):
    """Opens a table, and reads its files one by one, until shortly before the promise ends. Then VACUUM, at times."""

    def __init__(self, log: Log, seed: int, retention_s: float, *, vacuum: bool) -> None:
        super().__init__(name="slow reader", daemon=True)
        self._tables = Tables(log)
        self._chance = random.Random(seed)
        self._retention_s = retention_s
        self._vacuum = vacuum
        self._over = threading.Event()
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.vacuumed = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            tables = [
                one for one in self._tables.list_tables() if one.version is not None and one.mode == "shared"
            ]
            if not tables:
                time.sleep(0.1)
                continue
            one = self._chance.choice(tables)
            try:
                self._look(one)
            except Exception as error:  # noqa: BLE001  (whatever it is, it is a problem)
                self.problems.append(f"slow reader of {one.topic}: {error!r}")

    def finish(self) -> None:
        """Read to the end of this table, and stop."""
        self._over.set()
        self.join()

    def _look(self, one: Table) -> None:
        began = time.monotonic()
        try:
            self._read(one.location, one.topic, began)
        except FileNotFoundError:
            if time.monotonic() - began < self._retention_s:
                raise
            self.counts["reads that were slower than the promise"] += 1
        if self._vacuum and self._chance.random() < 0.5:
            self.vacuumed.set()
            table = DeltaTable(one.location)
            table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
            self.counts["VACUUMs of Delta"] += 1

    def _read(self, place: str, topic: str, began: float) -> None:
        table = DeltaTable(place)
        at_once = table.to_pyarrow_dataset().to_table()
        files = table.file_uris()
        found = 0
        for number, file in enumerate(files):
            wait = self._retention_s * 0.7 * (number + 1) / len(files) - (time.monotonic() - began)
            if wait > 0 and not self._over.is_set():
                time.sleep(wait)
            found += pq.ParquetFile(pa.OSFile(file)).read().num_rows
        if found != at_once.num_rows:
            self.problems.append(f"slow reader of {topic}: {found} rows, and {at_once.num_rows} at once")
        self.counts["slow reads"] += 1
