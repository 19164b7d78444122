"""How entries are written down: one Avro schema for each version, known by its fingerprint.

A field or an action that is added makes a new schema; the old one stays in `WRITTEN`, and what it lacks
gets the default of the action's class. Records have the names of the protocol's classes, and their fields
the names of theirs, but for the batches of a file: those are columns, which are much faster to read.
"""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["BATCH_COLUMNS", "FORMAT_VERSION", "WRITTEN", "fingerprint", "known_schemas", "newest"]

FORMAT_VERSION = 1
"""Version of the frame around the record; readers refuse newer ones."""

BATCH_COLUMNS = (
    "partition",
    "count",
    "position",
    "length",
    "crc",
    "min_timestamp_ms",
    "max_timestamp_ms",
    "base_sequence",
)
"""The columns of a file's batches, all of one length."""


def _record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, kind in fields.items()],
    }


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


def _entry(version: int) -> dict[str, Any]:
    """The schema of a version. Avro defines a named type where it is met first and names it later.

    1: the first. 2: consumer groups, expiry, and settings of the log.
    """
    pair = _record("Pair", name="string", value="string")
    stamp = _record("ProducerStamp", producer_id="long", epoch="long", number="long")
    offset = _record(
        "PartitionOffset",
        topic="string",
        topic_id="string",
        partition="long",
        offset="long",
        metadata="string",
    )
    file = _record("FileRef", name="string", size="long", schema_version="long", omitted=_array("string"))
    batches = _record("BatchRefs", **{column: _array("long") for column in BATCH_COLUMNS})
    actions = [
        _record("CreateLog", log_id="string"),
        _record(
            "CreateTopic",
            name="string",
            topic_id="string",
            partitions="long",
            config=_array(pair),
            schema=_optional("bytes"),
        ),
        _record(
            "AlterTopic",
            name="string",
            topic_id="string",
            partitions=_optional("long"),
            config=_optional(_array("Pair")),
            schema=_optional("bytes"),
        ),
        _record("DeleteTopic", name="string", topic_id="string"),
        _record(
            "InitProducer",
            producer_id="long",
            epoch="long",
            transactional_id=_optional("string"),
            timeout_ms="long",
            run_id=_optional("string"),
        ),
        _record(
            "AppendBatches",
            producer=stamp,
            topics=_array("Pair"),
            files=_array(_record("StagedFile", topic="string", file=file, batches=batches)),
        ),
        _record("CommitOffsets", group="string", offsets=_array(offset), producer=_optional("ProducerStamp"))
        if version == 1
        else _record(
            "CommitOffsets",
            group="string",
            offsets=_array(offset),
            producer=_optional("ProducerStamp"),
            member=_optional(
                _record("Membership", member_id="string", generation="long", instance_id=_optional("string"))
            ),
        ),
        _record(
            "CommitMicroBatch",
            transactional_id="string",
            query_id="string",
            run_id="string",
            batch_id="long",
            sources=_array(
                _record(
                    "SourceProgress",
                    start=_optional("string"),
                    end=_optional("string"),
                    group=_optional("string"),
                    start_offsets=_array("PartitionOffset"),
                    end_offsets=_array("PartitionOffset"),
                )
            ),
        ),
        _record("EndTransaction", producer="ProducerStamp", commit="boolean"),
        _record("AdvanceLogStart", offsets=_array("PartitionOffset")),
        _record("RaiseStagingFloor", seq="long"),
        *(() if version == 1 else _actions_v2()),
    ]
    request = _record(
        "Request",
        request_id={"type": "fixed", "name": "RequestId", "size": 16},
        timestamp_ms="long",
        writer="string",
        actions=_array(actions),
    )
    return _record("Entry", seq="long", requests=_array(request))


def _actions_v2() -> list[dict[str, Any]]:
    numbered = _record("NumberedTopic", name="string", value="long")
    return [
        _record("DeleteOffsets", group="string", partitions=_array(numbered)),
        _record(
            "JoinGroup",
            group="string",
            member_id="string",
            topics=_array("string"),
            assignors=_array("string"),
            session_timeout_ms="long",
            instance_id=_optional("string"),
            client_id="string",
        ),
        _record("SyncGroup", group="string", member_id="string", generation="long"),
        _record("LeaveGroup", group="string", members=_array("string"), silent_ms="long"),
        _record("ExpireTransaction", producer="ProducerStamp", waited_ms="long"),
        _record("ExpireProducers", producers=_array("long")),
        _record("ExpireTransactionalIds", transactional_ids=_array("string")),
        _record("ExpireOffsets", group="string", partitions=_array("NumberedTopic")),
        _record("AlterLog", config=_array("Pair")),
    ]


WRITTEN = (_entry(1), _entry(2))
"""Every schema that a release ever wrote, oldest first; the last one is written now."""


def fingerprint(schema: dict[str, Any]) -> bytes:
    """The 8 bytes of Avro's CRC-64 (Rabin) fingerprint of the schema's canonical form."""
    from fastavro.schema import fingerprint as of_text
    from fastavro.schema import to_parsing_canonical_form

    return bytes.fromhex(of_text(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


@cache
def known_schemas() -> dict[bytes, Any]:
    """Parsed schemas by fingerprint, parsed once in a process."""
    from fastavro.schema import parse_schema

    return {fingerprint(schema): parse_schema(schema) for schema in WRITTEN}


@cache
def newest() -> tuple[bytes, Any]:
    """Fingerprint and parsed schema of what is written now."""
    return list(known_schemas().items())[-1]
