"""How far a command has come: on a terminal in place, elsewhere a line now and then; always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Live
    from rich.progress import ProgressColumn

_LINE_S = 10.0
"""How often a line is written where the output is no terminal."""

_SCREEN_S = 0.1

GOES_ON = "it is not done; the same command goes on with it"
"""What a command says that was stopped, and can be repeated."""


class Progress:
    """Shows what is being done. Leave it, or `clear` it, before anything else is printed.

    ``stopped`` is what Ctrl-C means for that: without a word a command that it ended looks like one that is done.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        stopped: str = "",
    ) -> None:
        self._stopped = stopped
        self._out = sys.stderr if out is None else out
        self._now = monotonic
        self.in_place = self._out.isatty()
        self._every = _SCREEN_S if self.in_place else _LINE_S
        self._next = monotonic() + self._every
        self._live: Live | None = None
        self._columns: tuple[str | ProgressColumn, ...] = ()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.clear()
        if kind is KeyboardInterrupt and self._stopped:
            print(f"eoslog: stopped by SIGINT: {self._stopped}", file=self._out, flush=True)

    def count(self, label: str, done: int, of: int) -> None:
        """``done`` things are done, of ``of``; of an unknown number, if ``of`` is not larger."""
        if self._is_due():
            text = f"{label}: {done:,} of {of:,}" if of > done else f"{label}: {done:,}"
            self._show(text, done, of if of > done else None)

    def show(self, text: str) -> None:
        """This is being done."""
        if self._is_due():
            self._show(text)

    def clear(self) -> None:
        """Make room on a terminal for a line of another kind."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _is_due(self) -> bool:
        now = self._now()
        if now < self._next:
            return False
        self._next = now + self._every
        return True

    def _show(self, text: str, done: int = 0, of: int | None = None) -> None:
        if not self.in_place:
            print(text, file=self._out, flush=True)
            return
        if self._live is None:
            self._live = _live(self._out)
            self._columns = self._live.columns
        (task,) = self._live.task_ids
        self._live.update(task, description=text, completed=done, total=of)
        self._live.columns = self._columns[:-1] if of is None else self._columns  # The last one is the bar.
        self._live.start()


def _live(out: TextIO) -> Live:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
    from rich.table import Column

    text = TextColumn(
        "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")
    )
    # What is printed meanwhile belongs where it is printed: standard output may be a file.
    live = Progress(
        *(SpinnerColumn(), text, BarColumn(bar_width=20)),
        console=Console(file=out),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    live.add_task("", total=None)
    return live
