"""The screen of ``eoslog top``: panes that are brought up to date after each look at the log. It needs textual."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.coordinate import Coordinate
from textual.events import Resize
from textual.widgets import DataTable, Footer, Input, Static

from spark_eos.cli.operate.text import head_lines
from spark_eos.cli.output import NOTHING
from spark_eos.errors import EosLogError
from spark_eos.extensions.ui.top.panes import PANES, Pane, Table, table
from spark_eos.monitoring import Activity, Watch

_TALL = 36
"""From so many lines on, all panes are shown at once."""

_LEAST = 10
"""So many columns a name gets at least."""

_SLACK = 3
"""So much wider than needed a column may be."""


class _PaneView(Vertical):
    """A pane on the screen: a title and a table."""

    def __init__(self, pane: Pane) -> None:
        super().__init__(id=pane.name.lower(), classes="pane")
        self.pane = pane
        self.sort = next(iter(pane.sorts))
        self.rows: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=True)
        self._title = Static(classes="title", markup=False)
        self._shown: list[list[str]] = []
        self._header: tuple[str, ...] = ()
        self._widths: list[int] = []
        self._screen = 0
        self._was_at: tuple[int, float] | None = None

    def compose(self) -> ComposeResult:
        """The title above the rows."""
        yield self._title
        yield self.rows

    def next_sort(self) -> None:
        """Sort by the next thing."""
        names = [*self.pane.sorts]
        self.sort = names[(names.index(self.sort) + 1) % len(names)]

    def show(self, contents: Table, width: int) -> None:
        """Bring the table up to date. Cursor and scroll position stay where they are."""
        self._title.update(contents.title)
        widths = _widths(contents, width)
        body = [[_shortened(cell, widths[at]) for at, cell in enumerate(row)] for row in contents.rows]
        rights = [_is_number(column) for column in zip(*contents.rows, strict=True)] or [False] * len(widths)
        if (contents.header, width) != (self._header, self._screen) or not _suit(widths, self._widths):
            self._build(contents.header, widths, width)
        shown = self._shown
        for at, cells in enumerate(body[: len(shown)]):
            for column, cell in enumerate(cells):
                if cell != shown[at][column]:
                    self.rows.update_cell_at(Coordinate(at, column), _cell(cell, is_right=rights[column]))
        for cells in body[len(shown) :]:
            self.rows.add_row(
                *(_cell(cell, is_right=right) for cell, right in zip(cells, rights, strict=True))
            )
        for _ in range(len(shown) - len(body)):
            self.rows.remove_row(self.rows.ordered_rows[-1].key)
        self._shown = body
        if self._was_at is not None:
            row, scrolled = self._was_at
            self._was_at = None
            self.rows.move_cursor(row=row, scroll=False)
            self.rows.scroll_to(y=scrolled, animate=False)

    def _build(self, header: tuple[str, ...], widths: list[int], screen: int) -> None:
        """Begin the table from nothing. Widths are given: to find them out takes longer than all else."""
        self._was_at = (self.rows.cursor_row, self.rows.scroll_y)
        self.rows.clear(columns=True)
        for name, each in zip(header, widths, strict=True):
            self.rows.add_column(Text(name), width=each)
        self._header, self._widths, self._screen, self._shown = header, widths, screen, []


class Top(App[None]):
    """The full-screen view. ``watch`` looks at the log every ``interval_s`` seconds, once for all panes."""

    CSS = """
    #head { height: 3; background: $panel; padding: 0 1; }
    #problem { display: none; height: auto; color: $text-error; background: $error-muted; padding: 0 1; }
    #problem.shown { display: block; }
    .pane { display: none; height: 1fr; }
    .pane.active { display: block; }
    .tall .pane { display: block; }
    .tall .pane.active { height: 2fr; }
    .title { height: 1; background: $boost; padding: 0 1; }
    .active .title { background: $primary; color: $text; text-style: bold; }
    DataTable { height: 1fr; }
    #filter { display: none; height: 1; padding: 0 1; background: $boost; }
    #filter.shown { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "pane(0)", "Readers"),
        Binding("2", "pane(1)", "Topics"),
        Binding("3", "pane(2)", "Transactions"),
        Binding("tab", "next_pane", "Next pane", show=False, priority=True),
        Binding("s", "sort", "Sort"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "clear", "Clear filter", show=False),
        Binding("p", "by_partition", "Parts"),
        Binding("space", "pause", "Pause"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(self, watch: Watch, first: Activity, interval_s: float = 1.0) -> None:
        super().__init__()
        self._watch = watch
        self._interval_s = interval_s
        self.activity = first
        self.looks = 1
        self.by_partition = False
        self.is_paused = False
        self._problem = ""
        self._is_looking = False
        self._panes = [_PaneView(pane) for pane in PANES]
        self._active = 0

    def compose(self) -> ComposeResult:
        """The head, the panes, and the help line."""
        yield Static(id="head", markup=False)
        yield Static(id="problem", markup=False)
        yield Vertical(*self._panes)
        yield Input(
            placeholder="a part of a name; Enter keeps the filter, Esc removes it", id="filter", compact=True
        )
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Show the first look, and begin to look again and again."""
        self.title = "eoslog top"
        self.action_pane(0)
        self.set_interval(self._interval_s, self._begin_look)

    def on_resize(self, event: Resize) -> None:
        """A tall screen shows all panes."""
        self.set_class(event.size.height >= _TALL, "tall")
        self.call_after_refresh(self.show)

    # -- Looking ------------------------------------------------------------------------------------

    def _begin_look(self) -> None:
        if not self.is_paused and not self._is_looking:
            self.run_worker(self.look())

    async def look(self) -> None:
        """Look at the log, without holding up keys, and show it. A failure is shown, and the next look tried."""
        self._is_looking = True
        try:
            self.activity = await _aside(self._watch.look)
            self._problem = ""
        except EosLogError as error:
            self._problem = str(error)
        finally:
            self._is_looking = False
        self.looks += 1
        self.show()

    def show(self) -> None:
        """Bring the screen up to date with the last look."""
        head = next(iter(self.query("#head").results(Static)), None)
        if head is None:
            return  # The look ended after the screen did.
        lines = [*head_lines(self.activity)]
        if self.is_paused:
            lines[1] = "PAUSED  " + lines[1]
        width = self.size.width
        head.update("\n".join(_shortened(line, width - 2) for line in lines))
        problem = self.query_one("#problem", Static)
        problem.update(f"not up to date: {self._problem}")
        problem.set_class(bool(self._problem), "shown")
        for view in self._panes:
            contents = table(view.pane, self.activity, view.sort, self.wanted, by_partition=self.by_partition)
            view.show(contents, width)

    @property
    def wanted(self) -> str:
        """What is filtered by."""
        return self.query_one("#filter", Input).value

    # -- Keys ---------------------------------------------------------------------------------------

    def action_pane(self, number: int) -> None:
        """Go to a pane."""
        self._active = number
        for at, view in enumerate(self._panes):
            view.set_class(at == number, "active")
        self._panes[number].rows.focus()
        self.show()

    def action_next_pane(self) -> None:
        """Go to the next pane."""
        self.action_pane((self._active + 1) % len(self._panes))

    def action_sort(self) -> None:
        """Sort the pane by the next thing."""
        self._panes[self._active].next_sort()
        self.show()

    def action_by_partition(self) -> None:
        """Show readers by partition, or summed up."""
        self.by_partition = not self.by_partition
        self.show()

    def action_pause(self) -> None:
        """Stop looking, or go on."""
        self.is_paused = not self.is_paused
        self.show()

    def action_filter(self) -> None:
        """Ask for a part of a name."""
        filter_input = self.query_one("#filter", Input)
        filter_input.add_class("shown")
        filter_input.focus()

    def action_clear(self) -> None:
        """Remove the filter."""
        filter_input = self.query_one("#filter", Input)
        filter_input.value = ""
        filter_input.remove_class("shown")
        self.action_pane(self._active)

    def on_input_changed(self) -> None:
        """Filter as it is typed."""
        self.show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter, and go back to the pane."""
        event.input.set_class(bool(event.value), "shown")
        self.action_pane(self._active)


async def _aside(call: Any) -> Any:
    """What ``call`` returns, in a thread that the end of the program does not wait for: a store may not answer."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def run() -> None:
        try:
            value, error = call(), None
        except Exception as failure:  # noqa: BLE001  (it is raised where the look is awaited)
            value, error = None, failure
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, daemon=True, name="eoslog-top").start()
    return await future


def _widths(contents: Table, width: int) -> list[int]:
    """How wide the columns are; names are shortened so that a row has no more than ``width`` columns."""
    widths = [max(map(cell_len, column)) for column in zip(contents.header, *contents.rows, strict=True)]
    spare = width - 2 - sum(each + 2 for at, each in enumerate(widths) if at not in contents.flexible)
    for index, at in enumerate(sorted(contents.flexible, key=widths.__getitem__)):
        share = (spare // (len(contents.flexible) - index)) - 2
        widths[at] = min(widths[at], max(_LEAST, share))
        spare -= widths[at] + 2
    return widths


def _suit(needed: list[int], has: list[int]) -> bool:
    """Whether columns can stay as they are: figures get shorter and longer all the time."""
    return all(
        has_one - _SLACK <= needed_one <= has_one for needed_one, has_one in zip(needed, has, strict=True)
    )


def _shortened(text: str, width: int) -> str:
    if len(text) <= width and text.isascii():
        return text
    short = Text(text)
    short.truncate(max(width, 1), overflow="ellipsis")
    return short.plain


def _is_number(column: tuple[str, ...]) -> bool:
    figures = [cell for cell in column if cell != NOTHING]
    return bool(figures) and all(cell.lstrip("~")[:1].isdigit() for cell in figures)


def _cell(text: str, *, is_right: bool) -> Text:
    style = "bold red" if text == "overdue" else ""
    return Text(text, style=style, justify="right" if is_right else "left")
