"""Follows one log for all browsers: one thread, at most one poll a second, nothing written."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from spark_eos.errors import DivergedLogError, EosLogError, InvalidRequestError
from spark_eos.errors.hidden import safe_url
from spark_eos.extensions.ui.read_only import ReadOnlyStore
from spark_eos.extensions.ui.series import Series
from spark_eos.log.clock import SYSTEM, Clock
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.records import Records
from spark_eos.log.log import Log
from spark_eos.monitoring.status import Space, space_of
from spark_eos.protocol.state import State, Topic
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store

Handle = TypeVar("Handle", bound=Log)

_LOG = logging.getLogger(__name__)

_INTERVAL_S = 1.0
_IDLE_INTERVAL_S = 10.0
"""Between two polls while a browser looks, and while none does."""

_ASKED_S = 5.0
"""After a question the log is polled every second for so long."""

_CACHED_BYTES = 64 << 20
"""Bytes of decoded batches that are kept for all browsers together."""


class Follower:
    """One log as the page sees it. Safe to share between threads.

    ``log`` is a handle on a store that only reads. ``version`` rises with each poll that brought anything new.
    """

    def __init__(
        self,
        url: str | Store,
        settings: Settings = NO_SETTINGS,
        *,
        clock: Clock = SYSTEM,
        interval_s: float = _INTERVAL_S,
        idle_interval_s: float = _IDLE_INTERVAL_S,
        space: Callable[[Store], Space | None] = space_of,
    ) -> None:
        self._inner = url if isinstance(url, Store) else open_store(url, settings)
        self._clock = clock
        self._interval_s, self._idle_interval_s = interval_s, idle_interval_s
        self.settings = settings
        self.space = space
        self.store = ReadOnlyStore(self._inner)
        self.log = Log.open(self.store, clock)
        self.series = Series(clock.monotonic)
        self.series.add(self.log.state, clock.now_ms())
        self.polls = 0
        self.polled_ms = self.read_ms = clock.now_ms()
        """When it was polled last, and when that went well last: what is shown is as old as that."""
        self._read_s = clock.monotonic()
        self.error: str | None = None
        self.version = 0
        self._asked_s = float("-inf")
        self._lock = threading.Lock()
        self._watchers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="eoslog-ui", daemon=True)
        self._cache: OrderedDict[tuple[Any, ...], Records] = OrderedDict()
        self._cached_bytes = 0
        self.memory: dict[str, Any] = {}
        """What areas keep of this log between two questions."""

    # -- Life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self) -> None:
        """Stop following, and let go of all who watch."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._tell()

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self._stop.is_set()

    @property
    def state(self) -> State:
        """The newest state that was seen."""
        return self.log.state

    @property
    def url(self) -> str:
        """Where the log is, without what may be secret in a URL."""
        return safe_url(self.store.url)

    @property
    def age_ms(self) -> int:
        """For how long it could not be read, also if this machine's clock was set meanwhile."""
        return round((self._clock.monotonic() - self._read_s) * 1000)

    def now_ms(self) -> int:
        """The time: by this machine's clock, or by the store's where that contradicts it."""
        return self.log.time.record_ms(self.state)

    def writer(self, kind: type[Handle]) -> Handle:
        """A handle that may write, for what a person has confirmed."""
        log = kind.open(self._inner, self._clock)
        assert isinstance(log, kind)
        return log.without_maintenance()

    def topic(self, name: str) -> Topic:
        """A topic by its name. Looks at no store. Raises `InvalidRequestError`."""
        topic = self.state.topics.get(name)
        if topic is None:
            raise InvalidRequestError(f"the log has no topic {name!r}: it may have been deleted")
        return topic

    # -- Polls ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            self._wait(failures)
            if self._stop.is_set():
                return
            failures = 0 if self.poll() else failures + 1

    def _wait(self, failures: int) -> None:
        """Until the next poll is due. A new watcher brings it forward, but never below the interval."""
        self._stop.wait(self._interval_s * min(2**failures, 16))
        waited = self._interval_s
        while not self._is_watched() and waited < self._idle_interval_s and not self._stop.is_set():
            self._wake.clear()
            self._wake.wait(self._idle_interval_s - waited)
            waited = self._idle_interval_s

    def _is_watched(self) -> bool:
        return bool(self._watchers) or self._clock.monotonic() - self._asked_s < _ASKED_S

    def poll(self) -> bool:
        """Look for news once; whether that went well. Only the follower's thread, and tests, call it."""
        before = (self.state, self.error)
        self.polls += 1
        try:
            self.log.follow()
            self.error = None
        except DivergedLogError as error:
            self.error = str(error)
            self._reopen()
        except EosLogError as error:
            self.error = f"the log cannot be read at the moment: {error}"
        except Exception as error:  # noqa: BLE001  (the page goes on, and shows it)
            _LOG.exception("the poll of %s failed", self.url)
            self.error = f"the log cannot be read at the moment: {type(error).__name__}"
        self.polled_ms = self._clock.now_ms()
        if self.error is None:
            self.read_ms, self._read_s = self.polled_ms, self._clock.monotonic()
        self.series.add(self.state, self.polled_ms)
        if self.state is not before[0] or self.error != before[1]:
            self.version += 1
        self._tell()
        return self.error is None

    def _reopen(self) -> None:
        """Go on with the log that is there now: its files were put back or exchanged."""
        try:
            log = Log.open(self.store, self._clock)
        except EosLogError as error:
            self.error = f"the log was there and is not any more: {error}"
            return
        self.log = log
        self.memory.clear()
        with self._lock:
            self._cache.clear()
            self._cached_bytes = 0

    def asked(self) -> None:
        """A browser has a question: the next polls are due."""
        self._asked_s = self._clock.monotonic()
        self._wake.set()

    # -- Watchers -------------------------------------------------------------------------------------------

    @property
    def watchers(self) -> int:
        """How many browsers watch."""
        return len(self._watchers)

    def watch(self, event: asyncio.Event) -> None:
        """Set ``event`` of the running loop after every poll, until `unwatch`."""
        with self._lock:
            self._watchers[event] = asyncio.get_running_loop()
        self._wake.set()

    def unwatch(self, event: asyncio.Event) -> None:
        """No longer."""
        with self._lock:
            self._watchers.pop(event, None)

    def _tell(self) -> None:
        with self._lock:
            watchers = list(self._watchers.items())
        for event, loop in watchers:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:  # The loop has ended.
                self.unwatch(event)

    # -- Records --------------------------------------------------------------------------------------------

    def read(self, topic: Topic, fetch: Fetch) -> Records:
        """The rows of a fetch; its whole batch is kept for the next browser that asks. Raises as `Log.read`."""
        batch = fetch.batch
        if fetch.file.offsets or fetch.part is not None:
            return self.log.read(topic, fetch)
        key = (topic.topic_id, len(topic.schemas), fetch.file.name, batch.position, fetch.base_offset)
        with self._lock:
            records = self._cache.get(key)
            if records is not None:
                self._cache.move_to_end(key)
        if records is None:
            whole = fetch._replace(offset=fetch.base_offset, skip=0, count=batch.count)
            records = self.log.read(topic, whole)
            self._keep(key, records)
        return records.slice(fetch.skip, fetch.count)

    def _keep(self, key: tuple[Any, ...], records: Records) -> None:
        size = records.table.nbytes
        if size > _CACHED_BYTES // 4:
            return
        with self._lock:
            if key in self._cache:
                return
            self._cache[key] = records
            self._cached_bytes += size
            while self._cached_bytes > _CACHED_BYTES:
                _, dropped = self._cache.popitem(last=False)
                self._cached_bytes -= dropped.table.nbytes

    def remember(
        self, name: str, make: Callable[[], Any], *, for_s: float, serves: Callable[[Any], bool] | None = None
    ) -> Any:
        """What ``make`` returns, at most once in so many seconds for all browsers together.

        With ``serves``, ``make`` is also called for what does not serve a question.
        """

        def is_good(timed_value: tuple[float, Any]) -> bool:
            is_new = self._clock.monotonic() - timed_value[0] < for_s
            return is_new and (serves is None or serves(timed_value[1]))

        timed_value = self.memory.get(name)
        if timed_value is not None and is_good(timed_value):
            return timed_value[1]
        with self._lock:
            lock = self.memory.setdefault(f"lock of {name}", threading.Lock())
        with lock:
            timed_value = self.memory.get(name)
            if timed_value is None or not is_good(timed_value):
                timed_value = (self._clock.monotonic(), make())
                self.memory[name] = timed_value
        return timed_value[1]
