"""What a program tells its starter: lines of JSON, which survive its SIGKILL."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

__all__ = ["CONCURRENT", "Notes", "NotesReader", "error_name", "synced"]

_OURS = re.compile(r"spark_eos\.errors\.(\w+)")
_ENDED_BY_SPARK = ("CONCURRENT_STREAM_LOG_UPDATE", "ConcurrentModificationException")
CONCURRENT = "CONCURRENT_STREAM_LOG_UPDATE"
"""Spark's own end of a query whose checkpoint another run writes to."""


class _Synced(io.TextIOWrapper):
    """A text file whose `flush` is durable."""

    def flush(self) -> None:
        super().flush()
        os.fsync(self.fileno())


def synced(path: Path) -> io.TextIOWrapper:
    """A new text file; what was flushed outlives the machine."""
    return _Synced(path.open("wb"), encoding="utf-8", write_through=False)


class Notes:
    """The program's side."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, what: str, **more: object) -> None:
        """Write one down."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"what": what, **more}) + "\n")


class NotesReader:
    """The other side: what was added since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def new(self) -> list[dict[str, Any]]:
        """Whole lines only: the last one may be cut off by a kill."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


def error_name(text: str) -> str:
    """A short name for an error's text: ours if there is one, else Spark's, else its first line."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1])
    if any(mark in text for mark in _ENDED_BY_SPARK):
        return CONCURRENT
    spark = re.findall(r"\[([A-Z][A-Z0-9_.]+)\]", text)
    lost = [name for name in ("ExecutorLostFailure", "Python worker exited unexpectedly") if name in text]
    if lost:
        return lost[0]
    return spark[-1] if spark else (text.strip().splitlines() or ["no text"])[0][:100]
