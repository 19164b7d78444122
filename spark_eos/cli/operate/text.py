"""Times, sizes and rates as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_eos.cli.output import NOTHING, printable
from spark_eos.errors.counting import counted
from spark_eos.errors.hidden import safe_url

if TYPE_CHECKING:
    from spark_eos.monitoring import Activity

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60))


def age_text(time_ms: int | None) -> str:
    """How long something takes: ``0``, ``850 ms``, ``12.3 s``, ``5 min 3 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if time_ms is None:
        return NOTHING
    if time_ms < 1000:
        return f"{time_ms} ms" if time_ms else "0"
    seconds, smaller = time_ms // 1000, ("s", 1)
    if seconds < 60:
        return f"{time_ms / 1000:.1f} s" if time_ms < 59_950 else "59.9 s"
    for (unit, size), (lower, part) in zip(_UNITS, (*_UNITS[1:], smaller), strict=True):
        if seconds >= size:
            remainder = seconds % size // part
            return (
                f"{seconds // size} {unit} {remainder} {lower}" if remainder else f"{seconds // size} {unit}"
            )
    raise AssertionError(time_ms)


def size_text(size: float | None) -> str:
    """Bytes: ``312 bytes``, ``3.4 MB``."""
    from spark_eos.maintenance.maintain import size_text as text_of

    if size is None:
        return NOTHING
    return text_of(size) if size else "0"


def rate_text(per_s: float | None) -> str:
    """How many in a second: ``0``, ``0.3``, ``12``, ``4.5 k``."""
    if per_s is None:
        return NOTHING
    if per_s < 9.95:
        return f"{per_s:.1f}" if per_s >= 0.05 else "0"
    for unit in ("", " k", " M", " G"):
        if per_s < 999.5:
            return f"{per_s:.0f}{unit}" if not unit or per_s >= 99.5 else f"{per_s:.1f}{unit}"
        per_s /= 1000
    return f"{per_s:.1f} T"


def estimated(text: str, *, is_exact: bool) -> str:
    """``~`` before what is estimated."""
    return text if is_exact or text in {NOTHING, "0"} else f"~{text}"


def head_lines(look: Activity) -> tuple[str, str, str]:
    """What the log is, what is written, and what is wrong."""
    if look.window_s:
        rates = (
            f"{rate_text(look.entries_per_s)} entries/s, {rate_text(look.records_per_s)} records/s, "
            f"{size_text(look.bytes_per_s)}/s"
        )
    else:
        rates = "rates come with the next look"
    ago = age_text(max(0, look.now_ms - look.log_time_ms))
    return (
        printable(safe_url(look.url)),
        f"entry {look.seq:,}, {ago} ago: {rates}",
        f"{_readers_told(look)}; {_open_told(look)}",
    )


def _readers_told(look: Activity) -> str:
    readers = len({(lag.kind, lag.name) for lag in look.lags})
    if not readers:
        return "no readers"
    text = counted(readers, "reader")
    worst = max(lag.time_ms or 0 for lag in look.lags)
    unknown_count = len({(lag.kind, lag.name) for lag in look.lags if lag.is_unknown})
    unread = sum(lag.records or 0 for lag in look.lags)
    lost = sum(lag.lost for lag in look.lags if lag.kind != "publication")
    if worst:
        text += f", up to {age_text(worst)} behind"
    elif unread:  # By a clock that is behind the producers' they have no age.
        text += f", {counted(unread, 'record')} behind"
    if lost:
        text += f", {counted(lost, 'deleted offset')} not read"
    if unknown_count:
        return f"{text}, {unknown_count:,} that {'has' if unknown_count == 1 else 'have'} not committed: lag unknown"
    return text if worst or unread or lost else f"{text}, all caught up"


def _open_told(look: Activity) -> str:
    opened = look.transactions
    if not opened:
        return "no open transaction"
    late = sum(transaction.is_overdue for transaction in opened)
    held_back = sum(topic.held_back for topic in look.topics)
    count = counted(len(opened), "open transaction")
    return f"{count}{f', {late:,} overdue' if late else ''}, {held_back:,} held back"
