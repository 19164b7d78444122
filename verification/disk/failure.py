"""Calls that a disk lets fail."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass
class Failure:
    """Errno ``code`` for call number ``at``, or ``times`` times for calls that fit the patterns; ``done``: then."""

    code: int
    at: int | None
    call: str
    path: str
    times: int | None
    done: bool

    def fires(self, number: int, call: str, path: str) -> bool:
        """True if this call is to fail; counts it."""
        if self.at is not None and number != self.at:
            return False
        if self.times == 0 or not (fnmatchcase(call, self.call) and fnmatchcase(path, self.path)):
            return False
        if self.times is not None:
            self.times -= 1
        return True
