"""Times, sizes and rates as people read them."""

from __future__ import annotations

from spark_eos.cli.output import NOTHING

__all__ = ["age_text", "estimated", "rate_text", "size_text"]

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
            rest = seconds % size // part
            return f"{seconds // size} {unit} {rest} {lower}" if rest else f"{seconds // size} {unit}"
    raise AssertionError(time_ms)


def size_text(size: float | None) -> str:
    """Bytes: ``312 bytes``, ``3.4 MB``."""
    from spark_eos.maintenance.maintain import size_text as text_of

    if size is None:
        return NOTHING
    return text_of(size) if size else "0"


def rate_text(per_s: float) -> str:
    """How many in a second: ``0``, ``0.3``, ``12``, ``4.5 k``."""
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
