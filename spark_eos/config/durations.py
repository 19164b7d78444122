"""Durations: ISO-8601's, as Kafka takes them (``PnDTnHnMnS``), and Spark's (``30s``, ``15m``)."""

from __future__ import annotations

import re

from spark_eos.config.values import MAX_LONG, NotAllowedError, ValueType

# As Java's Duration.parse, which Kafka uses: no years, months or weeks.
_DURATION = re.compile(
    r"P(?:(?P<days>[0-9]+)D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?"
    r"(?:(?P<seconds>[0-9]+)(?:[.,](?P<fraction>[0-9]{1,9}))?S)?)?",
    re.IGNORECASE,
)


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a duration such as ``P3DT20H30M`` or ``PT0.5S``; less than one is cut off.

    Raises `NotAllowedError` for anything else: years, months, weeks, a sign, fractions of anything but seconds.
    """
    match = _DURATION.fullmatch(text.strip())
    parts = {} if match is None else {unit: number for unit, number in match.groupdict().items() if number}
    if not parts:
        reason = "a duration cannot be negative" if "-" in text else f"{text!r} is not a duration"
        raise NotAllowedError(
            f"{reason}. Write PnDTnHnMnS, for instance P7D, PT36H or PT1M30.5S; years, months and weeks have no "
            "fixed length and are not taken"
        )
    minutes = (int(parts.get("days", 0)) * 24 + int(parts.get("hours", 0))) * 60 + int(
        parts.get("minutes", 0)
    )
    fraction_ms = int(f"{parts.get('fraction', ''):0<3}"[:3])
    total_ms = (minutes * 60 + int(parts.get("seconds", 0))) * 1000 + fraction_ms
    if total_ms > MAX_LONG:
        raise NotAllowedError(f"more than {MAX_LONG} ms is not a duration that fits")
    return total_ms


_UNITS_US = {
    "us": 1,
    "": 1_000,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
"""Spark's units of time, in microseconds; a number alone is milliseconds (``JavaUtils.timeStringAs``)."""


class Delay(ValueType[int]):
    """Milliseconds, of a duration as Spark writes one."""

    allowed = f"a duration such as 30s, 15m or 1h (units are {', '.join(filter(None, _UNITS_US))})"

    def parse(self, value: object) -> int:
        match = re.fullmatch(r"([0-9]{1,18})([a-z]*)", str(value).strip().lower(), re.ASCII)
        if match is None or match[2] not in _UNITS_US:
            raise ValueError
        total_ms = int(match[1]) * _UNITS_US[match[2]] // 1_000
        if total_ms > MAX_LONG:
            raise ValueError
        return total_ms

    def show(self, value: int) -> str:
        for unit in ("d", "h", "m", "s"):
            size_ms = _UNITS_US[unit] // 1_000
            if value and value % size_ms == 0:
                return f"{value // size_ms}{unit}"
        return f"{value}ms"
