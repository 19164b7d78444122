"""A process that retires an object of a folder, while others retire too, and may be killed at any step of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from spark_eos.storage import PosixStore

KILLED = 99


def retire_beside_others(root: str, step: int, others: str, killed: bool) -> None:
    """Retire "a"; others retire theirs right before this step. The process ends with the number of its steps."""
    store = PosixStore(root)
    retire = PosixStore(root).retire
    steps = _Steps(step, lambda: [*map(retire, others)], killed=killed)
    store.retire("a")
    sys.exit(steps.count)


class _Steps:
    """Calls of the system to link, look at, move and remove names; before that of a number, others do something."""

    def __init__(self, number: int, others: Callable[[], object], *, killed: bool) -> None:
        self.count, self._number, self._others, self._killed = 0, number, others, killed
        for name in ("link", "stat", "rename", "unlink"):
            setattr(os, name, self._stepping(getattr(os, name)))

    def _stepping(self, call: Callable[..., object]) -> Callable[..., object]:
        def stepping(*args: object, **kwargs: object) -> object:
            self.count += 1
            if self.count == self._number + 1:
                self._number = -1
                self._others()
                if self._killed:
                    os._exit(KILLED)
            return call(*args, **kwargs)

        return stepping
