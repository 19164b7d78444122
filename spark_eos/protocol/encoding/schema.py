"""The Avro schema of entries in every version, put together from what each action declares.

A field or an action that is added after a release makes a new version; the schemas of all earlier ones stay readable,
and what they lack gets the default of the action's class. `tests/protocol/test_codec.py` has their fingerprints.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import Any

from spark_eos.protocol.actions import DECLARED
from spark_eos.protocol.encoding.avro import Shape, array, parsed, record, versions

FORMAT_VERSION = 1
"""Version of the frame around the record; readers refuse newer ones."""

_RULES_SINCE = (1,)
"""The first version whose requests are judged by rules 1, 2, ..."""


def _entry(version: int) -> dict[str, Any]:
    """The schema of a version."""
    actions = sorted(
        (declaration for declaration in DECLARED.values() if declaration.since <= version),
        key=lambda declaration: declaration.number,
    )
    request = record(
        "Request",
        request_id={"type": "fixed", "name": "RequestId", "size": 16},
        timestamp_ms="long",
        writer="string",
        actions=array([declaration.schema(version) for declaration in actions]),
        clock_checked="boolean",
    )
    return record("Entry", seq="long", requests=array(request), previous="bytes")


@cache
def written() -> dict[int, Any]:
    """Every schema that a version ever wrote, by that version, oldest first; the last one is written now."""
    return versions(Shape(_entry, newest=max(declaration.newest for declaration in DECLARED.values())))


@cache
def known_schemas() -> dict[bytes, Any]:
    """Parsed schemas by fingerprint, parsed once in a process."""
    return parsed(written().values())


def rules_of(schema: Any) -> int:
    """The rules by which entries of this schema, one of `known_schemas`, are judged."""
    pairs = zip(written(), known_schemas().values(), strict=True)
    return bisect_right(_RULES_SINCE, next(version for version, stored in pairs if stored is schema))


@cache
def newest() -> tuple[bytes, Any]:
    """Fingerprint and parsed schema of what is written now."""
    return list(known_schemas().items())[-1]
