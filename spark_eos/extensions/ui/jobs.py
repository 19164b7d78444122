"""Long work of the page: one job of a kind at a time for each log, with progress, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from spark_eos.errors import EosLogError

_LOG = logging.getLogger(__name__)


class Stopped(BaseException):
    """A person has stopped the job. It passes every handler of the work on its way out."""


class Job:
    """A job that may be started again when it has ended. Safe to share between threads."""

    def __init__(self, work: Callable[[Job], Any], now_ms: Callable[[], int]) -> None:
        self._work = work
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._shown: dict[str, Any] = {"state": "idle"}
        self.arguments: dict[str, Any] = {}

    def start(self, **arguments: Any) -> None:
        """Begin, unless it is at work already."""
        with self._lock:
            is_alive = self._thread is not None and self._thread.is_alive()
            if (
                is_alive and self._shown["state"] == "running"
            ):  # Its thread lives a little longer than the work.
                return
            self.arguments = arguments
            self._stop.clear()
            self._shown = {
                "state": "running",
                "begun_ms": self._now_ms(),
                "progress": "beginning",
                **arguments,
            }
            self._thread = threading.Thread(target=self._run, name="eoslog-ui-job", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ask it to end."""
        self._stop.set()

    def wait(self, seconds: float) -> None:
        """Wait for its end, for so long at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def at(self, stage: str, count: int, of: int) -> None:
        """So far it is. Called by the work; raises `Stopped` if it was asked to end."""
        if self._stop.is_set():
            raise Stopped
        self.tell(
            progress=f"{stage}: {count} of {of}" if of > count else f"{stage}: {count}", done=count, of=of
        )

    def tell(self, **shown: Any) -> None:
        """Show this as well."""
        with self._lock:
            self._shown = {**self._shown, **shown}

    @property
    def shown(self) -> dict[str, Any]:
        """What there is to show now."""
        with self._lock:
            return self._shown

    def _run(self) -> None:
        try:
            result = self._work(self)
        except Stopped:
            self.tell(state="stopped", ended_ms=self._now_ms())
        except EosLogError as error:
            self.tell(state="failed", error=str(error), ended_ms=self._now_ms())
        except Exception as error:  # noqa: BLE001  (the page goes on, and shows it)
            _LOG.exception("a job of the page failed")
            self.tell(state="failed", error=f"{type(error).__name__}: {error}", ended_ms=self._now_ms())
        else:
            self.tell(state="done", result=result, ended_ms=self._now_ms())
