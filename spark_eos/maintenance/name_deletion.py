"""Deletion of the names of retired entries, for logs that must keep no objects at all. Off by default.

A retired name is what stops a writer that slept from filling a slot of long ago, and what stops a reader that slept
from taking it for the end of the log. Once it is deleted, their own clocks have to: a process that was away for more
than an hour looks at the newest snapshot before it believes what it found (`spark_eos.log.commit.tail`). So this rests
on an assumption, which nothing else in the log does:

    Of the time from when a name was noted as retired to when it is deleted, at least a day by the clocks of the
    maintainers, every process that was running notices an hour on its monotonic or on its wall clock.

A machine that was put back from an image of a day ago, with its processes and with both of its clocks, breaks it.
"""

from __future__ import annotations

from contextlib import suppress

from spark_eos.errors import ConfigError, NotALogError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.maintenance.end_marks import LogEndMarks, Milestone
from spark_eos.maintenance.vacuum import Tell, silent

_RETIRED = "_maintenance/retired"
"""A line each of milliseconds since 1970 and the newest retired entry."""

_AT_ONCE = 1000
"""After how many deletions it is made sure again that the log is the one that was looked at."""


class RetiredNames:
    """Those of one log. They are deleted after ``after_s`` seconds by a maintainer's clock: a day or more.

    Raises `ConfigError` for less.
    """

    def __init__(self, log: Log, *, after_s: float, tell: Tell = silent) -> None:
        least_s = log.environment.names_kept_s
        if after_s < least_s:
            raise ConfigError(
                f"names of retired entries cannot be deleted after {after_s:.0f} s: a process that is away for an hour "
                f"relies on them; give {least_s:.0f} s (a day) or more"
            )
        self._log = log
        self._after_ms = after_s * 1000
        self._notes = LogEndMarks(log.store, _RETIRED)
        self._tell = tell

    def look(self) -> int:
        """How many names would be deleted now."""
        last = self._due(note=False)
        return max(last + 1 - self._first(last), 0)

    def run(self) -> int:
        """Delete the names that are due, the oldest first, and note what is retired by now; how many there were.

        Raises `NotALogError` if another log is there by now, and what the store raises.
        """
        last = self._due(note=True)
        first = self._first(last)
        for seq in range(first, last + 1):
            if (seq - first) % _AT_ONCE == 0:
                if not self._log.is_same():
                    raise NotALogError(
                        f"{self._log.url} does not hold log {self._log.log_id} any more; start again"
                    )
                self._log.check()
            with suppress(ObjectNotFoundError):
                # What is not empty is not retired: another log's entry, if its folder was replaced meanwhile.
                if not self._log.store.size(self._name(seq)):
                    self._log.store.delete(self._name(seq))
            self._tell(f"{seq + 1 - first} names of retired entries deleted")
        return max(last + 1 - first, 0)

    def _due(self, *, note: bool) -> int:
        """The newest entry whose name may go; 0, which stays for ever, if there is none."""
        state = self._log.follow()
        now_ms = self._log.time.now_ms(self._log.state)
        notes = self._notes.read(state.seq, now_ms)
        if note:
            retired = self._log.maintenance.retired(state)
            self._notes.add(notes, Milestone(now_ms, retired), self._after_ms)
        return max(
            (milestone.seq for milestone in notes if milestone.time_ms <= now_ms - self._after_ms), default=0
        )

    def _first(self, last: int) -> int:
        """The oldest entry that still has its name: they are deleted in order."""
        low, high = 1, last + 1
        while low < high:
            middle = (low + high) // 2
            try:
                self._log.store.size(self._name(middle))
            except ObjectNotFoundError:
                low = middle + 1
            else:
                high = middle
        return low

    def _name(self, seq: int) -> str:
        return paths.entry(seq, self._log.state.entries_per_folder)
