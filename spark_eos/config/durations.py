"""ISO-8601 durations, as Kafka takes them: ``PnDTnHnMnS``."""

from __future__ import annotations

import re

from spark_eos.config.values import MAX_LONG, NotAllowedError

__all__ = ["parse_duration_ms"]

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
