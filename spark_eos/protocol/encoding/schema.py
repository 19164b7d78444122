"""The Avro schema of entries in every version, put together from what each action declares.

A field or an action that is added after a release makes a new version; the schemas of all earlier ones stay readable,
and what they lack gets the default of the action's class. `tests/protocol/test_codec.py` has their fingerprints.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import Any

from spark_eos.protocol.actions import DECLARED
from spark_eos.protocol.encoding.avro import array, fingerprint, named_once, record

__all__ = ["FORMAT_VERSION", "known_schemas", "newest", "rules_of", "written"]

FORMAT_VERSION = 1
"""Version of the frame around the record; readers refuse newer ones."""

_SHARED = 1
"""The version in which a value that actions share got its newest field (`spark_eos.protocol.encoding.values`)."""
_RULES_SINCE = (1,)
"""The first version whose requests are judged by rules 1, 2, ..."""


def _entry(version: int) -> dict[str, Any]:
    """The schema of a version."""
    actions = sorted((one for one in DECLARED.values() if one.since <= version), key=lambda one: one.number)
    request = record(
        "Request",
        request_id={"type": "fixed", "name": "RequestId", "size": 16},
        timestamp_ms="long",
        writer="string",
        actions=array([one.schema(version) for one in actions]),
        clock_checked="boolean",
    )
    schema: dict[str, Any] = named_once(
        record("Entry", seq="long", requests=array(request), previous="bytes")
    )
    return schema


@cache
def written() -> tuple[dict[str, Any], ...]:
    """Every schema that a version ever wrote, oldest first; the last one is written now."""
    newest_version = max(_SHARED, *(one.newest for one in DECLARED.values()))
    return tuple(map(_entry, range(1, newest_version + 1)))


@cache
def known_schemas() -> dict[bytes, Any]:
    """Parsed schemas by fingerprint, parsed once in a process."""
    from fastavro.schema import parse_schema

    return {fingerprint(schema): parse_schema(schema) for schema in written()}


def rules_of(schema: Any) -> int:
    """The rules by which entries of this schema, one of `known_schemas`, are judged."""
    versions = enumerate(known_schemas().values(), 1)
    return bisect_right(_RULES_SINCE, next(version for version, one in versions if one is schema))


@cache
def newest() -> tuple[bytes, Any]:
    """Fingerprint and parsed schema of what is written now."""
    return list(known_schemas().items())[-1]
